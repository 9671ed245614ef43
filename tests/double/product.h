// Beside double.cc: the product that a call describes, in host memory.
#pragma once

#include <vector>

#include "numbers.h"
#include "problem.h"

namespace {

struct Memory {
  const void *a, *b, *c;
  void* d;
};

// One matrix of a batch, or all of an array of pointers.
class Product {
 public:
  Product(const Call& call, double alpha, double beta) : call_(call), alpha_(alpha), beta_(beta) {}

  void run(const Memory& at) {
    for (int64_t batch = 0; batch < call_.d.batch; ++batch) {
      batch_ = batch;
      a_ = start(at.a, call_.a), b_ = start(at.b, call_.b), c_ = start(at.c, call_.c);
      d_ = const_cast<void*>(start(at.d, call_.d));
      for (int64_t col = 0; col < call_.cols; ++col) {
        for (int64_t row = 0; row < call_.rows; ++row) one(row, col);
      }
      if (call_.epilogue.grad_d()) sums(call_.rows, call_.cols, [&](int64_t row, int64_t col) { return d(row, col); });
      if (call_.epilogue.grad_a()) sums(call_.rows, call_.k, [&](int64_t row, int64_t k) { return a(row, k); });
      if (call_.epilogue.grad_b()) sums(call_.cols, call_.k, [&](int64_t col, int64_t k) { return b(k, col); });
    }
  }

 private:
  const void* start(const void* data, const Matrix& m) const {
    if (m.mode == kPointerArray) return static_cast<const void* const*>(data)[batch_];
    return static_cast<const char*>(data) + batch_ * m.stride * bytes_of(m.type);
  }
  double a(int64_t row, int64_t k) const {
    return load(a_, call_.trans_a ? k + row * call_.a.ld : row + k * call_.a.ld, call_.a.type);
  }
  double b(int64_t k, int64_t col) const {
    return load(b_, call_.trans_b ? col + k * call_.b.ld : k + col * call_.b.ld, call_.b.type);
  }
  double d(int64_t row, int64_t col) const { return load(d_, row + col * call_.d.ld, call_.d.type); }

  double scaled(double sum, int64_t row, int64_t col) const {
    auto factor = [](const void* scale, int32_t mode, int64_t i) {
      return scale ? load(scale, mode == kOuterVector ? i : 0, CUDA_R_32F) : 1.0;
    };
    return sum * factor(call_.scale_a, call_.mode_a, row) * factor(call_.scale_b, call_.mode_b, col);
  }

  void one(int64_t row, int64_t col) {
    double sum = 0;
    for (int64_t k = 0; k < call_.k; ++k) sum += a(row, k) * b(k, col);
    double value = alpha_ * scaled(sum, row, col);
    // With beta 0 C is not read.
    if (beta_ != 0) value += beta_ * load(c_, row + col * call_.c.ld, call_.c.type);
    if (call_.epilogue.adds_bias()) value += load(call_.epilogue.bias, row, call_.bias_type());
    store(d_, row + col * call_.d.ld, call_.d.type, activated(value, row + col * call_.epilogue.ld_aux));
  }

  double activated(double value, int64_t at) const {
    const Epilogue& epilogue = call_.epilogue;
    int64_t in_batch = batch_ * epilogue.stride_aux + at;
    if (epilogue.drelu()) return bit(in_batch) ? value : 0.0;
    if (epilogue.dgelu()) return value * dgelu(load(epilogue.aux, in_batch, call_.d.type));
    if (epilogue.has_aux() && epilogue.relu()) set_bit(in_batch, value > 0);
    if (epilogue.has_aux() && epilogue.gelu()) store(epilogue.aux, in_batch, call_.d.type, value);
    if (epilogue.relu()) return value > 0 || std::isnan(value) ? value : 0.0;
    return epilogue.gelu() ? gelu(value) : value;
  }

  // The tanh form (cublasLt.h: "GELU"), and its derivative.
  static double inner(double x) { return std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x); }
  static double gelu(double x) { return 0.5 * x * (1 + std::tanh(inner(x))); }
  static double dgelu(double x) {
    double t = std::tanh(inner(x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
  }

  bool bit(int64_t i) const { return static_cast<const uint8_t*>(call_.epilogue.aux)[i / 8] >> (i % 8) & 1; }
  void set_bit(int64_t i, bool on) const {
    auto* byte = static_cast<uint8_t*>(call_.epilogue.aux) + i / 8;
    *byte = static_cast<uint8_t>((*byte & ~(1 << (i % 8))) | (on ? 1 << (i % 8) : 0));
  }

  template <typename At>
  void sums(int64_t count, int64_t over, At at) {
    for (int64_t i = 0; i < count; ++i) {
      double sum = 0;
      for (int64_t j = 0; j < over; ++j) sum += at(i, j);
      store(const_cast<void*>(call_.epilogue.bias), i, call_.bias_type(), sum);
    }
  }

  const Call& call_;
  double alpha_, beta_;
  int64_t batch_ = 0;
  const void *a_ = nullptr, *b_ = nullptr, *c_ = nullptr;
  void* d_ = nullptr;
};

}  // namespace
