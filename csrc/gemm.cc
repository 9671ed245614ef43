// Finds how a call is computed: the contraction's own last answers first, then planner and plan cache.
#include "gemm.h"

#include <tvm/ffi/extra/c_env_api.h>

#include <algorithm>

#include "explain.h"
#include "key.h"
#include "launch.h"
#include "plan_cache.h"
#include "refusals.h"
#include "workspace.h"

namespace lt {
namespace {

void check_flags(int64_t flags) {
  if (flags & ~static_cast<int64_t>(kAllFlags)) {
    throw ArgumentError("flags is " + std::to_string(flags) + "; only the bits 1 to 64 mean something.");
  }
}

// Whether the library computes on the device: a double in host memory, the real one on CUDA.
bool serves(const Library& library, const DLDevice& device) {
  return device.device_type == (library.in_host_memory() ? kDLCPU : kDLCUDA) && device.device_id >= 0 &&
         device.device_id < kMaxDevices;
}

void* stream_of(const DLDevice& device) { return TVMFFIEnvGetStream(device.device_type, device.device_id); }

// Whether the strides and address are those of a view of a complex tensor's parts, and so the tensor may carry a neg
// bit, which DLPack does not tell: every step is a whole number of pairs and the address is that of a second half.
bool maybe_negative(const DLTensor& tensor) {
  int64_t bytes = item_size(tensor);
  if (bytes < 2 || reinterpret_cast<int64_t>(data_of(tensor)) % (2 * bytes) != bytes) return false;
  for (int d = 0; d < tensor.ndim; ++d) {
    if (tensor.shape[d] > 1 && (!tensor.strides || tensor.strides[d] % 2)) return false;
  }
  return true;
}

// Of the bound shape, and with memory of a's type on a's device.
bool is_one_of(const DLTensor& tensor, const std::vector<int64_t>& shape, const DLTensor& a) {
  return tensor.data && tensor.ndim == static_cast<int>(shape.size()) && lt::same(tensor.dtype, a.dtype) &&
         tensor.device.device_type == a.device.device_type && tensor.device.device_id == a.device.device_id &&
         std::equal(shape.begin(), shape.end(), tensor.shape);
}

bool by_pointers(const Found& found) { return !found.parts.empty() && found.parts[0].layout.pointers; }

}  // namespace

Library* Gemm::prepare(Tensors* tensors, Scalars scalars, int64_t flags) const {
  check_tensors(contraction_, *tensors);
  check_flags(flags);
  Library* library = Library::current();
  if (!library) throw LibraryError("no cublasLt is open: call open_library first.");
  if (!serves(*library, (*tensors)[kA].device)) {
    throw ArgumentError("a is not on a device that the opened cublasLt computes on.");
  }
  if (scalars.beta == 0) tensors->of[kC] = nullptr;  // the library does not read C then, whatever it is
  if (scalars.beta != 0 && !tensors->has(kC)) {
    throw ArgumentError("beta is " + std::to_string(scalars.beta) + ", but there is no c to scale.");
  }
  if ((*tensors)[kA].dtype.bits > 8 && !tensors->scale[kA] && !tensors->scale[kB]) return library;
  Types types = types_of(*tensors, flags);
  check_scalars(types, scalars);
  check_scales(contraction_, *tensors, types);
  return library;
}

Outcome Gemm::run(Tensors tensors, Scalars scalars, int64_t flags) {
  Library* library = prepare(&tensors, scalars, flags);
  auto found = find(tensors, flags, library);
  if (!found->refusal.empty()) return Outcome::kDeclined;
  launch(contraction_, tensors, scalars, found->types, library, found->parts);
  return Outcome::kComputed;
}

Outcome Gemm::run_plain(const Tensors& tensors, int64_t flags) {
  for (Operand x : {kA, kB, kD}) {
    if (!is_one_of(tensors[x], contraction_.shape[x], tensors[kA])) return Outcome::kOtherTensors;
  }
  Library* library = Library::current();
  if (!library || !serves(*library, tensors[kA].device)) return Outcome::kOtherTensors;
  if (maybe_negative(tensors[kA]) || maybe_negative(tensors[kB])) return Outcome::kMaybeNegative;
  // Anything unusual goes the way that checks and says it.
  if (!contraction_.epilogue.is_default() || data_of(tensors[kD]) == data_of(tensors[kA]) ||
      data_of(tensors[kD]) == data_of(tensors[kB]) || tensors[kA].dtype.bits <= 8) {
    return run(tensors, {}, flags);
  }
  check_flags(flags);
  auto found = find(tensors, flags, library);
  if (!found->refusal.empty()) return Outcome::kDeclined;
  launch(contraction_, tensors, {}, found->types, library, found->parts);
  return Outcome::kComputed;
}

std::shared_ptr<const Found> Gemm::find(const Tensors& tensors, int64_t flags, Library* library) {
  Signature signature = signature_of(tensors, flags, *library);
  std::shared_ptr<const Found> known = recall(signature);
  // An array of pointers is copied from the host's memory, which a captured graph would read again when it is replayed:
  // there a loop is taken, in `make`.
  bool captured = known && by_pointers(*known) && library->capturing(stream_of(tensors[kA].device));
  if (known && !captured) {
    if (!known->parts.empty() && known->parts[0].plan) PlanCache::global().count_hit();
    return known;
  }
  auto made = make(tensors, flags, library);
  made->signature = signature;
  bool passing = library->has_pointer_array_batches() && library->capturing(stream_of(tensors[kA].device));
  if (!passing) remember(made);
  return made;
}

std::shared_ptr<const Found> Gemm::recall(const Signature& signature) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (size_t i = 0; i < recent_.size() && recent_[i]; ++i) {
    if (!(recent_[i]->signature == signature)) continue;
    if (i > 0) std::swap(recent_[i], recent_[i - 1]);
    return recent_[i > 0 ? i - 1 : 0];
  }
  return nullptr;
}

// The one least often recalled goes: every recall takes an answer one place forward.
void Gemm::remember(const std::shared_ptr<const Found>& made) {
  std::lock_guard<std::mutex> lock(mutex_);
  size_t free = 0;
  while (free + 1 < recent_.size() && recent_[free]) ++free;
  recent_[free] = made;
}

std::vector<Layout> Gemm::layouts_of(const Tensors& tensors, const Demands& demands, Copies* copies) const {
  std::array<std::vector<int64_t>, kOperands> storage;
  Strides strides;
  for (int x = 0; x < kOperands; ++x) {
    if (tensors.of[x]) strides.of[x] = strides_of(*tensors.of[x], &storage[x]);
  }
  if (tensors.has(kAux) && contraction_.epilogue.aux_is_mask()) {
    to_bits(tensors[kAux], &storage[kAux]);
    strides.of[kAux] = storage[kAux].data();
  }
  auto layouts = choose_layouts(contraction_, strides, demands);
  if (copies) *copies = advise_copies(contraction_, strides, demands, layouts, item_size(tensors[kA]));
  return layouts;
}

std::shared_ptr<Found> Gemm::make(const Tensors& tensors, int64_t flags, Library* library) const {
  auto found = std::make_shared<Found>();
  Types types = found->types = types_of(tensors, flags);
  int device = tensors[kA].device.device_id;
  Demands demands = demands_of(types, flags, library ? library->compute_capability_major(device) : 0);
  demands.pointer_arrays = library && library->has_pointer_array_batches() && !tensors.scale[0] && !tensors.scale[1] &&
                           !library->capturing(stream_of(tensors[kA].device));
  auto layouts = layouts_of(tensors, demands, nullptr);
  found->refusal = refusal_of(tensors, types, layouts, library);
  if (!found->refusal.empty()) {
    if (layouts[0].refusal.empty()) found->parts.push_back({layouts[0], {}, nullptr});
    return found;
  }
  for (Layout& layout : layouts) {
    Part part{std::move(layout), {}, nullptr};
    if (library) {
      part.key = key_of(contraction_, tensors, types, flags, *library, part.layout);
      part.plan = PlanCache::global().find(part.key);
      if (!part.plan) {
        DeviceGuard guard(*library, device);
        part.plan = PlanCache::global().put(part.key, make_plan(*library, library->handle(device), part.key,
                                                                pointers_of(contraction_, tensors, part.layout, 0)));
      }
      if (!part.plan->refusal.empty()) found->refusal = part.plan->refusal;
    }
    found->parts.push_back(std::move(part));
  }
  return found;
}

std::string Gemm::explain(const Tensors& tensors, int64_t flags) const {
  check_tensors(contraction_, tensors);
  check_flags(flags);
  // Without a library for this device there still is a layout to show.
  Library* library = Library::current();
  if (library && !serves(*library, tensors[kA].device)) library = nullptr;
  auto found = make(tensors, flags, library);
  Types types = types_of(tensors, flags);
  Copies copies;
  int major = library ? library->compute_capability_major(tensors[kA].device.device_id) : 0;
  if (!types.refusal[0]) layouts_of(tensors, demands_of(types, flags, major), &copies);
  return to_json(*found, contraction_, copies, library);
}

}  // namespace lt
