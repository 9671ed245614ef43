// float16 without the compiler's own: compilers before g++ 12 have none, and libgcc before 12 does not convert to it.
#pragma once

#include <cmath>
#include <cstdint>

namespace lt {

// The bits of the float16 nearest to `value`, ties to even; what is too large becomes infinity.
inline uint16_t half_bits(double value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return sign | 0x7e00;
  const double size = std::fabs(value);
  if (size >= 65520.0) return sign | 0x7c00;  // half a step above the largest, 65504
  // Exponents below -14 have the steps of -14; a size that rounds up carries into the exponent by itself.
  const int exponent = size < std::ldexp(1.0, -14) ? -14 : std::ilogb(size);
  const auto steps = static_cast<uint16_t>(std::nearbyint(std::ldexp(size, 10 - exponent)));
  return sign | static_cast<uint16_t>(((exponent + 14) << 10) + steps);
}

}  // namespace lt
