// Beside gemm: scratch memory for algorithms, from the allocator of the tensors' own framework.
#pragma once

#include <cstdint>
#include <tvm/ffi/container/tensor.h>

#include "lt_api.h"

namespace lt {

// The most that an algorithm may ask for, in bytes. NVIDIA advises 32 MiB on Hopper and newer, 4 MiB before.
int64_t workspace_limit(const Library& library, int device);
// Overrides the advice for every device; negative: back to the advice.
void set_workspace_limit(int64_t bytes);

// Scratch memory of at least `bytes` for work on `stream`. One buffer a (device, stream), since work on one stream is
// done in order; while the stream captures a graph, a fresh one, which the allocator takes from the graph's own pool.
tvm::ffi::Tensor workspace(const Library& library, DLDevice device, void* stream, int64_t bytes);

}  // namespace lt
