// Beside tensors: which element types are computed together, in what, and what they ask of a layout.
#pragma once

#include <cublasLt.h>
#include <dlpack/dlpack.h>

#include <cstdint>
#include <string>

#include "layout.h"

namespace lt {

// What the caller's flags mean. Bits of the boundary's `flags`.
enum Flag : int64_t {
  kTf32 = 1,             // fp32 may be computed in TF32
  kFullReduction = 2,    // partial sums are never held in a 16-bit output type
  kNoSplitK = 4,         // one sequence of sums an output element
  kFp16Accumulate = 8,   // fp16 may be summed in fp16
  kDeterministic = 16,   // partial sums are added in a fixed order
  kBatchInvariant = 32,  // an output row's bits do not depend on how many rows there are
  kFastAccumulate = 64,  // fp8 may be summed with less precision than fp32
  kAllFlags = 127,
};

// The element types of a call; the epilogue's aux has D's type or is a mask.
struct Types {
  cudaDataType_t a = CUDA_R_32F, b = CUDA_R_32F, d = CUDA_R_32F, bias = CUDA_R_32F;
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cudaDataType_t scale = CUDA_R_32F;
  const char* refusal = "";  // why they are not computed together
  bool fp8() const { return a == CUDA_R_8F_E4M3 || a == CUDA_R_8F_E5M2; }
  bool int8() const { return a == CUDA_R_8I; }
};

bool same(DLDataType x, DLDataType y);
std::string to_text(DLDataType type);

Types types_of(DLDataType a, DLDataType b, DLDataType out, int64_t flags);
// The types that may stand beside `a`: of b and of the output, in words for the caller; null where it may.
const char* misfit_of_b(DLDataType a, DLDataType b);
const char* misfit_of_out(DLDataType a, DLDataType out);
DLDataType bias_type(DLDataType a, DLDataType out);
// `major`: the device's compute capability.
Demands demands_of(const Types& types, int64_t flags, int major);
// What of a chosen layout the types still refuse; empty if nothing. `alignment`: the least of a's, b's and D's, in
// bytes.
const char* refusal_of(const Types& types, const Layout& layout, int64_t alignment);

}  // namespace lt
