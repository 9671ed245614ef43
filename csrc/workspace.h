// Beside gemm: scratch memory for algorithms, from the allocator of the tensors' own framework.
#pragma once

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/optional.h>

#include <cstdint>

#include "lt_api.h"

namespace lt {

// The most that an algorithm may ask for, in bytes. NVIDIA advises 32 MiB on Hopper and newer, 4 MiB before.
int64_t workspace_limit(const Library& library, int device);
// Overrides the advice for every device; negative: back to the advice.
void set_workspace_limit(int64_t bytes);

// Device memory from the allocator of the tensors' framework, for work on its current stream.
tvm::ffi::Tensor allocate(DLDevice device, int64_t bytes);

// Scratch memory of at least `bytes` for work on `stream`, held until the work has been queued. One buffer a (device,
// stream), since work on one stream is done in order; while the stream captures a graph, a fresh one, which the
// allocator takes from the graph's own pool.
class Workspace {
 public:
  Workspace(const Library& library, DLDevice device, void* stream, size_t bytes);
  void* data() const { return buffer_.has_value() ? buffer_.value().data_ptr() : nullptr; }

 private:
  tvm::ffi::Optional<tvm::ffi::Tensor> buffer_;
};

}  // namespace lt
