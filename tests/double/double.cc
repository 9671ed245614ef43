// A cublasLt for host memory: the entry points that need a device, and nothing else. Everything it knows of a problem
// it reads from the real library's descriptors through the public GetAttribute calls; what the documentation says is
// refused it refuses with a status. It shows that a call is well-formed and computes the right thing, not which kernel
// would run.
#include <atomic>
#include <chrono>
#include <thread>

#include "product.h"
#include "promise.h"
#include "remembered.h"

namespace {

enum Entry { kCreate, kDestroy, kHeuristic, kCheck, kMatmul, kCopy, kEntries };
enum NoOp { kCompute, kNothing, kRecordOnly };
std::atomic<int64_t> calls[kEntries];
std::atomic<int> next_status[kEntries];
std::atomic<int> no_op{0}, sleep_us{0}, device_count{4}, capability{8}, capturing{0}, algos{1};
std::atomic<int> wrong_algo{-1}, overrunning_algo{-1}, slow_algo{-1};
std::atomic<int64_t> wanted_workspace{0}, device_switches{0}, pretended_version{0}, inside{0}, most_inside{0};
thread_local int current_device = 0;

int count(Entry entry) {
  calls[entry].fetch_add(1);
  return next_status[entry].exchange(0);
}

int64_t version() {
  static auto real_version = real_symbol<decltype(&cublasLtGetVersion)>("cublasLtGetVersion");
  int64_t pretended = pretended_version.load();
  return pretended ? pretended : static_cast<int64_t>(real_version());
}
Machine machine() { return {version(), capability.load()}; }

bool aligned(const void* data, uint32_t alignment) {
  return alignment && reinterpret_cast<uintptr_t>(data) % alignment == 0;
}

bool aligned(const void* data, uint32_t alignment, const Call& call) {
  if (!call.pointers()) return aligned(data, alignment);
  for (int32_t i = 0; i < call.d.batch; ++i) {
    if (!aligned(static_cast<const void* const*>(data)[i], alignment)) return false;
  }
  return true;
}

// How many threads are in a matmul at once.
struct Inside {
  Inside() {
    int64_t now = inside.fetch_add(1) + 1, most = most_inside.load();
    while (now > most && !most_inside.compare_exchange_weak(most, now)) {
    }
  }
  ~Inside() { inside.fetch_sub(1); }
};

double factor(const void* at, int32_t type) { return load(at, 0, static_cast<uint32_t>(type)); }

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT size_t cublasLtGetVersion() { return static_cast<size_t>(version()); }

EXPORT cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (int status = count(kCreate)) return static_cast<cublasStatus_t>(status);
  *handle = reinterpret_cast<cublasLtHandle_t>(new int64_t(current_device));
  return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  count(kDestroy);
  delete reinterpret_cast<int64_t*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                                     cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                                     cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                                     cublasLtMatmulPreference_t preference, int requested,
                                                     cublasLtMatmulHeuristicResult_t results[], int* returned) {
  if (int status = count(kHeuristic)) return static_cast<cublasStatus_t>(status);
  if (!handle || requested < 1 || !results || !returned) return CUBLAS_STATUS_INVALID_VALUE;
  Call call;
  cublasStatus_t status = call.read(desc, a, b, c, d, machine());
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  uint64_t made_for = static_cast<uint64_t>(call.rows) << 32 ^ static_cast<uint64_t>(call.cols);
  Promise promise{kMagic, {}, static_cast<uint64_t>(wanted_workspace.load()), 0, 0, made_for};
  uint64_t allowed = 0;
  uint32_t reductions = 0, align[4] = {};
  bool ok = get(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &allowed) &&
            get(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions) &&
            get(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &align[0]) &&
            get(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &align[1]) &&
            get(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &align[2]) &&
            get(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &align[3]);
  if (!ok) return CUBLAS_STATUS_INVALID_VALUE;
  for (int i = 0; i < 4; ++i) promise.align[i] = static_cast<uint16_t>(align[i]);
  promise.reductions = reductions;
  *returned = 0;
  if (promise.workspace > allowed) return CUBLAS_STATUS_SUCCESS;
  for (int i = 0; i < requested && i < algos.load(); ++i) {
    promise.rank = i;
    std::memset(&results[i], 0, sizeof(results[i]));
    std::memcpy(&results[i].algo, &promise, sizeof(promise));
    results[i].workspaceSize = promise.workspace;
    results[i].state = CUBLAS_STATUS_SUCCESS;
    *returned = i + 1;
  }
  return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              const cublasLtMatmulAlgo_t* algo,
                                              cublasLtMatmulHeuristicResult_t* result) {
  if (int status = count(kCheck)) return static_cast<cublasStatus_t>(status);
  if (!handle || promise_of(algo).magic != kMagic) return CUBLAS_STATUS_INVALID_VALUE;
  Call call;
  cublasStatus_t status = call.read(desc, a, b, c, d, machine());
  if (status == CUBLAS_STATUS_SUCCESS) result->workspaceSize = promise_of(algo).workspace;
  return status;
}

EXPORT cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algo,
                                                           cublasLtMatmulAlgoConfigAttributes_t attribute, void* value,
                                                           size_t bytes, size_t* written) {
  if (promise_of(algo).magic != kMagic) return CUBLAS_STATUS_NOT_SUPPORTED;
  return tell(promise_of(algo), attribute, value, bytes, written);
}

EXPORT cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha,
                                     const void* a, cublasLtMatrixLayout_t la, const void* b, cublasLtMatrixLayout_t lb,
                                     const void* beta, const void* c, cublasLtMatrixLayout_t lc, void* d,
                                     cublasLtMatrixLayout_t ld, const cublasLtMatmulAlgo_t* algo, void* workspace,
                                     size_t workspace_size, cudaStream_t stream) {
  if (int status = count(kMatmul)) return static_cast<cublasStatus_t>(status);
  if (no_op.load(std::memory_order_relaxed) == kNothing) return CUBLAS_STATUS_SUCCESS;
  Inside counted;
  if (int us = sleep_us.load()) std::this_thread::sleep_for(std::chrono::microseconds(us));
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (*reinterpret_cast<int64_t*>(handle) != current_device) return CUBLAS_STATUS_ARCH_MISMATCH;
  if (!alpha || !beta || !a || !b || !c || !d || !algo) return CUBLAS_STATUS_INVALID_VALUE;
  Call call;
  cublasStatus_t status = call.read(desc, la, lb, lc, ld, machine());
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  Promise promise = promise_of(algo);
  bool kept = promise.magic == kMagic && aligned(a, promise.align[0], call) && aligned(b, promise.align[1], call) &&
              aligned(c, promise.align[2], call) && aligned(d, promise.align[3], call);
  if (!kept || workspace_size < promise.workspace || (promise.workspace && !workspace))
    return CUBLAS_STATUS_INVALID_VALUE;
  // In place C must be laid out as D is.
  if (c == d && (call.c.ld != call.d.ld || call.c.stride != call.d.stride)) return CUBLAS_STATUS_INVALID_VALUE;
  remember(call, promise, current_device, workspace_size, workspace, stream);
  if (no_op.load() == kRecordOnly) return CUBLAS_STATUS_SUCCESS;
  // Every byte of the workspace is the call's.
  if (promise.workspace) std::memset(workspace, 0x5a, promise.workspace);
  Product(call, factor(alpha, call.scale), factor(beta, call.scale)).run({a, b, c, d});
  if (promise.rank == slow_algo) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  if (promise.rank == wrong_algo) store(d, 0, call.d.type, load(d, 0, call.d.type) + 1);
  if (promise.rank == overrunning_algo) store(d, (call.cols - 1) * call.d.ld + call.rows, call.d.type, 1);
  return CUBLAS_STATUS_SUCCESS;
}

EXPORT cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}
EXPORT cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= device_count) return cudaErrorInvalidDevice;
  if (device != current_device) device_switches.fetch_add(1);
  current_device = device;
  return cudaSuccess;
}
EXPORT cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = capability;
  return cudaSuccess;
}
EXPORT cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = static_cast<cudaStreamCaptureStatus>(capturing.load());
  return cudaSuccess;
}
EXPORT cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t) {
  if (int status = count(kCopy)) return static_cast<cudaError_t>(status);
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}

// For the tests.
EXPORT int double_use(const char* path) {
  real = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  return real != nullptr;
}
EXPORT int64_t double_calls(int entry) { return calls[entry]; }
EXPORT void double_reset() {
  for (auto& c : calls) c = 0;
  for (auto& s : next_status) s = 0;
  no_op = sleep_us = capturing = 0;
  wanted_workspace = device_switches = pretended_version = most_inside = 0;
  capability = 8;
  algos = 1;
  wrong_algo = overrunning_algo = slow_algo = -1;
  forget_problems();
}
EXPORT void double_fail(int entry, int status) { next_status[entry] = status; }
EXPORT void double_no_op(int kind) { no_op = kind; }
EXPORT void double_sleep(int us) { sleep_us = us; }
EXPORT void double_want_workspace(int64_t bytes) { wanted_workspace = bytes; }
EXPORT void double_capturing(int on) { capturing = on; }
EXPORT void double_capability(int major) { capability = major; }
EXPORT void double_version(int64_t pretended) { pretended_version = pretended; }
EXPORT void double_algos(int offered) { algos = offered; }
EXPORT void double_wrong_algo(int rank) { wrong_algo = rank; }
EXPORT void double_overrunning_algo(int rank) { overrunning_algo = rank; }
EXPORT void double_slow_algo(int rank) { slow_algo = rank; }
EXPORT void double_enter_device(int device) { current_device = device; }
EXPORT int64_t double_device_switches() { return device_switches; }
EXPORT int64_t double_most_inside() { return most_inside; }
EXPORT int64_t double_remembered() { return count_problems(); }
EXPORT int double_problem(int64_t i, int64_t* out) { return read_problem(i, out); }
EXPORT cublasStatus_t double_matmul(cublasLtMatmulDesc_t desc, const void* a, cublasLtMatrixLayout_t la, const void* b,
                                    cublasLtMatrixLayout_t lb, void* d, cublasLtMatrixLayout_t ld, uint32_t alignment) {
  // One call as a careless caller would make it: for tests of what is refused.
  int64_t device = current_device;
  int32_t scale_type = 0;
  double wide[2] = {1, 0};
  float narrow[2] = {1, 0};
  bool is_wide = get(desc, CUBLASLT_MATMUL_DESC_SCALE_TYPE, &scale_type) && scale_type == CUDA_R_64F;
  auto one = is_wide ? static_cast<const void*>(&wide[0]) : &narrow[0];
  auto zero = is_wide ? static_cast<const void*>(&wide[1]) : &narrow[1];
  auto promised = static_cast<uint16_t>(alignment);
  Promise promise{
      kMagic, {promised, promised, promised, promised}, static_cast<uint64_t>(wanted_workspace.load()), 0, 0, 0};
  cublasLtMatmulAlgo_t algo{};
  std::memcpy(&algo, &promise, sizeof(promise));
  return cublasLtMatmul(reinterpret_cast<cublasLtHandle_t>(&device), desc, one, a, la, b, lb, zero, d, ld, d, ld, &algo,
                        nullptr, 0, nullptr);
}
