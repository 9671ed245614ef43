// Checks a contraction's lists and finds what they alone decide: shapes, classes, and what no GEMM can do.
#include "contraction.h"

#include <algorithm>

#include "errors.h"

namespace lt {
namespace {

bool occurs(const Dims& dims, int64_t atom) {
  return std::any_of(dims.begin(), dims.end(),
                     [=](const Dim& dim) { return std::find(dim.begin(), dim.end(), atom) != dim.end(); });
}

std::vector<int64_t> shape_of(const Dims& dims, const std::vector<int64_t>& sizes) {
  std::vector<int64_t> shape;
  for (const Dim& dim : dims) {
    int64_t extent = 1;
    for (int64_t atom : dim) {
      if (__builtin_mul_overflow(extent, sizes[atom], &extent)) throw ArgumentError("a dimension is beyond 64 bits.");
    }
    shape.push_back(extent);
  }
  return shape;
}

void check_atoms(Operand operand, const Dims& dims, size_t count) {
  std::vector<bool> seen(count, false);
  for (const Dim& dim : dims) {
    for (int64_t atom : dim) {
      std::string subject = std::string(name_of(operand)) + " has the atom " + std::to_string(atom);
      if (atom < 0 || atom >= static_cast<int64_t>(count)) {
        throw ArgumentError(subject + ", but sizes has " + std::to_string(count) + " entries.");
      }
      if (seen[atom]) throw ArgumentError(subject + " twice; a diagonal is no GEMM.");
      seen[atom] = true;
    }
  }
}

std::string refusal_of(const Contraction& contraction, int64_t atom, LabelClass found) {
  std::string subject = "label " + std::to_string(atom) + " of size " + std::to_string(contraction.sizes[atom]);
  bool in_d = occurs(contraction.dims[kD], atom);
  if (contraction.has_bias() && occurs(contraction.dims[kBias], atom) && !in_d) {
    return subject + " is in the bias and not in the output";
  }
  if (found != LabelClass::kNone) return "";
  if (in_d) return subject + " is in the output and in no operand";
  return subject + " is in one operand only: it is summed by no GEMM";
}

void classify(Contraction* contraction, int64_t atom) {
  int64_t size = contraction->sizes[atom];
  bool in[kOperands];
  for (int x = 0; x < kOperands; ++x) in[x] = occurs(contraction->dims[x], atom);
  if (!(in[kA] || in[kB] || in[kD] || in[kBias])) return;
  if (size == 0) contraction->refusal = "label " + std::to_string(atom) + " has size 0: there is nothing to multiply";
  if (size <= 1) return;
  contraction->classes[atom] = class_of(in[kA], in[kB], in[kD]);
  if (contraction->refusal.empty()) contraction->refusal = refusal_of(*contraction, atom, contraction->classes[atom]);
}

}  // namespace

const char* name_of(Operand operand) {
  static const char* const names[kOperands] = {"a", "b", "c", "out", "bias", "aux"};
  return names[operand];
}

LabelClass class_of(bool in_a, bool in_b, bool in_d) {
  if (in_a && in_b) return in_d ? LabelClass::kBatch : LabelClass::kK;
  if (!in_d) return LabelClass::kNone;
  return in_a ? LabelClass::kM : in_b ? LabelClass::kN : LabelClass::kNone;
}

std::string to_text(const std::vector<int64_t>& values) {
  std::string text = "(";
  for (size_t i = 0; i < values.size(); ++i) text += (i ? ", " : "") + std::to_string(values[i]);
  return text + ")";
}

Contraction make_contraction(Dims a, Dims b, Dims out, Dims bias, Epilogue epilogue, std::vector<int64_t> sizes) {
  Contraction made;
  made.sizes = std::move(sizes);
  for (int64_t size : made.sizes) {
    if (size < 0) throw ArgumentError("sizes has the negative entry " + std::to_string(size) + ".");
  }
  made.epilogue = epilogue;
  made.dims[kA] = std::move(a);
  made.dims[kB] = std::move(b);
  made.dims[kC] = out;
  made.dims[kAux] = out;
  made.dims[kD] = std::move(out);
  made.dims[kBias] = std::move(bias);
  for (int x = 0; x < kOperands; ++x) {
    check_atoms(static_cast<Operand>(x), made.dims[x], made.sizes.size());
    made.shape[x] = shape_of(made.dims[x], made.sizes);
  }
  made.classes.assign(made.sizes.size(), LabelClass::kNone);
  for (size_t atom = 0; atom < made.sizes.size(); ++atom) classify(&made, static_cast<int64_t>(atom));
  return made;
}

}  // namespace lt
