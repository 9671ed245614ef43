// What calls with a layout of their own are refused or declined for.
#include "refusals.h"

#include <algorithm>
#include <cmath>

#include "errors.h"
#include "key.h"

namespace lt {
namespace {

// Row-wise scales are one vector along each side of one matrix, and newer than the tensors' own.
std::string refusal_of_scales(const Tensors& tensors, const std::vector<Layout>& layouts, const Library* library) {
  bool vector_a = tensors.scale[kA] && elements_of(*tensors.scale[kA]) > 1;
  bool vector_b = tensors.scale[kB] && elements_of(*tensors.scale[kB]) > 1;
  if (!vector_a && !vector_b) return "";
  const Layout& layout = layouts[0];
  bool one = layouts.size() == 1 && layout.batch == 1 && layout.steps() == 1;
  if (!one) return "row-wise scales belong to one matrix";
  if (layout.cols > 1 && layout.rows > 1 && vector_a != vector_b) return "one scale is row-wise, the other is not";
  if (library && library->version() < kOuterVectorVersion) return "row-wise scales need cublasLt 12.9";
  return "";
}

}  // namespace

Types types_of(const Tensors& tensors, int64_t flags) {
  return types_of(tensors[kA].dtype, tensors[kB].dtype, tensors[kD].dtype, flags);
}

void check_scalars(const Types& types, Scalars scalars) {
  for (double value : {scalars.alpha, scalars.beta}) {
    if (!types.int8() || (value == std::floor(value) && std::abs(value) < 2147483648.0)) continue;
    throw ArgumentError("alpha and beta of an int8 product must be whole int32 numbers, one was " +
                        std::to_string(value) + ".");
  }
}

void check_scales(const Contraction& contraction, const Tensors& tensors, const Types& types) {
  for (int x : {kA, kB}) {
    if (!tensors.scale[x]) continue;
    std::string name = x == kA ? "scale_a" : "scale_b";
    if (!types.fp8()) throw ArgumentError(name + " was given, but only fp8 operands are scaled.");
    int64_t side = 1;
    LabelClass own = x == kA ? LabelClass::kM : LabelClass::kN;
    for (size_t i = 0; i < contraction.sizes.size(); ++i) {
      if (contraction.classes[i] != own) continue;
      if (__builtin_mul_overflow(side, contraction.sizes[i], &side)) side = INT64_MAX;
    }
    int64_t count = elements_of(*tensors.scale[x]);
    if (count != 1 && count != side) {
      throw ArgumentError(name + " has " + std::to_string(count) + " elements where 1 or " + std::to_string(side) +
                          " are right.");
    }
  }
}

// What the tensors refuse, with or without a layout.
std::string refusal_of(const Tensors& tensors, const Types& types, const std::vector<Layout>& layouts,
                       const Library* library) {
  if (!layouts[0].refusal.empty()) return layouts[0].refusal;
  for (const Layout& layout : layouts) {
    int64_t alignment = 256;
    for (Operand x : {kA, kB, kD, kC, kBias, kAux}) {
      if (!tensors.has(x)) continue;
      int64_t found = alignment_of(data_of(tensors[x]));
      if (found < item_size(tensors[x]))
        return std::string(name_of(x)) + " does not lie on a multiple of its element size";
      if (x <= kB || x == kD) alignment = std::min(alignment, found);
    }
    std::string refusal = lt::refusal_of(types, layout, alignment);
    if (!refusal.empty()) return refusal;
    bool in_place = tensors.has(kC) && data_of(tensors[kC]) == data_of(tensors[kD]);
    bool same_loops = true;
    for (const Loop& loop : layout.loops) same_loops = same_loops && loop.stride[kC] == loop.stride[kD];
    if (in_place && !(layout.c == layout.d && same_loops)) return "c is out's own memory in another layout";
  }
  if (library && !library->can_switch_devices()) return "the CUDA runtime that goes with this cublasLt is not loaded";
  return refusal_of_scales(tensors, layouts, library);
}

}  // namespace lt
