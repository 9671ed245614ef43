// Fourth in the flow: labels -> what one cublasLtMatmul is told. No CUDA and no tvm in it: plain C++, tested as such.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "labels.h"

namespace lt {

// A loop costs a launch a turn: beyond this, a copy or ATen is the better choice.
constexpr int64_t kMaxCalls = 64;

// One operand in cuBLAS's column-major terms. Strides in elements.
struct Matrix {
  bool trans = false;
  int64_t ld = 1;
  int64_t batch_stride = 0;
  int64_t loop_stride = 0;
  bool operator==(const Matrix& o) const {
    return trans == o.trans && ld == o.ld && batch_stride == o.batch_stride && loop_stride == o.loop_stride;
  }
};

// D[rows, cols] = op(first)[rows, k] op(second)[k, cols], `batch` of them a call, `calls` calls.
struct Layout {
  std::string refusal;  // why there is none; empty if this is one
  int64_t rows = 1, cols = 1, k = 1;
  int64_t batch = 1, calls = 1;
  bool first_is_b = true;  // the caller's b is the library's A (what row-major operands usually come to)
  Matrix first, second, c, d;
  std::string view;  // "NT" and the like as PyTorch reads it: a is [m, k], b is [k, n], row-major
};

// The cheapest legal layout, or the reason why there is none.
Layout choose_layout(const Contraction& contraction, const Strides& strides);

}  // namespace lt
