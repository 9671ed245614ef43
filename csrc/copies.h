// Beside layout: whether a copy of one operand makes a better call than the strides as they are.
//
// Nothing is copied here: the caller's framework copies, and calls with the copy.
#pragma once

#include "layout.h"

namespace lt {

// The strides that a copy of `a` or `b` should have, in elements, one a dimension; empty: that operand as it is.
struct Copies {
  std::vector<int64_t> of[2];
  double cost = 0;  // of copies and calls, in launches (cost.h)
  bool any() const { return !of[kA].empty() || !of[kB].empty(); }
};

// The cheapest copy of one operand, if it costs less than `direct` (what choose_layouts said) or that was refused; of
// both only where the element type allows one layout alone. `item_size` in bytes.
Copies advise_copies(const Contraction& contraction, const Strides& strides, const Demands& demands,
                     const std::vector<Layout>& direct, int64_t item_size);

}  // namespace lt
