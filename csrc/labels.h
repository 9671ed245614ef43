// Third in the flow: atoms and the strides they have in memory become labels, as few as the memory allows.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "contraction.h"

namespace lt {

// Sizes, batch counts and so merged labels stay within what cuBLASLt takes as int32.
constexpr int64_t kMaxExtent = 2147483647;

struct Label {
  LabelClass cls;
  int64_t size;
  std::array<int64_t, kOperands> stride;  // in elements; 0 in a tensor that lacks the label (and where it is expanded)
};

// One pointer a tensor: the strides of its dimensions in elements, null where the call has no such tensor.
struct Strides {
  std::array<const int64_t*, kOperands> of{};
};

// Merges labels of one class that lie in memory as one, in every tensor, until none do.
void merge(std::vector<Label>* labels);

// The atoms of size > 1 with their strides, not yet merged; none where a tensor spans more than an address space.
std::optional<std::vector<Label>> labels_of(const Contraction& contraction, const Strides& strides);

}  // namespace lt
