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

}  // namespace
