// Finds libraries and symbols, keeps a handle for each device, and puts failures into words.
#include "lt_api.h"

#include <dlfcn.h>

#include <map>
#include <utility>

#include "fork.h"

namespace lt {
namespace {

constexpr int kComputeCapabilityMajor = 75;  // cudaDevAttrComputeCapabilityMajor

std::atomic<Library*> current_library{nullptr};

template <typename Pointer>
void assign(Pointer* target, void* found) {
  *target = reinterpret_cast<Pointer>(found);
}

}  // namespace

void SharedObject::Close::operator()(void* handle) const { dlclose(handle); }

SharedObject::SharedObject(const std::string& path) : handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (!handle_) throw LibraryError("cannot open " + path + ": " + dlerror() + ".");
}

SharedObject SharedObject::already_loaded(const std::string& soname) {
  SharedObject found;
  found.handle_.reset(dlopen(soname.c_str(), RTLD_NOW | RTLD_NOLOAD));
  return found;
}

void* SharedObject::symbol(const char* name) const { return handle_ ? dlsym(handle_.get(), name) : nullptr; }

std::string SharedObject::path_of(const char* name) const {
  Dl_info info;
  void* address = symbol(name);
  return address && dladdr(address, &info) && info.dli_fname ? info.dli_fname : "";
}

Library::Library(const std::string& path, const std::string& override_path) : override_path_(override_path) {
  if (!override_path.empty()) override_ = SharedObject(override_path);
  if (!path.empty()) real_ = SharedObject(path);
  for (const char* soname : {"libcublasLt.so.13", "libcublasLt.so.12"}) {
    if (!real_) real_ = SharedObject::already_loaded(soname);
  }
  if (!real_) throw LibraryError("this process has no libcublasLt.so.13 or .so.12 loaded.");
  path_ = real_.path_of("cublasLtCreate");
  if (path_.empty()) throw LibraryError("the libcublasLt that this process has loaded has no cublasLtCreate.");
  find_lt();
  version_ = api_.get_version();
  find_cuda();
}

void* Library::find(const char* name) const {
  void* found = override_.symbol(name);
  if (!found) found = real_.symbol(name);
  if (!found) throw LibraryError(path_ + " has no " + name + ".");
  return found;
}

void Library::find_lt() {
  assign(&api_.create, find("cublasLtCreate"));
  assign(&api_.destroy, find("cublasLtDestroy"));
  assign(&api_.get_version, find("cublasLtGetVersion"));
  assign(&api_.get_status_name, find("cublasLtGetStatusName"));
  assign(&api_.matmul, find("cublasLtMatmul"));
  assign(&api_.get_heuristic, find("cublasLtMatmulAlgoGetHeuristic"));
  assign(&api_.algo_check, find("cublasLtMatmulAlgoCheck"));
  assign(&api_.algo_config, find("cublasLtMatmulAlgoConfigGetAttribute"));
  assign(&api_.desc_init, find("cublasLtMatmulDescInit_internal"));
  assign(&api_.desc_set, find("cublasLtMatmulDescSetAttribute"));
  assign(&api_.layout_init, find("cublasLtMatrixLayoutInit_internal"));
  assign(&api_.layout_set, find("cublasLtMatrixLayoutSetAttribute"));
  assign(&api_.layout_get, find("cublasLtMatrixLayoutGetAttribute"));
  assign(&api_.preference_init, find("cublasLtMatmulPreferenceInit_internal"));
  assign(&api_.preference_set, find("cublasLtMatmulPreferenceSetAttribute"));
}

void Library::find_cuda() {
  // The runtime that goes with this cublasLt; a double brings its own devices and must not see real ones.
  if (!override_) cudart_ = SharedObject::already_loaded("libcudart.so." + std::to_string(version_ / 10000));
  const SharedObject& from = override_ ? override_ : cudart_;
  assign(&cuda_.get_device, from.symbol("cudaGetDevice"));
  assign(&cuda_.set_device, from.symbol("cudaSetDevice"));
  assign(&cuda_.get_attribute, from.symbol("cudaDeviceGetAttribute"));
  assign(&cuda_.is_capturing, from.symbol("cudaStreamIsCapturing"));
  assign(&cuda_.memcpy_async, from.symbol("cudaMemcpyAsync"));
}

Library* Library::current() { return current_library.load(std::memory_order_acquire); }

Library& Library::open(const std::string& path, const std::string& override_path) {
  static std::mutex mutex;
  // Leaked on purpose: at exit CUDA may be gone before this is.
  static auto& opened = *new std::map<std::pair<std::string, std::string>, std::unique_ptr<Library>>;
  static std::once_flag once;
  std::call_once(once, [] { hold_across_fork(&mutex); });
  std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<Library>& library = opened[{path, override_path}];
  if (!library) {
    library = std::make_unique<Library>(path, override_path);
    hold_across_fork(&library->creating_);
  }
  current_library.store(library.get(), std::memory_order_release);
  return *library;
}

cublasLtHandle_t Library::handle(int device) {
  if (device < 0 || device >= kMaxDevices) throw ArgumentError("device " + std::to_string(device) + " is beyond 63.");
  cublasLtHandle_t found = handles_[device].load(std::memory_order_acquire);
  if (found) return found;
  std::lock_guard<std::mutex> lock(creating_);
  found = handles_[device].load(std::memory_order_acquire);
  if (found) return found;
  LT_CHECK(*this, api_.create(&found));
  owned_.emplace_back(found, DestroyHandle{api_.destroy});
  handles_[device].store(found, std::memory_order_release);
  return found;
}

int Library::compute_capability_major(int device) const {
  int major = capabilities_[device].load(std::memory_order_relaxed);
  if (major) return major;
  if (!cuda_.get_attribute || cuda_.get_attribute(&major, kComputeCapabilityMajor, device) != 0) return 0;
  capabilities_[device].store(major, std::memory_order_relaxed);
  return major;
}

bool Library::capturing(void* stream) const {
  int status = 0;
  // An error (the legacy stream while another captures) is no capture of this stream.
  return cuda_.is_capturing && cuda_.is_capturing(stream, &status) == 0 && status != 0;
}

bool Library::has_pointer_array_batches() const {
  // 12.8 answers for this attribute too but has no pointer arrays: they came with CUDA 13.
  if (version_ < 130000 || !cuda_.memcpy_async) return false;
  alignas(16) uint64_t storage[64] = {};
  auto layout = reinterpret_cast<cublasLtMatrixLayout_t>(storage);
  if (api_.layout_init(layout, sizeof(storage), CUDA_R_32F, 1, 1, 1) != CUBLAS_STATUS_SUCCESS) return false;
  size_t size = 0;
  return api_.layout_get(layout, static_cast<cublasLtMatrixLayoutAttribute_t>(kBatchModeAttribute), nullptr, 0,
                         &size) == CUBLAS_STATUS_SUCCESS;
}

std::string Library::status_name(cublasStatus_t status) const { return api_.get_status_name(status); }

DeviceGuard::DeviceGuard(const Library& library, int device) : library_(library) {
  const CudaApi& cuda = library.cuda();
  int now = 0;
  if (cuda.get_device && cuda.get_device(&now) != 0) throw LibraryError("cudaGetDevice failed.");
  if (now == device) return;
  if (!cuda.set_device || cuda.set_device(device) != 0) {
    throw LibraryError("cudaSetDevice(" + std::to_string(device) + ") failed.");
  }
  saved_ = now;
}

DeviceGuard::~DeviceGuard() {
  if (saved_ >= 0) library_.cuda().set_device(saved_);
}

void fail(const Library& library, cublasStatus_t status, const char* call, const char* file, int line) {
  std::string place = file, what = call;
  place = place.substr(place.find_last_of('/') + 1);
  what = what.substr(0, what.find('('));
  what = what.substr(what.find_last_of('.') + 1);
  throw LibraryError("cublasLt's " + what + " returned " + library.status_name(status) + " (" + place + ":" +
                     std::to_string(line) + ")");
}

}  // namespace lt
