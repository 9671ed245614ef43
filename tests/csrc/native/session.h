// The engine in a program without Python: a library opened over the double, an allocator, calls.
#pragma once

#include <dlfcn.h>
#include <tvm/ffi/extra/c_env_api.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "gemm.h"
#include "generate.h"
#include "plan_cache.h"

namespace fuzz {

inline std::atomic<int64_t> allocated{0};  // workspaces that are alive

// DLPack's allocator: plain memory, counted.
inline int allocate(DLTensor* prototype, DLManagedTensorVersioned** out, void*,
                    void (*)(void*, const char*, const char*)) {
  auto* made = new DLManagedTensorVersioned{};
  made->version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  made->dl_tensor = *prototype;
  auto* numbers = new int64_t[2 * static_cast<size_t>(prototype->ndim) + 1];
  int64_t bytes = prototype->dtype.bits / 8;
  for (int d = 0; d < prototype->ndim; ++d) numbers[d] = prototype->shape[d], bytes *= prototype->shape[d];
  int64_t step = 1;
  for (int d = prototype->ndim - 1; d >= 0; --d) numbers[prototype->ndim + d] = step, step *= prototype->shape[d];
  made->dl_tensor.shape = numbers;
  made->dl_tensor.strides = numbers + prototype->ndim;
  made->dl_tensor.data = std::aligned_alloc(256, static_cast<size_t>((bytes + 255) / 256 * 256));
  made->deleter = [](DLManagedTensorVersioned* self) {
    std::free(self->dl_tensor.data);
    delete[] self->dl_tensor.shape;
    delete self;
    allocated.fetch_sub(1);
  };
  allocated.fetch_add(1);
  *out = made;
  return 0;
}

// The double's switches.
struct Double {
  explicit Double(const char* path, const char* real) : handle(dlopen(path, RTLD_NOW)) {
    if (!handle) std::fprintf(stderr, "%s\n", dlerror()), std::exit(2);
    if (!symbol<int (*)(const char*)>("double_use")(real)) std::exit(2);
  }
  template <typename F>
  F symbol(const char* name) const {
    return reinterpret_cast<F>(dlsym(handle, name));
  }
  void set(const char* name, int value) const { symbol<void (*)(int)>(name)(value); }
  void set64(const char* name, int64_t value) const { symbol<void (*)(int64_t)>(name)(value); }
  int64_t get(const char* name) const { return symbol<int64_t (*)()>(name)(); }
  int64_t calls(int entry) const { return symbol<int64_t (*)(int)>("double_calls")(entry); }
  void fail(int entry, int status) const { symbol<void (*)(int, int)>("double_fail")(entry, status); }
  void* handle;
};

inline Double open(const char* double_path, const char* real_path) {
  TVMFFIEnvSetDLPackManagedTensorAllocator(allocate, 1, nullptr);
  Double made(double_path, real_path);
  lt::Library::open(real_path, double_path);
  return made;
}

inline lt::Tensors tensors_of(const Problem& problem) {
  lt::Tensors tensors;
  for (lt::Operand x : {lt::kA, lt::kB, lt::kD}) tensors.of[x] = &problem.tensors[static_cast<size_t>(x)].dl;
  if (problem.has_c) tensors.of[lt::kC] = &problem.tensors[lt::kC].dl;
  if (problem.epilogue.bias != lt::BiasRole::kNone) tensors.of[lt::kBias] = &problem.tensors[lt::kBias].dl;
  if (problem.epilogue.has_aux()) tensors.of[lt::kAux] = &problem.tensors[lt::kAux].dl;
  return tensors;
}

inline std::shared_ptr<lt::Gemm> bind(const Problem& problem) {
  return std::make_shared<lt::Gemm>(lt::make_contraction(problem.dims[lt::kA], problem.dims[lt::kB],
                                                         problem.dims[lt::kD], problem.dims[lt::kBias],
                                                         problem.epilogue, problem.sizes));
}

}  // namespace fuzz
