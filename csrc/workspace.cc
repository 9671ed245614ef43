// Keeps one buffer for each device and stream.
#include "workspace.h"

#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>

#include <map>
#include <tuple>

namespace lt {
namespace {

constexpr int64_t kMiB = 1 << 20;
constexpr int kHopper = 9;  // compute capability

std::atomic<int64_t> limit_override{-1};

tvm::ffi::Tensor allocate(DLDevice device, int64_t bytes) {
  int64_t stride = 1;
  DLTensor prototype{};
  prototype.device = device;
  prototype.ndim = 1;
  prototype.dtype = DLDataType{kDLUInt, 8, 1};
  prototype.shape = &bytes;
  prototype.strides = &stride;
  TVMFFIObjectHandle made = nullptr;
  TVM_FFI_CHECK_SAFE_CALL(TVMFFIEnvTensorAlloc(&prototype, &made));
  return tvm::ffi::details::ObjectUnsafe::ObjectRefFromObjectPtr<tvm::ffi::Tensor>(
      tvm::ffi::details::ObjectUnsafe::ObjectPtrFromOwned<tvm::ffi::Object>(static_cast<TVMFFIObject*>(made)));
}

}  // namespace

int64_t workspace_limit(const Library& library, int device) {
  int64_t override = limit_override.load(std::memory_order_relaxed);
  if (override >= 0) return override;
  // Asked once a device: the attribute is a driver call, and this is on the path of every call.
  static std::array<std::atomic<int64_t>, kMaxDevices> advised{};
  int64_t found = advised[device].load(std::memory_order_relaxed);
  if (found == 0) {
    found = library.compute_capability_major(device) >= kHopper ? 32 * kMiB : 4 * kMiB;
    advised[device].store(found, std::memory_order_relaxed);
  }
  return found;
}

void set_workspace_limit(int64_t bytes) { limit_override.store(bytes, std::memory_order_relaxed); }

tvm::ffi::Tensor workspace(const Library& library, DLDevice device, void* stream, int64_t bytes) {
  if (library.capturing(stream)) return allocate(device, bytes);
  using Key = std::tuple<int, int, void*>;
  static std::mutex mutex;
  // Leaked on purpose: at exit the allocator may be gone before this is.
  static auto& buffers = *new std::map<Key, tvm::ffi::Tensor>;
  std::lock_guard<std::mutex> lock(mutex);
  auto found = buffers.find({device.device_type, device.device_id, stream});
  if (found != buffers.end() && found->second.size(0) >= bytes) return found->second;
  tvm::ffi::Tensor made = allocate(device, bytes);
  buffers.insert_or_assign(Key{device.device_type, device.device_id, stream}, made);
  return made;
}

}  // namespace lt
