// Beside chooser: a matrix's two sides, and how they lie in memory. Row-major, as the caller's tensors are.
#pragma once

#include <optional>

#include "layout.h"

namespace lt {

// A side of a matrix: a label, or nothing (size 1, its stride meaningless).
struct Side {
  const Label* label = nullptr;
  int64_t size() const { return label ? label->size : 1; }
  int64_t stride(Operand x) const { return label ? label->stride[x] : 0; }
};

inline int64_t round_up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

// The leading dimension of outer x inner stored with inner contiguous, made up where a size of 1 leaves it meaningless.
inline std::optional<int64_t> leading_dimension(Side outer, Side inner, Operand x, int64_t multiple) {
  if (inner.size() > 1 && inner.stride(x) != 1) return std::nullopt;
  if (outer.size() == 1) return round_up(inner.size(), multiple);
  // Overlapping, expanded, not contiguous, or not aligned as the type asks.
  if (outer.stride(x) < inner.size() || outer.stride(x) % multiple) return std::nullopt;
  return outer.stride(x);
}

}  // namespace lt
