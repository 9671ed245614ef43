// Fills the descriptors from a key and lets the library choose the algorithm.
#include "plan.h"

#include <array>

namespace lt {
namespace {

constexpr int kRequested = 4;  // the first result that is usable is taken; the ones behind it are for when it is not

MatrixLayout matrix(const Library& library, const PlanKey& key, int64_t rows, int64_t cols, int64_t ld,
                    int64_t stride) {
  MatrixLayout made(library, static_cast<cudaDataType_t>(key.type), rows, cols, ld);
  if (key.batch > 1) {
    made.set(library, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<int32_t>(key.batch));
    made.set(library, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride);
  }
  return made;
}

void describe(const Library& library, const PlanKey& key, const void* bias, Plan* plan) {
  auto type = static_cast<cudaDataType_t>(key.type);
  plan->desc = MatmulDesc(library, static_cast<cublasComputeType_t>(key.compute), scale_type_of(type));
  plan->desc.set(library, CUBLASLT_MATMUL_DESC_TRANSA, key.trans_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  plan->desc.set(library, CUBLASLT_MATMUL_DESC_TRANSB, key.trans_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (key.epilogue != CUBLASLT_EPILOGUE_DEFAULT) {
    plan->desc.set(library, CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<uint32_t>(key.epilogue));
    // The heuristic reads the pointer to see its alignment, so it is set before asking.
    plan->desc.set(library, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  }
  bool ta = key.trans_a, tb = key.trans_b;
  plan->a = matrix(library, key, ta ? key.k : key.rows, ta ? key.rows : key.k, key.lda, key.stride_a);
  plan->b = matrix(library, key, tb ? key.cols : key.k, tb ? key.k : key.cols, key.ldb, key.stride_b);
  plan->c = matrix(library, key, key.rows, key.cols, key.ldc, key.stride_c);
  plan->d = matrix(library, key, key.rows, key.cols, key.ldd, key.stride_d);
}

Preference preference(const Library& library, const PlanKey& key) {
  Preference made(library);
  made.set(library, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(key.workspace_limit));
  made.set(library, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, static_cast<uint32_t>(key.reduction_mask));
  made.set(library, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, static_cast<uint32_t>(key.align_a));
  made.set(library, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, static_cast<uint32_t>(key.align_b));
  made.set(library, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, static_cast<uint32_t>(key.align_c));
  made.set(library, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, static_cast<uint32_t>(key.align_d));
  return made;
}

// The algorithm is checked against the very descriptors it will run with, which also gives the workspace it needs.
bool take(const Library& library, cublasLtHandle_t handle, const PlanKey& key,
          const cublasLtMatmulHeuristicResult_t& offered, Plan* plan) {
  if (offered.state != CUBLAS_STATUS_SUCCESS) return false;
  cublasLtMatmulHeuristicResult_t checked{};
  cublasStatus_t status = library.api().algo_check(handle, plan->desc.get(), plan->a.get(), plan->b.get(),
                                                   plan->c.get(), plan->d.get(), &offered.algo, &checked);
  if (status != CUBLAS_STATUS_SUCCESS || checked.workspaceSize > static_cast<size_t>(key.workspace_limit)) return false;
  plan->algo = offered.algo;
  plan->workspace = checked.workspaceSize;
  return true;
}

void choose_algorithm(const Library& library, cublasLtHandle_t handle, const PlanKey& key, Plan* plan) {
  Preference wanted = preference(library, key);
  std::array<cublasLtMatmulHeuristicResult_t, kRequested> offered{};
  int count = 0;
  const Api& api = library.api();
  cublasStatus_t status = api.get_heuristic(handle, plan->desc.get(), plan->a.get(), plan->b.get(), plan->c.get(),
                                            plan->d.get(), wanted.get(), kRequested, offered.data(), &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) {
    plan->refusal = "the heuristic returned CUBLAS_STATUS_NOT_SUPPORTED";
    return;
  }
  if (status != CUBLAS_STATUS_SUCCESS) fail(library, status, "get_heuristic(", __FILE__, __LINE__);
  for (int i = 0; i < count; ++i) {
    if (take(library, handle, key, offered[i], plan)) return;
  }
  plan->refusal = "the heuristic offered no usable algorithm";
}

}  // namespace

size_t PlanKeyHash::operator()(const PlanKey& key) const {
  int64_t words[sizeof(PlanKey) / sizeof(int64_t)];
  std::memcpy(words, &key, sizeof(key));
  uint64_t hash = 0x9e3779b97f4a7c15u;
  for (int64_t word : words) hash = (hash ^ static_cast<uint64_t>(word)) * 0x100000001b3u, hash ^= hash >> 29;
  return hash;
}

cudaDataType_t scale_type_of(cudaDataType_t type) { return type == CUDA_R_64F ? CUDA_R_64F : CUDA_R_32F; }

std::shared_ptr<const Plan> make_plan(const Library& library, cublasLtHandle_t handle, const PlanKey& key,
                                      const void* bias) {
  auto plan = std::make_shared<Plan>();
  describe(library, key, bias, plan.get());
  choose_algorithm(library, handle, key, plan.get());
  return plan;
}

}  // namespace lt
