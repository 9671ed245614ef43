// Second in the flow: the labelled contraction as the boundary receives it, checked once when it is bound.
//
// A dimension is a list of atoms (indices into `sizes`): none is a dimension of size 1, several are a joined dimension,
// the last one innermost. An atom's class follows from the tensors it occurs in and is stated in `class_of`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "epilogue.h"

namespace lt {

using Dim = std::vector<int64_t>;
using Dims = std::vector<Dim>;

// D = epilogue(alpha * A B + beta * C + bias). C and the epilogue's aux have D's dimensions and, if the caller gives
// none, D's strides.
enum Operand { kA, kB, kC, kD, kBias, kAux, kOperands };
const char* name_of(Operand operand);

enum class LabelClass { kM, kN, kK, kBatch, kNone };
LabelClass class_of(bool in_a, bool in_b, bool in_d);

struct Contraction {
  Dims dims[kOperands];
  Epilogue epilogue;
  std::vector<int64_t> sizes;
  std::vector<int64_t> shape[kOperands];
  std::vector<LabelClass> classes;  // of each atom; kNone where it is of size 1 or in no tensor
  std::string refusal;              // why no GEMM computes this whatever the strides are; empty if one may
  bool has_bias() const { return epilogue.bias != BiasRole::kNone; }
};

// Throws ArgumentError where the lists mean nothing: an atom that `sizes` lacks, or twice in one tensor.
Contraction make_contraction(Dims a, Dims b, Dims out, Dims bias, Epilogue epilogue, std::vector<int64_t> sizes);

std::string to_text(const std::vector<int64_t>& values);

}  // namespace lt
