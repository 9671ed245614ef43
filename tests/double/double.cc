// A cublasLt for host memory: the entry points that need a device, and nothing else. Everything it knows of a problem
// it reads from the real library's descriptors through the public GetAttribute calls; what the documentation says is
// refused it refuses with a status. It shows that a call is well-formed and computes the right thing, not which kernel
// would run.
#include <cublasLt.h>
#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <thread>

#include "problem.h"

namespace {

enum Entry { kCreate, kDestroy, kHeuristic, kCheck, kMatmul, kEntries };
std::atomic<int64_t> calls[kEntries];
std::atomic<int> next_status[kEntries];
std::atomic<int> no_op{0}, sleep_us{0}, device_count{4}, capability{8}, capturing{0};
std::atomic<int64_t> wanted_workspace{0};
std::atomic<int64_t> device_switches{0};
thread_local int current_device = 0;

struct Problem {
  int64_t rows, cols, k, batch, trans_a, trans_b, lda, ldb, ldd, epilogue, device, workspace, compute, reductions,
      align_a;
};
std::mutex last_mutex;
Problem last_problem{};

int count(Entry entry) {
  calls[entry].fetch_add(1);
  return next_status[entry].exchange(0);
}

// What the heuristic promised travels in the algorithm's opaque words, so that the other calls can hold the caller to
// it.
struct Promise {
  uint64_t magic;
  uint32_t align[4];
  uint64_t workspace;
  uint64_t reductions;
};
constexpr uint64_t kMagic = 0x6c74646f75626c65;
static_assert(sizeof(Promise) <= sizeof(cublasLtMatmulAlgo_t), "a promise must fit into an algorithm");

Promise promise_of(const cublasLtMatmulAlgo_t* algo) {
  Promise promise;
  std::memcpy(&promise, algo, sizeof(promise));
  return promise;
}

bool aligned(const void* data, uint32_t alignment) {
  return alignment && reinterpret_cast<uintptr_t>(data) % alignment == 0;
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

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
  cublasStatus_t status = call.read(desc, a, b, c, d);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  // The heuristic reads the bias pointer for its alignment.
  if (call.epilogue == CUBLASLT_EPILOGUE_BIAS && !call.bias) return CUBLAS_STATUS_INVALID_VALUE;
  Promise promise{kMagic, {}, static_cast<uint64_t>(wanted_workspace.load()), 0};
  uint64_t allowed = 0;
  uint32_t reductions = 0;
  bool ok = get(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &allowed) &&
            get(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions) &&
            get(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &promise.align[0]) &&
            get(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &promise.align[1]) &&
            get(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &promise.align[2]) &&
            get(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &promise.align[3]);
  if (!ok) return CUBLAS_STATUS_INVALID_VALUE;
  promise.reductions = reductions;
  *returned = 0;
  if (promise.workspace > allowed) return CUBLAS_STATUS_SUCCESS;
  std::memset(&results[0], 0, sizeof(results[0]));
  std::memcpy(&results[0].algo, &promise, sizeof(promise));
  results[0].workspaceSize = promise.workspace;
  results[0].state = CUBLAS_STATUS_SUCCESS;
  *returned = 1;
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
  cublasStatus_t status = call.read(desc, a, b, c, d);
  if (status == CUBLAS_STATUS_SUCCESS) result->workspaceSize = promise_of(algo).workspace;
  return status;
}

EXPORT cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha,
                                     const void* a, cublasLtMatrixLayout_t la, const void* b, cublasLtMatrixLayout_t lb,
                                     const void* beta, const void* c, cublasLtMatrixLayout_t lc, void* d,
                                     cublasLtMatrixLayout_t ld, const cublasLtMatmulAlgo_t* algo, void* workspace,
                                     size_t workspace_size, cudaStream_t) {
  if (int status = count(kMatmul)) return static_cast<cublasStatus_t>(status);
  if (no_op.load(std::memory_order_relaxed)) return CUBLAS_STATUS_SUCCESS;
  if (int us = sleep_us.load()) std::this_thread::sleep_for(std::chrono::microseconds(us));
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (*reinterpret_cast<int64_t*>(handle) != current_device) return CUBLAS_STATUS_ARCH_MISMATCH;
  if (!alpha || !beta || !a || !b || !c || !d || !algo) return CUBLAS_STATUS_INVALID_VALUE;
  Call call;
  cublasStatus_t status = call.read(desc, la, lb, lc, ld);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  Promise promise = promise_of(algo);
  bool kept = promise.magic == kMagic && aligned(a, promise.align[0]) && aligned(b, promise.align[1]) &&
              aligned(c, promise.align[2]) && aligned(d, promise.align[3]);
  if (!kept || workspace_size < promise.workspace || (promise.workspace && !workspace))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (call.epilogue == CUBLASLT_EPILOGUE_BIAS && !call.bias) return CUBLAS_STATUS_INVALID_VALUE;
  // In place C must be laid out as D is.
  if (c == d && (call.c.ld != call.d.ld || call.c.stride != call.d.stride)) return CUBLAS_STATUS_INVALID_VALUE;
  bool wide = call.scale == CUDA_R_64F;
  compute(call, load(alpha, 0, wide ? CUDA_R_64F : CUDA_R_32F), a, b, load(beta, 0, wide ? CUDA_R_64F : CUDA_R_32F), c,
          d);
  std::lock_guard<std::mutex> lock(last_mutex);
  last_problem = {call.rows,       call.cols,
                  call.k,          call.d.batch,
                  call.trans_a,    call.trans_b,
                  call.a.ld,       call.b.ld,
                  call.d.ld,       call.epilogue,
                  current_device,  static_cast<int64_t>(workspace_size),
                  call.compute,    static_cast<int64_t>(promise.reductions),
                  promise.align[0]};
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
  wanted_workspace = 0;
  capability = 8;
  device_switches = 0;
  last_problem = {};
}
EXPORT void double_fail(int entry, int status) { next_status[entry] = status; }
EXPORT void double_no_op(int on) { no_op = on; }
EXPORT void double_sleep(int us) { sleep_us = us; }
EXPORT void double_want_workspace(int64_t bytes) { wanted_workspace = bytes; }
EXPORT void double_capturing(int on) { capturing = on; }
EXPORT void double_capability(int major) { capability = major; }
EXPORT void double_enter_device(int device) { current_device = device; }
EXPORT int64_t double_device_switches() { return device_switches; }
EXPORT void double_last(int64_t* out) { std::memcpy(out, &last_problem, sizeof(last_problem)); }
EXPORT cublasStatus_t double_matmul(cublasLtMatmulDesc_t desc, const void* a, cublasLtMatrixLayout_t la, const void* b,
                                    cublasLtMatrixLayout_t lb, void* d, cublasLtMatrixLayout_t ld, uint32_t alignment) {
  // One call as a careless caller would make it: for tests of what is refused.
  int64_t device = current_device;
  float one = 1, zero = 0;
  Promise promise{
      kMagic, {alignment, alignment, alignment, alignment}, static_cast<uint64_t>(wanted_workspace.load()), 0};
  cublasLtMatmulAlgo_t algo{};
  std::memcpy(&algo, &promise, sizeof(promise));
  return cublasLtMatmul(reinterpret_cast<cublasLtHandle_t>(&device), desc, &one, a, la, b, lb, &zero, d, ld, d, ld,
                        &algo, nullptr, 0, nullptr);
}
