// The contraction of a generated problem in plain loops over atoms, for fuzz.cc.
#pragma once

#include <cmath>
#include <cstdio>
#include <vector>

#include "generate.h"

namespace fuzz {

class Reference {
 public:
  explicit Reference(const Problem& problem) : problem_(problem), at_(problem.sizes.size(), 0) {}

  // Whether every element of the output is what it should be. Values are small whole numbers: sums are exact.
  bool holds() {
    bool right = true;
    outer(0, [&] { right = right && element_is_right(); });
    return right;
  }

 private:
  template <typename Body>
  void outer(size_t atom, const Body& body) {
    walk(atom, true, body);
  }

  // Runs `body` for every value of the atoms that are (not) in the output.
  template <typename Body>
  void walk(size_t atom, bool in_output, const Body& body) {
    if (atom == at_.size()) return body();
    if (occurs(lt::kD, atom) != in_output) return walk(atom + 1, in_output, body);
    for (at_[atom] = 0; at_[atom] < problem_.sizes[atom]; ++at_[atom]) walk(atom + 1, in_output, body);
    at_[atom] = 0;
  }

  bool occurs(lt::Operand x, size_t atom) const {
    for (const lt::Dim& dim : problem_.dims[x]) {
      for (int64_t each : dim) {
        if (static_cast<size_t>(each) == atom) return true;
      }
    }
    return false;
  }

  double value(lt::Operand x) const {
    const lt::Dims& dims = problem_.dims[x == lt::kC ? lt::kD : x];
    const Tensor& tensor = problem_.tensors[static_cast<size_t>(x)];
    int64_t offset = 0;
    for (size_t d = 0; d < dims.size(); ++d) {
      int64_t index = 0;
      for (int64_t atom : dims[d]) {
        auto i = static_cast<size_t>(atom);
        index = index * problem_.sizes[i] + at_[i];
      }
      offset += index * tensor.strides[d];
    }
    return tensor.dl.dtype.bits == 64 ? reinterpret_cast<const double*>(tensor.memory.get())[offset]
                                      : reinterpret_cast<const float*>(tensor.memory.get())[offset];
  }

  bool element_is_right() {
    double sum = 0;
    walk(0, false, [&] { sum += value(lt::kA) * value(lt::kB); });
    double want = problem_.alpha * sum;
    if (problem_.beta != 0) want += problem_.beta * value(lt::kC);
    if (problem_.epilogue.bias == lt::BiasRole::kAdd) want += value(lt::kBias);
    if (problem_.epilogue.activation == lt::Activation::kRelu) want = std::fmax(want, 0);
    if (problem_.epilogue.activation == lt::Activation::kGelu) {
      want = 0.5 * want * (1 + std::tanh(std::sqrt(2 / M_PI) * (want + 0.044715 * want * want * want)));
    }
    double got = value(lt::kD);
    if (std::fabs(got - want) <= 1e-5 * std::fabs(want) + 1e-6) return true;
    std::fprintf(stderr, "an element is %g, should be %g\n", got, want);
    return false;
  }

  const Problem& problem_;
  std::vector<int64_t> at_;
};

}  // namespace fuzz
