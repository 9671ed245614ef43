// Last in the flow: the boundary. Plain values and DLTensors come in; failures leave as Python's ValueError or
// RuntimeError.
//
// The GIL is released during a call, so everything behind this file is safe for concurrent calls.
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/optional.h>

#include <memory>
#include <utility>

#include "explain.h"
#include "gemm.h"
#include "plan_cache.h"
#include "workspace.h"

namespace {

namespace ffi = tvm::ffi;
using Lists = ffi::Array<ffi::Array<int64_t>>;

template <typename Body>
auto guarded(Body&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const lt::ArgumentError& error) {
    TVM_FFI_THROW(ValueError) << error.what();
  } catch (const lt::LibraryError& error) {
    TVM_FFI_THROW(RuntimeError) << error.what();
  }
  TVM_FFI_UNREACHABLE();
}

lt::Dims dims_of(const Lists& lists) {
  lt::Dims dims;
  for (const auto& list : lists) dims.emplace_back(list.begin(), list.end());
  return dims;
}

lt::Tensors tensors_of(DLTensor* a, DLTensor* b, DLTensor* out, ffi::Optional<DLTensor*> bias,
                       ffi::Optional<DLTensor*> c) {
  lt::Tensors tensors;
  tensors.of[lt::kA] = a;
  tensors.of[lt::kB] = b;
  tensors.of[lt::kD] = out;
  tensors.of[lt::kBias] = bias.value_or(nullptr);
  tensors.of[lt::kC] = c.value_or(nullptr);
  return tensors;
}

void open_library(const ffi::String& path, const ffi::String& override_path) {
  guarded([&] { lt::Library::open(std::string(path), std::string(override_path)); });
}

ffi::String library_info() {
  lt::Library* library = lt::Library::current();
  if (!library) return "{}";
  lt::JsonObject json;
  json.add("path", library->path()).add("version", static_cast<int64_t>(library->version()));
  json.add("override", library->override_path()).add("device_guard", library->can_switch_devices());
  return json.add("pointer_array_batches", library->has_pointer_array_batches()).text();
}

ffi::String cache_stats() {
  lt::CacheStats stats = lt::PlanCache::global().stats();
  lt::JsonObject json;
  json.add("hits", stats.hits).add("misses", stats.misses).add("evictions", stats.evictions);
  return json.add("size", stats.size).add("capacity", stats.capacity).text();
}

void cache_clear() { lt::PlanCache::global().clear(); }

void set_cache_capacity(int64_t plans) {
  if (plans < 1) TVM_FFI_THROW(ValueError) << "plans must be at least 1, was " << plans << ".";
  lt::PlanCache::global().set_capacity(plans);
}

// Returns [run, explain], two functions on the one bound contraction.
ffi::Array<ffi::Function> contraction(const Lists& a, const Lists& b, ffi::Optional<Lists> bias, const Lists& out,
                                      const ffi::Array<int64_t>& sizes) {
  auto gemm = guarded([&] {
    lt::Dims bias_dims = bias.has_value() ? dims_of(bias.value()) : lt::Dims{};
    std::vector<int64_t> listed(sizes.begin(), sizes.end());
    return std::make_shared<lt::Gemm>(
        lt::make_contraction(dims_of(a), dims_of(b), dims_of(out), bias.has_value(), bias_dims, listed));
  });
  auto run = [gemm](DLTensor* a, DLTensor* b, DLTensor* out, ffi::Optional<DLTensor*> bias, ffi::Optional<DLTensor*> c,
                    double alpha, double beta, int64_t flags) -> int64_t {
    return guarded([&] { return gemm->run(tensors_of(a, b, out, bias, c), {alpha, beta}, flags) ? 0 : 1; });
  };
  auto explain = [gemm](DLTensor* a, DLTensor* b, DLTensor* out, ffi::Optional<DLTensor*> bias,
                        ffi::Optional<DLTensor*> c, int64_t flags) -> ffi::String {
    return guarded([&] { return ffi::String(gemm->explain(tensors_of(a, b, out, bias, c), flags)); });
  };
  return {ffi::Function::FromTyped(run), ffi::Function::FromTyped(explain)};
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(open_library, open_library);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(library_info, library_info);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(cache_stats, cache_stats);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(cache_clear, cache_clear);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(set_cache_capacity, set_cache_capacity);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(set_workspace_bytes, lt::set_workspace_limit);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(contraction, contraction);
