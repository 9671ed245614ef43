// Fills the descriptors from a key and lets the library choose the algorithm.
#include "plan.h"

#include <array>

#include "hex.h"
#include "tuned.h"
#include "types.h"

namespace lt {
namespace {

constexpr int kRequested = 4;  // the first result that is usable is taken; the ones behind it are for when it is not
// Rows of the problem whose algorithm serves every number of rows in batch-invariant mode: large enough that the
// heuristic does not choose for a gemv.
constexpr int64_t kInvariantRows = 1024;
constexpr int64_t kInvariantAlignment = 16;
constexpr int32_t kPointerArray = 1;  // CUBLASLT_BATCH_MODE_POINTER_ARRAY

MatrixLayout matrix(const Library& library, const PlanKey& key, int64_t type, int64_t rows, int64_t cols, int64_t ld,
                    int64_t stride) {
  MatrixLayout made(library, static_cast<cudaDataType_t>(type), rows, cols, ld);
  if (key.batch > 1) {
    made.set(library, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<int32_t>(key.batch));
    if (!key.pointers) made.set(library, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride);
  }
  if (key.pointers) made.set(library, static_cast<cublasLtMatrixLayoutAttribute_t>(kBatchModeAttribute), kPointerArray);
  return made;
}

void describe_epilogue(const Library& library, const PlanKey& key, MatmulDesc* desc) {
  if (key.epilogue != CUBLASLT_EPILOGUE_DEFAULT) {
    desc->set(library, CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<uint32_t>(key.epilogue));
  }
  if (key.align_bias && key.type_bias != key.type_d) {
    desc->set(library, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<int32_t>(key.type_bias));
  }
  if (key.align_aux) {
    desc->set(library, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, key.ld_aux);
    if (key.batch > 1) desc->set(library, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, key.stride_aux);
  }
}

void describe_scales(const Library& library, const PlanKey& key, MatmulDesc* desc) {
  // The scalar mode is the default, and the only one that versions without the attribute have.
  auto set = [&](int64_t mode, cublasLtMatmulDescAttributes_t attribute) {
    if (mode > kScaleScalar) desc->set(library, attribute, static_cast<int32_t>(mode));
  };
  set(key.scale_mode_a, CUBLASLT_MATMUL_DESC_A_SCALE_MODE);
  set(key.scale_mode_b, CUBLASLT_MATMUL_DESC_B_SCALE_MODE);
  if (key.flags & kFastAccumulate) desc->set(library, CUBLASLT_MATMUL_DESC_FAST_ACCUM, int8_t{1});
}

Plan describe(const Library& library, const PlanKey& key, const DescPointers& pointers) {
  Plan plan;
  plan.desc =
      MatmulDesc(library, static_cast<cublasComputeType_t>(key.compute), static_cast<cudaDataType_t>(key.scale));
  plan.desc.set(library, CUBLASLT_MATMUL_DESC_TRANSA, key.trans_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  plan.desc.set(library, CUBLASLT_MATMUL_DESC_TRANSB, key.trans_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  describe_epilogue(library, key, &plan.desc);
  describe_scales(library, key, &plan.desc);
  set_pointers(library, pointers, &plan.desc);
  bool ta = key.trans_a, tb = key.trans_b;
  plan.a = matrix(library, key, key.type_a, ta ? key.k : key.rows, ta ? key.rows : key.k, key.lda, key.stride_a);
  plan.b = matrix(library, key, key.type_b, tb ? key.cols : key.k, tb ? key.k : key.cols, key.ldb, key.stride_b);
  plan.c = matrix(library, key, key.type_d, key.rows, key.cols, key.ldc, key.stride_c);
  plan.d = matrix(library, key, key.type_d, key.rows, key.cols, key.ldd, key.stride_d);
  return plan;
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
bool take(const Library& library, cublasLtHandle_t handle, const PlanKey& key, const cublasLtMatmulAlgo_t& algo,
          Plan* plan) {
  cublasLtMatmulHeuristicResult_t checked{};
  cublasStatus_t status = library.api().algo_check(handle, plan->desc.get(), plan->a.get(), plan->b.get(),
                                                   plan->c.get(), plan->d.get(), &algo, &checked);
  if (status != CUBLAS_STATUS_SUCCESS || checked.workspaceSize > static_cast<size_t>(key.workspace_limit)) return false;
  plan->algo = algo;
  plan->workspace = checked.workspaceSize;
  return true;
}

// What the heuristic offers, best first; with `refusal` set where it supports no such problem.
std::vector<cublasLtMatmulAlgo_t> offers(const Library& library, cublasLtHandle_t handle, const PlanKey& key,
                                         const Plan& plan, int count, std::string* refusal) {
  Preference wanted = preference(library, key);
  std::vector<cublasLtMatmulHeuristicResult_t> offered(count);
  int got = 0;
  cublasStatus_t status = library.api().get_heuristic(handle, plan.desc.get(), plan.a.get(), plan.b.get(), plan.c.get(),
                                                      plan.d.get(), wanted.get(), count, offered.data(), &got);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) *refusal = "the heuristic returned CUBLAS_STATUS_NOT_SUPPORTED";
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return {};
  if (status != CUBLAS_STATUS_SUCCESS) fail(library, status, "get_heuristic(", __FILE__, __LINE__);
  std::vector<cublasLtMatmulAlgo_t> algos;
  for (int i = 0; i < got; ++i) {
    if (offered[i].state == CUBLAS_STATUS_SUCCESS) algos.push_back(offered[i].algo);
  }
  if (algos.empty()) *refusal = "the heuristic offered no usable algorithm";
  return algos;
}

// The problem whose algorithm serves this one and all that differ from it in nothing but how many rows there are.
PlanKey invariant(const PlanKey& key) {
  PlanKey fixed = key;
  (key.m_is_cols ? fixed.cols : fixed.rows) = kInvariantRows;
  fixed.batch = 1;
  fixed.stride_a = fixed.stride_b = fixed.stride_c = fixed.stride_d = fixed.stride_aux = 0;
  // A leading dimension that counts rows changes with them.
  if (key.m_is_cols && key.trans_b) fixed.ldb = kInvariantRows;
  if (!key.m_is_cols && !key.trans_a) fixed.lda = kInvariantRows;
  if (!key.m_is_cols) fixed.ldc = fixed.ldd = fixed.ld_aux = kInvariantRows;
  // One that does not is made up where there is one row, or padded: the tight one stands for all.
  if (key.m_is_cols && !key.trans_b) fixed.ldb = key.k;
  if (!key.m_is_cols && key.trans_a) fixed.lda = key.k;
  if (key.m_is_cols) fixed.ldc = fixed.ldd = key.rows;
  return fixed;
}

void choose_algorithm(const Library& library, cublasLtHandle_t handle, const PlanKey& key, const DescPointers& pointers,
                      Plan* plan) {
  auto tuned = Tuned::global().find(key.to_hex());
  plan->tuned = tuned && take(library, handle, key, *tuned, plan);
  if (plan->tuned) return;
  PlanKey asked = key.flags & kBatchInvariant ? invariant(key) : key;
  Plan stand_in = describe(library, asked, pointers);
  auto algos = offers(library, handle, asked, stand_in, kRequested, &plan->refusal);
  // Batch-invariant: the next best for one number of rows need not be that for another.
  if (key.flags & kBatchInvariant && algos.size() > 1) algos.resize(1);
  for (const cublasLtMatmulAlgo_t& algo : algos) {
    if (take(library, handle, key, algo, plan)) return;
  }
  if (plan->refusal.empty()) plan->refusal = "the heuristic offered no usable algorithm";
}

}  // namespace

std::string PlanKey::to_hex() const { return lt::to_hex(&version, sizeof(*this) - 2 * sizeof(int64_t)); }

size_t PlanKeyHash::operator()(const PlanKey& key) const {
  int64_t words[sizeof(PlanKey) / sizeof(int64_t)];
  std::memcpy(words, &key, sizeof(key));
  uint64_t hash = 0x9e3779b97f4a7c15u;
  for (int64_t word : words) hash = (hash ^ static_cast<uint64_t>(word)) * 0x100000001b3u, hash ^= hash >> 29;
  return hash;
}

cublasLtEpilogue_t epilogue_of(const Epilogue& epilogue, bool first_is_b) {
  static constexpr int kActivations[] = {0,
                                         CUBLASLT_EPILOGUE_RELU,
                                         CUBLASLT_EPILOGUE_GELU,
                                         CUBLASLT_EPILOGUE_RELU_AUX,
                                         CUBLASLT_EPILOGUE_GELU_AUX,
                                         CUBLASLT_EPILOGUE_DRELU,
                                         CUBLASLT_EPILOGUE_DGELU};
  int value = kActivations[static_cast<int>(epilogue.activation)];
  if (epilogue.bias == BiasRole::kAdd) value |= CUBLASLT_EPILOGUE_BIAS;
  if (epilogue.bias == BiasRole::kGradOfD) value |= 16;  // what DRELU_BGRAD and DGELU_BGRAD have beyond DRELU and DGELU
  // The library's A is the caller's b where `first_is_b`.
  if (epilogue.bias == BiasRole::kGradOfA) value |= first_is_b ? CUBLASLT_EPILOGUE_BGRADB : CUBLASLT_EPILOGUE_BGRADA;
  if (epilogue.bias == BiasRole::kGradOfB) value |= first_is_b ? CUBLASLT_EPILOGUE_BGRADA : CUBLASLT_EPILOGUE_BGRADB;
  return static_cast<cublasLtEpilogue_t>(value ? value : CUBLASLT_EPILOGUE_DEFAULT);
}

void set_pointers(const Library& library, const DescPointers& pointers, MatmulDesc* desc) {
  if (pointers.bias) desc->set(library, CUBLASLT_MATMUL_DESC_BIAS_POINTER, pointers.bias);
  if (pointers.aux) desc->set(library, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, pointers.aux);
  if (pointers.scale_a) desc->set(library, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, pointers.scale_a);
  if (pointers.scale_b) desc->set(library, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, pointers.scale_b);
}

std::shared_ptr<const Plan> make_plan(const Library& library, cublasLtHandle_t handle, const PlanKey& key,
                                      const DescPointers& pointers) {
  auto plan = std::make_shared<Plan>(describe(library, key, pointers));
  choose_algorithm(library, handle, key, pointers, plan.get());
  return plan;
}

std::vector<Plan> candidates(const Library& library, cublasLtHandle_t handle, const PlanKey& key,
                             const DescPointers& pointers, int count) {
  Plan plan = describe(library, key, pointers);
  std::vector<Plan> found;
  for (const cublasLtMatmulAlgo_t& algo : offers(library, handle, key, plan, count, &plan.refusal)) {
    if (take(library, handle, key, algo, &plan)) found.push_back(plan);
  }
  return found;
}

Plan plan_with(const Library& library, cublasLtHandle_t handle, const PlanKey& key, const DescPointers& pointers,
               const cublasLtMatmulAlgo_t& algo) {
  Plan plan = describe(library, key, pointers);
  if (!take(library, handle, key, algo, &plan)) plan.refusal = "cublasLtMatmulAlgoCheck refuses the algorithm";
  return plan;
}

}  // namespace lt
