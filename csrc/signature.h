// Beside gemm: what of a call decides its plan, small enough to compare with the last call's.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "lt_api.h"
#include "tensors.h"

namespace lt {

// What a call's tensors say about the plan: everything but shapes (fixed by the contraction) and the pointers' values.
// NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): only the first `size` words are ever read
struct Signature {
  static constexpr int kCapacity = 64;
  std::array<int64_t, kCapacity> words;
  int size = 0;
  void add(int64_t word) {
    if (size < kCapacity) words[size] = word;
    ++size;
  }
  // Too many dimensions to compare are no match: such calls go the long way to the plan cache.
  bool operator==(const Signature& other) const {
    return size == other.size && size <= kCapacity && std::memcmp(words.data(), other.words.data(), 8 * size) == 0;
  }
};

Signature signature_of(const Tensors& tensors, int64_t flags, const Library& library);

}  // namespace lt
