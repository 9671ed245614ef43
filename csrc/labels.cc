// Drops labels of size 1 (their strides mean nothing) and merges neighbours that are stride-compatible everywhere.
#include "labels.h"

#include <algorithm>

namespace lt {
namespace {

// Offsets are summed over a few labels and turned into bytes: each stays far enough below 64 bits for both.
constexpr int64_t kMaxSpan = int64_t{1} << 56;

// Whether all of the label lies within an address space.
bool spans(int64_t stride, int64_t size) {
  int64_t span;
  return stride > -kMaxSpan && !__builtin_mul_overflow(stride, size, &span) && span > -kMaxSpan && span < kMaxSpan;
}

// The stride of every atom of one tensor: a joined dimension is row-major, so its last atom has the dimension's stride.
// False where that is beyond any memory.
bool add_strides(const Dims& dims, const int64_t* strides, const std::vector<int64_t>& sizes, Operand operand,
                 std::vector<Label>* atoms) {
  for (size_t d = 0; d < dims.size(); ++d) {
    int64_t stride = strides[d];
    for (auto atom = dims[d].rbegin(); atom != dims[d].rend(); ++atom) {
      if (sizes[*atom] > 1 && !spans(stride, sizes[*atom])) return false;
      (*atoms)[*atom].stride[operand] = stride;
      if (sizes[*atom] > 1) stride *= sizes[*atom];
    }
  }
  return true;
}

// Whether (outer, inner) is one label: in every tensor an outer step is a whole run of the inner one. Absent is 0 = 0 *
// n.
bool merges(const Label& outer, const Label& inner) {
  if (outer.cls != inner.cls || outer.size > kMaxExtent / inner.size) return false;
  for (int x = 0; x < kOperands; ++x) {
    if (outer.stride[x] != inner.stride[x] * inner.size) return false;
  }
  return true;
}

bool merge_one_pair(std::vector<Label>* labels) {
  for (size_t i = 0; i < labels->size(); ++i) {
    for (size_t j = 0; j < labels->size(); ++j) {
      if (i == j || !merges((*labels)[i], (*labels)[j])) continue;
      (*labels)[j].size *= (*labels)[i].size;
      labels->erase(labels->begin() + static_cast<std::ptrdiff_t>(i));
      return true;
    }
  }
  return false;
}

}  // namespace

void merge(std::vector<Label>* labels) {
  while (merge_one_pair(labels)) {
  }
}

std::optional<std::vector<Label>> labels_of(const Contraction& contraction, const Strides& strides) {
  std::vector<Label> atoms;
  atoms.reserve(contraction.sizes.size());
  for (size_t i = 0; i < contraction.sizes.size(); ++i) {
    atoms.push_back({contraction.classes[i], contraction.sizes[i], {}});
  }
  for (int x = 0; x < kOperands; ++x) {
    // Without a C the library is handed D as C, with beta 0; without an aux D's strides ask nothing more of a layout.
    bool as_d = (x == kC || x == kAux) && strides.of[x] == nullptr;
    const int64_t* found = as_d ? strides.of[kD] : strides.of[x];
    if (found == nullptr) continue;
    if (!add_strides(contraction.dims[x], found, contraction.sizes, static_cast<Operand>(x), &atoms)) {
      return std::nullopt;
    }
  }
  auto of_none = [](const Label& atom) { return atom.cls == LabelClass::kNone; };
  atoms.erase(std::remove_if(atoms.begin(), atoms.end(), of_none), atoms.end());
  return atoms;
}

}  // namespace lt
