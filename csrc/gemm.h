// Eighth in the flow: one contraction, bound once, run on tensors: D = epilogue(alpha * A B + beta * C + bias).
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "contraction.h"
#include "copies.h"
#include "fork.h"
#include "layout.h"
#include "plan.h"
#include "signature.h"
#include "tensors.h"
#include "types.h"

namespace lt {

struct Scalars {
  double alpha = 1, beta = 0;
};

// A layout and how the library runs it.
struct Part {
  Layout layout;
  PlanKey key;
  std::shared_ptr<const Plan> plan;  // null where no library was asked
};

// Why nothing is computed, or how it is. Immutable once made: threads share it.
struct Found {
  Signature signature;
  Types types;
  std::string refusal;
  std::vector<Part> parts;
};

enum class Outcome { kComputed, kDeclined, kOtherTensors, kMaybeNegative };

class Gemm {
 public:
  explicit Gemm(Contraction contraction) : contraction_(std::move(contraction)) {}

  // kComputed, or kDeclined: nothing was computed, and `explain` says why. Throws ArgumentError for tensors that do not
  // fit the contraction, LibraryError when the library fails.
  Outcome run(Tensors tensors, Scalars scalars, int64_t flags);
  // The same where a, b and out are all there is, for a caller that guessed what they are: says, instead of throwing,
  // that they are others than were bound or on no device of the library's, and that one may be a negative view, whose
  // bit is not seen here.
  Outcome run_plain(const Tensors& tensors, int64_t flags);
  // The layout and plan as JSON, nothing computed; the plan only where a library is open.
  std::string explain(const Tensors& tensors, int64_t flags) const;

  // For tuning: the key, and the algorithms offered for it. ArgumentError where there is no one plan to tune.
  std::string candidates(const Tensors& tensors, int64_t flags, int64_t count) const;
  Outcome run_with(Tensors tensors, Scalars scalars, int64_t flags, const std::string& algo);

  const Contraction& contraction() const { return contraction_; }

 private:
  Library* prepare(Tensors* tensors, Scalars scalars, int64_t flags) const;
  std::shared_ptr<const Found> find(const Tensors& tensors, int64_t flags, Library* library);
  std::shared_ptr<const Found> recall(const Signature& signature);
  void remember(const std::shared_ptr<const Found>& made);
  std::shared_ptr<Found> make(const Tensors& tensors, int64_t flags, Library* library) const;
  std::vector<Layout> layouts_of(const Tensors& tensors, const Demands& demands, Copies* copies) const;
  Found tunable(const Tensors& tensors, int64_t flags, Library* library) const;

  const Contraction contraction_;
  // Answers that are found without planning. More than one, since outputs are allocated anew for every call, and how
  // they are aligned differs.
  static constexpr size_t kRecent = 8;
  std::mutex& mutex_ = pooled_mutex(this);  // held to read or write `recent_`, never while anything is called
  std::array<std::shared_ptr<const Found>, kRecent> recent_;
};

}  // namespace lt
