// Beside layout: the choice of matrix, batch and loop labels, once labels have been merged and none is beyond int32.
#pragma once

#include "layout.h"

namespace lt {

// `whole` tells the epilogue and the order in which the spec names dimensions.
Layout choose(const std::vector<Label>& labels, const Contraction& whole, const Demands& demands);

}  // namespace lt
