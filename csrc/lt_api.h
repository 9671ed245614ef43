// Fifth in the flow: the cublasLt entry points, found when the program runs in the library that it has already loaded.
//
// Each is looked up first in an override (a test double), then in the real library. Opened libraries stay open: torch's
// own must not be unloaded, and the tensors and plans of other threads may still use one.
#pragma once

#include <cublasLt.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "errors.h"

namespace lt {

// The types that are called through are those of the headers this is compiled with; sizes of opaque structs are asked
// of the library itself (descriptors.h), so a 12 build serves a 13 library.
struct Api {
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtGetVersion) get_version = nullptr;
  decltype(&cublasLtGetStatusName) get_status_name = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) get_heuristic = nullptr;
  decltype(&cublasLtMatmulAlgoCheck) algo_check = nullptr;
  decltype(&cublasLtMatmulAlgoConfigGetAttribute) algo_config = nullptr;
  decltype(&cublasLtMatmulDescInit_internal) desc_init = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set = nullptr;
  decltype(&cublasLtMatrixLayoutInit_internal) layout_init = nullptr;
  decltype(&cublasLtMatrixLayoutSetAttribute) layout_set = nullptr;
  decltype(&cublasLtMatrixLayoutGetAttribute) layout_get = nullptr;
  decltype(&cublasLtMatmulPreferenceInit_internal) preference_init = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set = nullptr;
};

// Of the CUDA runtime, or of the double. Optional, see `can_switch_devices`.
struct CudaApi {
  int (*get_device)(int*) = nullptr;
  int (*set_device)(int) = nullptr;
  int (*get_attribute)(int*, int, int) = nullptr;
  int (*is_capturing)(void*, int*) = nullptr;
  int (*memcpy_async)(void*, const void*, size_t, int, void*) = nullptr;
};

class SharedObject {
 public:
  SharedObject() = default;
  // Throws LibraryError with the loader's own words.
  explicit SharedObject(const std::string& path);
  static SharedObject already_loaded(const std::string& soname);  // empty if the process has none
  explicit operator bool() const { return handle_ != nullptr; }
  void* symbol(const char* name) const;
  std::string path_of(const char* name) const;  // the file that defines the symbol

 private:
  struct Close {
    void operator()(void* handle) const;
  };
  std::unique_ptr<void, Close> handle_;
};

constexpr int kMaxDevices = 64;
constexpr int kBatchModeAttribute = 8;  // CUBLASLT_MATRIX_LAYOUT_BATCH_MODE, which 12.8's headers lack

class Library {
 public:
  // `path` empty: what the process has loaded. `override_path` empty: no override.
  Library(const std::string& path, const std::string& override_path);

  // The library that calls go to, null before the first `open`. Never freed.
  static Library* current();
  static Library& open(const std::string& path, const std::string& override_path);

  // The device's handle, created on first use; the device must be current. Throws LibraryError.
  cublasLtHandle_t handle(int device);
  int compute_capability_major(int device) const;  // 0 where it cannot be told; asked once a device
  // Without a CUDA runtime there is no telling which device is current, and work for another would go astray.
  bool can_switch_devices() const { return cuda_.get_device && cuda_.set_device; }
  bool capturing(void* stream) const;

  const Api& api() const { return api_; }
  const CudaApi& cuda() const { return cuda_; }
  const std::string& path() const { return path_; }
  const std::string& override_path() const { return override_path_; }
  size_t version() const { return version_; }
  // A double computes in host memory, so only with one do CPU tensors make sense.
  bool in_host_memory() const { return static_cast<bool>(override_); }
  bool has_pointer_array_batches() const;
  std::string status_name(cublasStatus_t status) const;

 private:
  struct DestroyHandle {
    decltype(&cublasLtDestroy) destroy;
    void operator()(cublasLtHandle_t handle) const { destroy(handle); }
  };
  using Handle = std::unique_ptr<std::remove_pointer_t<cublasLtHandle_t>, DestroyHandle>;

  void* find(const char* name) const;
  void find_lt();
  void find_cuda();

  std::string override_path_;
  SharedObject override_, real_, cudart_;
  std::string path_;
  Api api_;
  CudaApi cuda_;
  size_t version_ = 0;
  std::mutex creating_;
  std::vector<Handle> owned_;
  std::array<std::atomic<cublasLtHandle_t>, kMaxDevices> handles_{};
  mutable std::array<std::atomic<int>, kMaxDevices> capabilities_{};  // 0: not asked yet
};

// Makes the device current for a scope. Nothing to do, nothing called but cudaGetDevice, when it already is.
class DeviceGuard {
 public:
  DeviceGuard(const Library& library, int device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  const Library& library_;
  int saved_ = -1;
};

[[noreturn]] void fail(const Library& library, cublasStatus_t status, const char* call, const char* file, int line);

// The one check of a cublasLt call: anything but success becomes a LibraryError that names the call, status and place.
#define LT_CHECK(library, call)                                                                          \
  do {                                                                                                   \
    cublasStatus_t lt_status = (call);                                                                   \
    if (lt_status != CUBLAS_STATUS_SUCCESS) ::lt::fail((library), lt_status, #call, __FILE__, __LINE__); \
  } while (false)

}  // namespace lt
