// Keeps one buffer for each device and stream.
#include "workspace.h"

#include <tvm/ffi/extra/c_env_api.h>

#include <map>
#include <tuple>

#include "fork.h"

namespace lt {
namespace {

using Buffer = tvm::ffi::Tensor;

constexpr int64_t kMiB = 1 << 20;
constexpr int kHopper = 9;           // compute capability
constexpr size_t kMaxBuffers = 128;  // torch has 65 streams a device; a program that makes more gets new buffers

std::atomic<int64_t> limit_override{-1};

class Buffers {
 public:
  using Key = std::tuple<int, int, void*>;

  static Buffers& global() {
    static auto& buffers = *new Buffers;  // leaked on purpose: at exit the allocator may be gone before this is
    return buffers;
  }

  tvm::ffi::Optional<Buffer> find(const Key& key, int64_t bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto found = buffers_.find(key);
    if (found == buffers_.end() || found->second.size(0) < bytes) return std::nullopt;
    return found->second;
  }

  // A smaller buffer is let go; calls that still hold it keep it alive until their work is queued.
  void put(const Key& key, const Buffer& buffer) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (buffers_.size() >= kMaxBuffers) buffers_.clear();
    buffers_.insert_or_assign(key, buffer);
  }

 private:
  Buffers() { hold_across_fork(&mutex_); }
  std::mutex mutex_;
  std::map<Key, Buffer> buffers_;
};

}  // namespace

tvm::ffi::Tensor allocate(DLDevice device, int64_t bytes) {
  return Buffer::FromEnvAlloc(TVMFFIEnvTensorAlloc, {bytes}, DLDataType{kDLUInt, 8, 1}, device);
}

int64_t workspace_limit(const Library& library, int device) {
  int64_t set = limit_override.load(std::memory_order_relaxed);
  if (set >= 0) return set;
  return library.compute_capability_major(device) >= kHopper ? 32 * kMiB : 4 * kMiB;
}

void set_workspace_limit(int64_t bytes) { limit_override.store(bytes, std::memory_order_relaxed); }

Workspace::Workspace(const Library& library, DLDevice device, void* stream, size_t bytes) {
  if (bytes == 0) return;
  auto size = static_cast<int64_t>(bytes);
  if (library.capturing(stream)) {
    buffer_ = allocate(device, size);
    return;
  }
  Buffers::Key key{device.device_type, device.device_id, stream};
  buffer_ = Buffers::global().find(key, size);
  if (buffer_.has_value()) return;
  buffer_ = allocate(device, size);
  Buffers::global().put(key, buffer_.value());
}

}  // namespace lt
