// Beside layout: what a way to compute a contraction costs, so that ways can be compared. Pure arithmetic.
//
// The unit is one launch, the least that a call costs. Constants are the order of magnitude of an A100 or H100: 4 us a
// launch, in which such a device does 4e8 multiply-adds of a 16-bit GEMM (100e12 a second) and moves 8 MB (2e12 bytes a
// second). They decide between ways that differ by much more than what they are wrong by; only a device can calibrate
// them.
#pragma once

#include <cstdint>

#include "layout.h"

namespace lt {

constexpr double kWorkOfALaunch = 4e8;   // multiply-adds
constexpr double kBytesOfALaunch = 8e6;  // read or written
constexpr int64_t kTile = 64;  // the least tile of a kernel: a thinner side is computed as if it were this wide

// calls * max(1, work of a call), where work counts whole tiles. Arrays of pointers have to be written first: one more.
double cost_of(const Layout& layout);
// One launch, and reading and writing every byte once.
double cost_of_copy(int64_t elements, int64_t item_size);

}  // namespace lt
