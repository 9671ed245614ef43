// Beside gemm: what a call's DLTensors say, and whether they fit the contraction that they are called for.
#pragma once

#include <dlpack/dlpack.h>

#include <array>
#include <string>
#include <vector>

#include "contraction.h"

namespace lt {

// The tensors of a call. C, bias, aux and the scales of a and b may be null.
struct Tensors {
  std::array<const DLTensor*, kOperands> of{};
  std::array<const DLTensor*, 2> scale{};  // of fp8 operands: one number, or one for each row of a and column of b
  const DLTensor& operator[](Operand x) const { return *of[x]; }
  bool has(Operand x) const { return of[x] != nullptr; }
};

char* data_of(const DLTensor& tensor);
int64_t item_size(const DLTensor& tensor);
int64_t elements_of(const DLTensor& tensor);
// The largest power of two that divides an address and every one of `steps` (bytes), at most 256.
int64_t alignment_of(const void* address, int64_t steps = 0);
// DLPack allows null strides where a tensor is contiguous; `storage` then holds those that it means.
const int64_t* strides_of(const DLTensor& tensor, std::vector<int64_t>* storage);
// A bit mask's bytes are counted in bits, of which the innermost dimension holds one for each element of D.
void to_bits(const DLTensor& mask, std::vector<int64_t>* strides);

// Throws ArgumentError for a tensor that is missing, or differs from what was bound or from `a`, or lies on another
// one.
void check_tensors(const Contraction& contraction, const Tensors& tensors);

}  // namespace lt
