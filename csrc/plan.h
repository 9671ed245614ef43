// Seventh in the flow: a plan is everything about a cublasLtMatmul but its pointers, found once for each key.
#pragma once

#include <cstring>
#include <memory>
#include <string>

#include "descriptors.h"
#include "layout.h"

namespace lt {

// What the caller's flags mean. Bits of the boundary's `flags`.
enum Flag : int64_t {
  kTf32 = 1,           // fp32 may be computed in TF32
  kFullReduction = 2,  // partial sums are never held in a 16-bit output type
  kNoSplitK = 4,       // one sequence of sums an output element
  kAllFlags = 7,
};

// Everything a plan depends on. All members are int64_t, so that comparing bytes compares keys.
struct PlanKey {
  int64_t library, version, device;
  int64_t type, compute, reduction_mask, epilogue, workspace_limit;
  int64_t rows, cols, k, batch, trans_a, trans_b;
  int64_t lda, ldb, ldc, ldd;
  int64_t stride_a, stride_b, stride_c, stride_d;
  int64_t align_a, align_b, align_c, align_d, align_bias;

  bool operator==(const PlanKey& other) const { return std::memcmp(this, &other, sizeof(*this)) == 0; }
};
static_assert(sizeof(PlanKey) == 27 * sizeof(int64_t), "PlanKey must have no padding");

struct PlanKeyHash {
  size_t operator()(const PlanKey& key) const;
};

struct Plan {
  std::string refusal;  // why the library runs no such problem; the rest is then unset
  MatmulDesc desc;      // never written to after the plan is made: a call with a bias writes into its own copy
  MatrixLayout a, b, c, d;
  cublasLtMatmulAlgo_t algo{};
  size_t workspace = 0;
};

cudaDataType_t scale_type_of(cudaDataType_t type);

// Asks the heuristic. A problem it has no algorithm for is a plan with a refusal; any other failure is a LibraryError.
// `bias` is read for its alignment only.
std::shared_ptr<const Plan> make_plan(const Library& library, cublasLtHandle_t handle, const PlanKey& key,
                                      const void* bias);

}  // namespace lt
