// Beside chooser: the order in which the spec, not the memory, has a tensor's sides.
#pragma once

#include <algorithm>

#include "contraction.h"

namespace lt {

// The classes of a tensor's dimensions as the spec names them, whatever their sizes. A dimension without atoms is one
// of size 1, which is the operand's own side; in D it is that of the class that D has no label of.
class NamedOrder {
 public:
  explicit NamedOrder(const Contraction& whole) : whole_(whole) {}

  // Whether the last dimension that is a side of a GEMM is of class `cls`.
  bool ends_in(Operand x, LabelClass cls) const {
    LabelClass last = LabelClass::kNone;
    for (const Dim& dim : whole_.dims[x]) {
      LabelClass found = dim.empty() ? unlabelled(x) : class_of_atom(dim.back());
      if (found != LabelClass::kBatch) last = found;
    }
    return last == cls;
  }

 private:
  LabelClass unlabelled(Operand x) const {
    if (x != kD) return x == kA ? LabelClass::kM : LabelClass::kN;
    for (LabelClass cls : {LabelClass::kM, LabelClass::kN}) {
      if (!has(kD, cls)) return cls;
    }
    return LabelClass::kBatch;
  }
  bool has(Operand x, LabelClass cls) const {
    for (const Dim& dim : whole_.dims[x]) {
      for (int64_t atom : dim) {
        if (class_of_atom(atom) == cls) return true;
      }
    }
    return false;
  }
  LabelClass class_of_atom(int64_t atom) const { return class_of(in(kA, atom), in(kB, atom), in(kD, atom)); }
  bool in(Operand x, int64_t atom) const {
    for (const Dim& dim : whole_.dims[x]) {
      if (std::find(dim.begin(), dim.end(), atom) != dim.end()) return true;
    }
    return false;
  }

  const Contraction& whole_;
};

}  // namespace lt
