// Beside problem.h: elements of every type that the double computes, read and written as double.
#pragma once

#include <library_types.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace {

inline int64_t bytes_of(uint32_t type) {
  if (type == CUDA_R_64F) return 8;
  if (type == CUDA_R_32F || type == CUDA_R_32I) return 4;
  return type == CUDA_R_16F || type == CUDA_R_16BF ? 2 : 1;
}

// OCP 8-bit floating point: e4m3 without infinities, e5m2 as a half that lost its low byte.
inline double from_e4m3(uint8_t bits) {
  int exponent = bits >> 3 & 15, mantissa = bits & 7;
  double value = exponent == 15 && mantissa == 7 ? NAN
                 : exponent                      ? std::ldexp(8 + mantissa, exponent - 10)
                                                 : std::ldexp(mantissa, -9);
  return bits & 128 ? -value : value;
}

inline double from_half(uint16_t bits) {
  _Float16 value;
  std::memcpy(&value, &bits, sizeof(value));
  return static_cast<double>(value);
}

inline uint16_t to_bf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

template <typename T>
T read_as(const void* data, int64_t i) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

template <typename T>
void write_as(void* data, int64_t i, T value) {
  std::memcpy(static_cast<char*>(data) + i * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

inline double load(const void* data, int64_t i, uint32_t type) {
  switch (type) {
    case CUDA_R_64F:
      return read_as<double>(data, i);
    case CUDA_R_32F:
      return static_cast<double>(read_as<float>(data, i));
    case CUDA_R_32I:
      return read_as<int32_t>(data, i);
    case CUDA_R_16F:
      return from_half(read_as<uint16_t>(data, i));
    case CUDA_R_8I:
      return read_as<int8_t>(data, i);
    case CUDA_R_8F_E4M3:
      return from_e4m3(read_as<uint8_t>(data, i));
    case CUDA_R_8F_E5M2:
      return from_half(static_cast<uint16_t>(read_as<uint8_t>(data, i) << 8));
    default:
      break;
  }
  uint32_t bits = static_cast<uint32_t>(read_as<uint16_t>(data, i)) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return static_cast<double>(value);
}

inline void store(void* data, int64_t i, uint32_t type, double value) {
  if (type == CUDA_R_64F) write_as(data, i, value);
  if (type == CUDA_R_32F) write_as(data, i, static_cast<float>(value));
  if (type == CUDA_R_32I) write_as(data, i, static_cast<int32_t>(static_cast<uint32_t>(static_cast<int64_t>(value))));
  if (type == CUDA_R_16F) write_as(data, i, static_cast<_Float16>(value));
  if (type == CUDA_R_16BF) write_as(data, i, to_bf16(static_cast<float>(value)));
}

}  // namespace
