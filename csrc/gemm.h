// Eighth in the flow: one contraction, bound once, run on tensors: D = alpha * A B + beta * C + bias.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <string>

#include "contraction.h"
#include "layout.h"
#include "plan.h"
#include "tensors.h"

namespace lt {

struct Scalars {
  double alpha = 1, beta = 0;
};

// What a call's tensors say about the plan: everything but shapes (fixed by the contraction) and the pointers' values.
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

// Why nothing is computed, or how it is.
struct Found {
  Signature signature;
  Layout layout;
  std::shared_ptr<const Plan> plan;  // null where the layout was refused
  const std::string& refusal() const { return plan ? plan->refusal : layout.refusal; }
};

class Gemm {
 public:
  explicit Gemm(Contraction contraction) : contraction_(std::move(contraction)) {}

  // Whether the product was computed; otherwise nothing was, and `explain` says why. Throws ArgumentError for tensors
  // that do not fit the contraction, LibraryError when the library fails.
  bool run(Tensors tensors, Scalars scalars, int64_t flags);
  // The layout and plan as JSON, nothing computed; the plan only where a library is open.
  std::string explain(const Tensors& tensors, int64_t flags) const;

 private:
  Signature signature_of(const Tensors& tensors, int64_t flags, const Library& library) const;
  std::shared_ptr<const Found> find(const Tensors& tensors, int64_t flags, Library* library);
  std::shared_ptr<const Found> make(const Tensors& tensors, int64_t flags, Library* library) const;
  std::string refusal_of(const Tensors& tensors, const Layout& layout, const Library* library) const;
  std::shared_ptr<const Plan> plan_for(const Tensors& tensors, const PlanKey& key, Library* library) const;
  PlanKey key_of(const Tensors& tensors, int64_t flags, const Library& library, const Layout& layout) const;
  void launch(const Tensors& tensors, Scalars scalars, Library* library, const Found& found) const;

  const Contraction contraction_;
  std::mutex mutex_;  // held to copy or replace `last_`, never while the library is called
  std::shared_ptr<const Found> last_;
};

}  // namespace lt
