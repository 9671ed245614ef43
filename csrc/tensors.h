// Beside gemm: what a call's DLTensors say, and whether they fit the contraction that they are called for.
#pragma once

#include <dlpack/dlpack.h>
#include <library_types.h>

#include <array>
#include <string>
#include <vector>

#include "contraction.h"

namespace lt {

// The tensors of a call. C and bias may be null.
struct Tensors {
  std::array<const DLTensor*, kOperands> of{};
  const DLTensor& operator[](Operand x) const { return *of[x]; }
  bool has(Operand x) const { return of[x] != nullptr; }
};

struct Type {
  cudaDataType_t cuda;
  bool computed;  // whether the engine computes in it
};
Type type_of(DLDataType type);
std::string to_text(DLDataType type);

char* data_of(const DLTensor& tensor);
int64_t item_size(const DLTensor& tensor);
// The largest power of two that divides the address and every step of a loop of `loop_stride` elements, at most 256.
int64_t alignment_of(const DLTensor& tensor, int64_t loop_stride);
// DLPack allows null strides where a tensor is contiguous; `storage` then holds those that it means.
const int64_t* strides_of(const DLTensor& tensor, std::vector<int64_t>* storage);

// Throws ArgumentError for a tensor that is missing, or differs from what was bound or from `a`, or lies on another
// one.
void check_tensors(const Contraction& contraction, const Tensors& tensors);

}  // namespace lt
