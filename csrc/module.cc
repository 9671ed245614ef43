// Last in the flow: the boundary. Plain values and DLTensors come in; failures leave as Python's ValueError or
// RuntimeError.
//
// The GIL is released during a call, so everything behind this file is safe for concurrent calls.
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/optional.h>

#include <memory>
#include <utility>

#include "explain.h"
#include "gemm.h"
#include "hex.h"
#include "plan_cache.h"
#include "tuned.h"
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

using MaybeTensor = ffi::Optional<DLTensor*>;

lt::Tensors tensors_of(DLTensor* a, DLTensor* b, DLTensor* out, MaybeTensor bias, MaybeTensor c, MaybeTensor aux = {},
                       MaybeTensor scale_a = {}, MaybeTensor scale_b = {}) {
  lt::Tensors tensors;
  tensors.of[lt::kA] = a;
  tensors.of[lt::kB] = b;
  tensors.of[lt::kD] = out;
  tensors.of[lt::kBias] = bias.value_or(nullptr);
  tensors.of[lt::kC] = c.value_or(nullptr);
  tensors.of[lt::kAux] = aux.value_or(nullptr);
  tensors.scale = {scale_a.value_or(nullptr), scale_b.value_or(nullptr)};
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

// Whether the stream that work on the tensor would go to is being captured into a graph.
bool captured(DLTensor* tensor) {
  lt::Library* library = lt::Library::current();
  return library && library->capturing(TVMFFIEnvGetStream(tensor->device.device_type, tensor->device.device_id));
}

void tuned_put(const ffi::String& key, const ffi::String& algo) {
  cublasLtMatmulAlgo_t given;
  if (!lt::from_hex(std::string(algo), &given, sizeof(given))) {
    TVM_FFI_THROW(ValueError) << "algo must be 128 digits of lower-case hex.";
  }
  lt::Tuned::global().put(std::string(key), given);
}

// Plans that were made before are made anew, so that what is tuned now counts.
void tuned_apply() { lt::PlanCache::global().forget(); }

void tuned_clear() {
  lt::Tuned::global().clear();
  tuned_apply();
}

using Bound = std::shared_ptr<lt::Gemm>;

ffi::Function run_of(const Bound& gemm) {
  auto run = [gemm](DLTensor* a, DLTensor* b, DLTensor* out, MaybeTensor bias, MaybeTensor c, double alpha, double beta,
                    int64_t flags) -> int64_t {
    return guarded(
        [&] { return static_cast<int64_t>(gemm->run(tensors_of(a, b, out, bias, c), {alpha, beta}, flags)); });
  };
  return ffi::Function::FromTyped(run);
}

ffi::Function run_plain_of(const Bound& gemm) {
  auto run = [gemm](DLTensor* a, DLTensor* b, DLTensor* out, int64_t flags) -> int64_t {
    return guarded([&] {
      lt::Tensors tensors;
      tensors.of[lt::kA] = a, tensors.of[lt::kB] = b, tensors.of[lt::kD] = out;
      return static_cast<int64_t>(gemm->run_plain(tensors, flags));
    });
  };
  return ffi::Function::FromTyped(run);
}

// `algo` "": what plan cache and heuristic say.
ffi::Function run_full_of(const Bound& gemm) {
  auto run = [gemm](DLTensor* a, DLTensor* b, DLTensor* out, MaybeTensor bias, MaybeTensor c, MaybeTensor aux,
                    MaybeTensor scale_a, MaybeTensor scale_b, double alpha, double beta, int64_t flags,
                    const ffi::String& algo) -> int64_t {
    return guarded([&] {
      lt::Tensors tensors = tensors_of(a, b, out, bias, c, aux, scale_a, scale_b);
      lt::Outcome outcome = !algo.empty() ? gemm->run_with(tensors, {alpha, beta}, flags, std::string(algo))
                                          : gemm->run(tensors, {alpha, beta}, flags);
      return static_cast<int64_t>(outcome);
    });
  };
  return ffi::Function::FromTyped(run);
}

ffi::Function explain_of(const Bound& gemm) {
  auto explain = [gemm](DLTensor* a, DLTensor* b, DLTensor* out, MaybeTensor bias, MaybeTensor c, MaybeTensor aux,
                        MaybeTensor scale_a, MaybeTensor scale_b, int64_t flags) -> ffi::String {
    return guarded(
        [&] { return ffi::String(gemm->explain(tensors_of(a, b, out, bias, c, aux, scale_a, scale_b), flags)); });
  };
  return ffi::Function::FromTyped(explain);
}

ffi::Function candidates_of(const Bound& gemm) {
  auto candidates = [gemm](DLTensor* a, DLTensor* b, DLTensor* out, MaybeTensor bias, MaybeTensor c, MaybeTensor aux,
                           MaybeTensor scale_a, MaybeTensor scale_b, int64_t flags, int64_t count) -> ffi::String {
    return guarded([&] {
      return ffi::String(gemm->candidates(tensors_of(a, b, out, bias, c, aux, scale_a, scale_b), flags, count));
    });
  };
  return ffi::Function::FromTyped(candidates);
}

// Returns [run, explain, run_plain, run_full, candidates], functions on the one bound contraction.
ffi::Array<ffi::Function> contraction(const Lists& a, const Lists& b, ffi::Optional<Lists> bias, const Lists& out,
                                      const ffi::Array<int64_t>& sizes, const ffi::String& epilogue) {
  Bound gemm = guarded([&] {
    lt::Dims bias_dims = bias.has_value() ? dims_of(bias.value()) : lt::Dims{};
    std::vector<int64_t> listed(sizes.begin(), sizes.end());
    lt::Epilogue named = lt::make_epilogue(std::string(epilogue), bias.has_value());
    return std::make_shared<lt::Gemm>(
        lt::make_contraction(dims_of(a), dims_of(b), dims_of(out), bias_dims, named, listed));
  });
  return {run_of(gemm), explain_of(gemm), run_plain_of(gemm), run_full_of(gemm), candidates_of(gemm)};
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(open_library, open_library);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(library_info, library_info);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(cache_stats, cache_stats);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(cache_clear, cache_clear);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(set_cache_capacity, set_cache_capacity);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(set_workspace_bytes, lt::set_workspace_limit);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(captured, captured);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(tuned_put, tuned_put);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(tuned_apply, tuned_apply);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(tuned_clear, tuned_clear);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(contraction, contraction);
