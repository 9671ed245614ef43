// Beside double: what an algorithm of the double's holds.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <cstring>

namespace {

// What the heuristic promised travels in the algorithm's opaque words, so that the other calls can hold the caller to
// it. `rank`: in the heuristic's list; `made_for`: the problem's size, as real heuristics choose by it.
struct Promise {
  uint64_t magic;
  uint16_t align[4];
  uint64_t workspace;
  uint64_t reductions;
  int64_t rank;
  uint64_t made_for;
};
constexpr uint64_t kMagic = 0x6c74646f75626c65;
static_assert(sizeof(Promise) <= sizeof(cublasLtMatmulAlgo_t), "a promise must fit into an algorithm");

Promise promise_of(const cublasLtMatmulAlgo_t* algo) {
  Promise promise;
  std::memcpy(&promise, algo, sizeof(promise));
  return promise;
}

// An algorithm's numbers: its rank as its id, and for tile, stages and parts of k one that none of the others has.
cublasStatus_t tell(const Promise& promise, cublasLtMatmulAlgoConfigAttributes_t attribute, void* value, size_t bytes,
                    size_t* written) {
  int32_t number = 0;
  if (attribute == CUBLASLT_ALGO_CONFIG_ID) {
    number = static_cast<int32_t>(promise.rank);
  } else if (attribute == CUBLASLT_ALGO_CONFIG_TILE_ID) {
    number = 20;
  } else if (attribute == CUBLASLT_ALGO_CONFIG_STAGES_ID) {
    number = 11;
  } else if (attribute == CUBLASLT_ALGO_CONFIG_SPLITK_NUM) {
    number = 2;
  } else {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (bytes < sizeof(number)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(value, &number, sizeof(number));
  *written = sizeof(number);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace
