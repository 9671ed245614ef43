// Drops labels of size 1 (their strides mean nothing) and merges neighbours that are stride-compatible everywhere.
#include "labels.h"

namespace lt {
namespace {

// The stride of every atom of one tensor: a joined dimension is row-major, so its last atom has the dimension's stride.
void add_strides(const Dims& dims, const int64_t* strides, const std::vector<int64_t>& sizes, Operand operand,
                 std::vector<Label>* atoms) {
  for (size_t d = 0; d < dims.size(); ++d) {
    int64_t stride = strides[d];
    for (auto atom = dims[d].rbegin(); atom != dims[d].rend(); ++atom) {
      (*atoms)[*atom].stride[operand] = stride;
      stride *= sizes[*atom];
    }
  }
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

std::vector<Label> labels_of(const Contraction& contraction, const Strides& strides) {
  std::vector<Label> atoms;
  for (size_t i = 0; i < contraction.sizes.size(); ++i) {
    atoms.push_back({contraction.classes[i], contraction.sizes[i], {}});
  }
  for (int x = 0; x < kOperands; ++x) {
    // Without a C the library is handed D as C, with beta 0.
    const int64_t* found = x == kC && strides.of[kC] == nullptr ? strides.of[kD] : strides.of[x];
    if (found != nullptr) {
      add_strides(contraction.dims[x], found, contraction.sizes, static_cast<Operand>(x), &atoms);
    }
  }
  std::vector<Label> labels;
  for (const Label& atom : atoms) {
    if (atom.cls != LabelClass::kNone) labels.push_back(atom);
  }
  merge(&labels);
  return labels;
}

}  // namespace lt
