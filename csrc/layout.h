// Fourth in the flow: labels -> what one cublasLtMatmul is told. No CUDA and no tvm in it: plain C++, tested as such.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "labels.h"

namespace lt {

// A loop costs a launch a turn: beyond this, a copy or ATen is the better choice.
constexpr int64_t kMaxCalls = 64;
// A side of the matrix below this, with most of its class left outside the matrix, is a gemv in disguise.
constexpr int64_t kThinSide = 8;
// A label beyond int32 is cut into pieces of this size: a power of two, so that no piece is aligned worse than all.
constexpr int64_t kPiece = int64_t{1} << 30;

// What the element types, the library and the numerics mode ask of a layout beyond what every GEMM needs.
struct Demands {
  bool k_innermost = false;      // both operands contiguous along k ("TN" to cuBLAS): fp8 on Hopper, int8
  int64_t operand_multiple = 1;  // of a's and b's leading dimensions, in elements
  int64_t output_multiple = 1;   // of c's and d's
  bool order_of_spec = false;    // D's rows are the side that the spec names last, even where sizes of 1 allow more
  bool pointer_arrays = false;   // whether the library takes batches as arrays of pointers
};

// One operand in cuBLAS's column-major terms. Strides in elements.
struct Matrix {
  bool trans = false;
  int64_t ld = 1;
  int64_t batch_stride = 0;
  bool operator==(const Matrix& o) const { return trans == o.trans && ld == o.ld && batch_stride == o.batch_stride; }
};

// A label outside matrix and batch: one call a step, or one entry a step in the arrays of pointers.
struct Loop {
  int64_t size = 1;
  std::array<int64_t, kOperands> stride{};
};

// D[rows, cols] = op(first)[rows, k] op(second)[k, cols], `batch` of them a call, for every step of every loop.
struct Layout {
  std::string refusal;  // why there is none; empty if this is one
  int64_t rows = 1, cols = 1, k = 1;
  int64_t batch = 1;
  std::vector<Loop> loops;
  bool pointers = false;   // one call: batch and loops are arrays of pointers
  bool first_is_b = true;  // the caller's b is the library's A (what row-major operands usually come to)
  Matrix first, second, c, d, aux;
  std::array<int64_t, kOperands> offset{};  // of the first element, in elements: not 0 in a later piece of a cut label
  std::string view;  // "NT" and the like as PyTorch reads it: a is [m, k], b is [k, n], row-major

  int64_t steps() const;  // of all loops together
  int64_t calls() const { return pointers ? 1 : steps(); }
  // Where step `i` starts in `operand`, in elements.
  int64_t start(Operand operand, int64_t i) const;
};

// The cheapest legal layouts that together are the contraction, or one with the reason why there is none. More than one
// only where a label is beyond int32.
std::vector<Layout> choose_layouts(const Contraction& contraction, const Strides& strides, const Demands& demands);

}  // namespace lt
