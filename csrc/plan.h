// Seventh in the flow: a plan is everything about a cublasLtMatmul but its pointers, found once for each key.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "descriptors.h"
#include "epilogue.h"
#include "layout.h"

namespace lt {

// Everything a plan depends on. All members are int64_t, so that comparing bytes compares keys. Leading dimensions and
// strides in elements, alignments and the workspace limit in bytes.
struct PlanKey {
  int64_t library, device;  // of this process: not part of `to_hex`
  int64_t version;
  int64_t type_a, type_b, type_d, type_bias, compute, scale;
  int64_t flags, reduction_mask, epilogue, workspace_limit;
  int64_t rows, cols, k, batch, pointers, m_is_cols, trans_a, trans_b;
  int64_t lda, ldb, ldc, ldd, ld_aux;
  int64_t stride_a, stride_b, stride_c, stride_d, stride_aux;
  int64_t align_a, align_b, align_c, align_d, align_bias, align_aux;
  int64_t scale_mode_a, scale_mode_b;  // cublasLtMatmulMatrixScale_t, -1 for no scale

  bool operator==(const PlanKey& other) const { return std::memcmp(this, &other, sizeof(*this)) == 0; }
  // The key as text that means the same in another process with the same library, on the same kind of device.
  std::string to_hex() const;
};
static_assert(sizeof(PlanKey) == 39 * sizeof(int64_t), "PlanKey must have no padding");

struct PlanKeyHash {
  size_t operator()(const PlanKey& key) const;
};

struct Plan {
  std::string refusal;  // why the library runs no such problem; the rest is then unset
  MatmulDesc desc;      // never written to after the plan is made: a call with pointers in it writes into its own copy
  MatrixLayout a, b, c, d;
  cublasLtMatmulAlgo_t algo{};
  size_t workspace = 0;
  bool tuned = false;  // the algorithm is what the user tuned, not the heuristic's
};

// The pointers that a descriptor holds. The heuristic reads them to see their alignment.
struct DescPointers {
  const void* bias = nullptr;
  void* aux = nullptr;
  const void *scale_a = nullptr, *scale_b = nullptr;
  bool any() const { return bias || aux || scale_a || scale_b; }
};
void set_pointers(const Library& library, const DescPointers& pointers, MatmulDesc* desc);

// Values of cublasLt.h of CUDA 12.9 and 13, which 12.8's headers lack.
constexpr int32_t kScaleScalar = 0, kScaleOuterVector = 3;  // CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F, _OUTER_VEC_32F
constexpr size_t kOuterVectorVersion = 120900;

cublasLtEpilogue_t epilogue_of(const Epilogue& epilogue, bool first_is_b);

// Asks what the user tuned, then the heuristic. A problem it has no algorithm for is a plan with a refusal; any other
// failure is a LibraryError.
std::shared_ptr<const Plan> make_plan(const Library& library, cublasLtHandle_t handle, const PlanKey& key,
                                      const DescPointers& pointers);

// Up to `count` algorithms that the heuristic offers and that pass AlgoCheck, best first by its own estimate.
std::vector<Plan> candidates(const Library& library, cublasLtHandle_t handle, const PlanKey& key,
                             const DescPointers& pointers, int count);
// The plan with this algorithm, or a refusal where AlgoCheck has none of it.
Plan plan_with(const Library& library, cublasLtHandle_t handle, const PlanKey& key, const DescPointers& pointers,
               const cublasLtMatmulAlgo_t& algo);

}  // namespace lt
