// A cublasLt for host memory: the entry points that need a device, and nothing else. Everything it knows of a problem it
// reads from the real library's descriptors through the public GetAttribute calls; what the documentation says is refused
// it refuses with a status. It shows that a call is well-formed and computes the right thing, not which kernel would run.
#include <cublasLt.h>
#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>

namespace {

enum Entry { kCreate, kDestroy, kHeuristic, kCheck, kMatmul, kEntries };
std::atomic<int64_t> calls[kEntries];
std::atomic<int> next_status[kEntries];
std::atomic<int> no_op{0}, sleep_us{0}, device_count{4}, capability{8}, capturing{0};
std::atomic<int64_t> wanted_workspace{0};
std::atomic<int64_t> device_switches{0};
thread_local int current_device = 0;

struct Problem {
  int64_t rows, cols, k, batch, trans_a, trans_b, lda, ldb, ldd, epilogue, device, workspace, compute, reductions, align_a;
};
Problem last_problem{};

void* real = nullptr;
template <typename F>
F real_symbol(const char* name) {
  return reinterpret_cast<F>(dlsym(real, name));
}

int count(Entry entry) {
  calls[entry].fetch_add(1);
  return next_status[entry].exchange(0);
}

template <typename T>
bool get(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute, T* value) {
  static auto call = real_symbol<decltype(&cublasLtMatrixLayoutGetAttribute)>("cublasLtMatrixLayoutGetAttribute");
  return call(layout, attribute, value, sizeof(T), nullptr) == CUBLAS_STATUS_SUCCESS;
}
template <typename T>
bool get(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute, T* value) {
  static auto call = real_symbol<decltype(&cublasLtMatmulDescGetAttribute)>("cublasLtMatmulDescGetAttribute");
  return call(desc, attribute, value, sizeof(T), nullptr) == CUBLAS_STATUS_SUCCESS;
}
template <typename T>
bool get(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute, T* value) {
  static auto call =
      real_symbol<decltype(&cublasLtMatmulPreferenceGetAttribute)>("cublasLtMatmulPreferenceGetAttribute");
  return call(preference, attribute, value, sizeof(T), nullptr) == CUBLAS_STATUS_SUCCESS;
}

struct Matrix {
  uint32_t type = 0;
  int32_t order = 0, batch = 1;
  uint64_t rows = 0, cols = 0;
  int64_t ld = 0, stride = 0;
  bool read(cublasLtMatrixLayout_t layout) {
    return layout && get(layout, CUBLASLT_MATRIX_LAYOUT_TYPE, &type) &&
           get(layout, CUBLASLT_MATRIX_LAYOUT_ORDER, &order) && get(layout, CUBLASLT_MATRIX_LAYOUT_ROWS, &rows) &&
           get(layout, CUBLASLT_MATRIX_LAYOUT_COLS, &cols) && get(layout, CUBLASLT_MATRIX_LAYOUT_LD, &ld) &&
           get(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch) &&
           get(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride);
  }
  // Column-major, at least one element, and no column runs into the next.
  bool legal() const {
    return order == CUBLASLT_ORDER_COL && rows > 0 && cols > 0 && rows <= INT32_MAX && cols <= INT32_MAX &&
           ld >= static_cast<int64_t>(rows) && batch > 0;
  }
};

struct Call {
  int32_t compute = 0, scale = 0, trans_a = 0, trans_b = 0;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  Matrix a, b, c, d;
  int64_t rows = 0, cols = 0, k = 0;

  cublasStatus_t read(cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t la, cublasLtMatrixLayout_t lb,
                      cublasLtMatrixLayout_t lc, cublasLtMatrixLayout_t ld) {
    bool ok = desc && get(desc, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, &compute) &&
              get(desc, CUBLASLT_MATMUL_DESC_SCALE_TYPE, &scale) && get(desc, CUBLASLT_MATMUL_DESC_TRANSA, &trans_a) &&
              get(desc, CUBLASLT_MATMUL_DESC_TRANSB, &trans_b) && get(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue) &&
              get(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias);
    if (!ok || !a.read(la) || !b.read(lb) || !c.read(lc) || !d.read(ld)) return CUBLAS_STATUS_INVALID_VALUE;
    return validate();
  }

  cublasStatus_t validate() {
    for (const Matrix* m : {&a, &b, &c, &d}) {
      if (!m->legal() || m->batch != d.batch) return CUBLAS_STATUS_INVALID_VALUE;
    }
    auto op_rows = [](const Matrix& m, int t) { return static_cast<int64_t>(t ? m.cols : m.rows); };
    auto op_cols = [](const Matrix& m, int t) { return static_cast<int64_t>(t ? m.rows : m.cols); };
    rows = d.rows, cols = d.cols, k = op_cols(a, trans_a);
    if (op_rows(a, trans_a) != rows || op_rows(b, trans_b) != k || op_cols(b, trans_b) != cols) {
      return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (c.rows != d.rows || c.cols != d.cols) return CUBLAS_STATUS_INVALID_VALUE;
    // Matrices of D must not overlap; those of A and B may even be one (stride 0).
    if (d.batch > 1 && d.stride < 1) return CUBLAS_STATUS_INVALID_VALUE;
    return supported_types() ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
  }

  bool supported_types() const {
    if (a.type != b.type || a.type != c.type || a.type != d.type) return false;
    if (epilogue != CUBLASLT_EPILOGUE_DEFAULT && epilogue != CUBLASLT_EPILOGUE_BIAS) return false;
    bool wide = d.type == CUDA_R_64F;
    if (scale != (wide ? CUDA_R_64F : CUDA_R_32F)) return false;
    if (wide) return compute == CUBLAS_COMPUTE_64F;
    bool narrow = d.type == CUDA_R_16F || d.type == CUDA_R_16BF;
    if (narrow) return compute == CUBLAS_COMPUTE_32F;
    return d.type == CUDA_R_32F && (compute == CUBLAS_COMPUTE_32F || compute == CUBLAS_COMPUTE_32F_FAST_TF32);
  }
};

double load(const void* data, int64_t i, uint32_t type) {
  if (type == CUDA_R_64F) return static_cast<const double*>(data)[i];
  if (type == CUDA_R_32F) return static_cast<const float*>(data)[i];
  if (type == CUDA_R_16F) return static_cast<double>(static_cast<const _Float16*>(data)[i]);
  uint32_t bits = static_cast<uint32_t>(static_cast<const uint16_t*>(data)[i]) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

uint16_t to_bf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

void store(void* data, int64_t i, uint32_t type, double value) {
  if (type == CUDA_R_64F) static_cast<double*>(data)[i] = value;
  if (type == CUDA_R_32F) static_cast<float*>(data)[i] = static_cast<float>(value);
  if (type == CUDA_R_16F) static_cast<_Float16*>(data)[i] = static_cast<_Float16>(value);
  if (type == CUDA_R_16BF) static_cast<uint16_t*>(data)[i] = to_bf16(static_cast<float>(value));
}

void compute(const Call& call, double alpha, const void* a, const void* b, double beta, const void* c, void* d) {
  uint32_t type = call.d.type;
  for (int64_t batch = 0; batch < call.d.batch; ++batch) {
    for (int64_t col = 0; col < call.cols; ++col) {
      for (int64_t row = 0; row < call.rows; ++row) {
        double sum = 0;
        for (int64_t k = 0; k < call.k; ++k) {
          int64_t ia = call.trans_a ? k + row * call.a.ld : row + k * call.a.ld;
          int64_t ib = call.trans_b ? col + k * call.b.ld : k + col * call.b.ld;
          sum += load(a, ia + batch * call.a.stride, type) * load(b, ib + batch * call.b.stride, type);
        }
        double value = alpha * sum;
        // With beta 0 C is not read.
        if (beta != 0) value += beta * load(c, row + col * call.c.ld + batch * call.c.stride, type);
        if (call.epilogue == CUBLASLT_EPILOGUE_BIAS) value += load(call.bias, row, type);
        store(d, row + col * call.d.ld + batch * call.d.stride, type, value);
      }
    }
  }
}

// What the heuristic promised travels in the algorithm's opaque words, so that the other calls can hold the caller to it.
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
  if (!kept || workspace_size < promise.workspace || (promise.workspace && !workspace)) return CUBLAS_STATUS_INVALID_VALUE;
  if (call.epilogue == CUBLASLT_EPILOGUE_BIAS && !call.bias) return CUBLAS_STATUS_INVALID_VALUE;
  // In place C must be laid out as D is.
  if (c == d && (call.c.ld != call.d.ld || call.c.stride != call.d.stride)) return CUBLAS_STATUS_INVALID_VALUE;
  bool wide = call.scale == CUDA_R_64F;
  compute(call, load(alpha, 0, wide ? CUDA_R_64F : CUDA_R_32F), a, b, load(beta, 0, wide ? CUDA_R_64F : CUDA_R_32F), c, d);
  last_problem = {call.rows, call.cols, call.k, call.d.batch, call.trans_a, call.trans_b, call.a.ld, call.b.ld, call.d.ld,
                  call.epilogue, current_device, static_cast<int64_t>(workspace_size), call.compute,
                  static_cast<int64_t>(promise.reductions), promise.align[0]};
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
                                    cublasLtMatrixLayout_t lb, void* d, cublasLtMatrixLayout_t ld,
                                    uint32_t alignment) {
  // One call as a careless caller would make it: for tests of what is refused.
  int64_t device = current_device;
  float one = 1, zero = 0;
  Promise promise{kMagic, {alignment, alignment, alignment, alignment}, static_cast<uint64_t>(wanted_workspace.load()), 0};
  cublasLtMatmulAlgo_t algo{};
  std::memcpy(&algo, &promise, sizeof(promise));
  return cublasLtMatmul(reinterpret_cast<cublasLtHandle_t>(&device), desc, &one, a, la, b, lb, &zero, d, ld, d, ld, &algo,
                        nullptr, 0, nullptr);
}
