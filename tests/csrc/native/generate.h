// Random contractions with tensors, from plain to absurd, for fuzz.cc and threads.cc.
#pragma once

#include <dlpack/dlpack.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "contraction.h"

namespace fuzz {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
  uint64_t next() {  // splitmix64
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  int64_t below(int64_t n) { return static_cast<int64_t>(next() % static_cast<uint64_t>(n)); }
  bool chance(int percent) { return below(100) < percent; }

 private:
  uint64_t state_;
};

// A tensor with its own shape and strides, and memory of its own or none that may be touched.
struct Tensor {
  DLTensor dl{};
  std::vector<int64_t> shape, strides;
  std::unique_ptr<char[]> memory;
};

struct Problem {
  lt::Dims dims[lt::kOperands];
  std::vector<int64_t> sizes;
  lt::Epilogue epilogue;
  std::array<Tensor, lt::kOperands> tensors;
  bool has_c = false;
  double alpha = 1, beta = 0;
  int64_t flags = 0;
  int device = 0;
  bool real = false;  // whether the tensors have memory and values to compute with
};

// Sizes, strides, types and addresses are plausible for `real`, and otherwise anything at all.
inline void fill_problem(Random* random, bool real, Problem* problem);

// ---------------------------------------------------------------------------------------------------------------------

inline int64_t random_size(Random* random, bool real) {
  static const int64_t plain[] = {1, 2, 3, 4, 5, 8, 16, 17};
  static const int64_t absurd[] = {
      0,        64, 4096, 65536, (1 << 30) + 1, 2147483647, 2147483648, 6000000007, int64_t{1} << 40, int64_t{1} << 62,
      INT64_MAX};
  if (real || random->chance(85)) return plain[random->below(real ? 5 : 8)];
  return absurd[random->below(11)];
}

inline lt::Dims random_dims(Random* random, std::vector<int64_t> atoms) {
  for (size_t i = atoms.size(); i > 1; --i) std::swap(atoms[i - 1], atoms[static_cast<size_t>(random->below(i))]);
  lt::Dims dims;
  for (int64_t atom : atoms) {
    if (!dims.empty() && random->chance(15)) {
      dims.back().push_back(atom);
    } else {
      dims.push_back({atom});
    }
    if (random->chance(5)) dims.push_back({});
  }
  return dims;
}

inline std::vector<int64_t> random_strides(Random* random, const std::vector<int64_t>& shape, bool real, bool dense) {
  std::vector<size_t> order(shape.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[static_cast<size_t>(random->below(i))]);
  std::vector<int64_t> strides(shape.size());
  uint64_t step = 1;  // wraps where sizes are absurd
  for (size_t dim : order) {
    strides[dim] = static_cast<int64_t>(step);
    if (!dense && random->chance(10)) {
      strides[dim] = 0;
      continue;
    }
    if (!real && random->chance(5)) strides[dim] = static_cast<int64_t>(random->next());
    step *= static_cast<uint64_t>(shape[dim]) + (!dense && random->chance(20) ? random->next() % 4 : 0);
  }
  return strides;
}

inline std::vector<int64_t> shape_of(const lt::Dims& dims, const std::vector<int64_t>& sizes) {
  std::vector<int64_t> shape;
  for (const lt::Dim& dim : dims) {
    uint64_t extent = 1;
    for (int64_t atom : dim) extent *= static_cast<uint64_t>(sizes[static_cast<size_t>(atom)]);
    shape.push_back(static_cast<int64_t>(extent));
  }
  return shape;
}

inline void fill_tensor(Random* random, const lt::Dims& dims, Problem* problem, DLDataType type, Tensor* tensor,
                        bool dense) {
  tensor->shape = shape_of(dims, problem->sizes);
  tensor->strides = random_strides(random, tensor->shape, problem->real, dense);
  tensor->dl.shape = tensor->shape.data();
  tensor->dl.strides = !problem->real && random->chance(5) ? nullptr : tensor->strides.data();
  tensor->dl.ndim = static_cast<int32_t>(tensor->shape.size());
  tensor->dl.dtype = type;
  tensor->dl.device = {kDLCPU, random->chance(1) ? static_cast<int32_t>(random->below(70)) - 1 : problem->device};
  if (!problem->real) {
    tensor->dl.data = reinterpret_cast<void*>(
        random->chance(1) ? 0 : (random->next() & 0x7ffffffffff0) | 1 << 20 | (random->chance(5) ? 1 : 0));
    tensor->dl.byte_offset = random->chance(10) ? random->next() & 0xfff8 : 0;
    return;
  }
  int64_t last = 0;
  for (size_t d = 0; d < tensor->shape.size(); ++d) last += (tensor->shape[d] - 1) * tensor->strides[d];
  tensor->memory.reset(new char[static_cast<size_t>((last + 1) * type.bits / 8)]());
  tensor->dl.data = tensor->memory.get();
}

inline void fill_problem(Random* random, bool real, Problem* problem) {
  problem->real = real;
  problem->device = static_cast<int>(random->below(4));
  int64_t count = 1 + random->below(6);
  std::vector<int64_t> members[lt::kOperands];
  for (int64_t atom = 0; atom < count; ++atom) {
    problem->sizes.push_back(random_size(random, real));
    // Bits: in a, in b, in the output. Mostly the four classes.
    static const int classes[] = {5, 6, 3, 7};
    int64_t in = real || random->chance(97) ? classes[random->below(4)] : random->below(8);
    if (in & 1) members[lt::kA].push_back(atom);
    if (in & 2) members[lt::kB].push_back(atom);
    if (in & 4) members[lt::kD].push_back(atom);
    if (in & 4 && random->chance(40)) members[lt::kBias].push_back(atom);
  }
  for (lt::Operand x : {lt::kA, lt::kB, lt::kD, lt::kBias}) problem->dims[x] = random_dims(random, members[x]);
  bool has_bias = random->chance(20);
  static const char* const names[] = {"", "relu", "gelu", "relu_aux", "gelu_aux", "drelu", "dgelu", "bgrada", "bgradb"};
  const char* name = real || random->chance(70) ? names[random->below(3)] : names[random->below(has_bias ? 9 : 7)];
  problem->epilogue = lt::make_epilogue(name, has_bias);
  problem->has_c = random->chance(20);
  problem->alpha = static_cast<double>(random->below(3)), problem->beta = problem->has_c ? 2 : 0;
  problem->flags = random->chance(50) ? 0 : random->below(128);
  static const DLDataType types[] = {{kDLFloat, 32, 1},  {kDLFloat, 64, 1},        {kDLFloat, 16, 1},
                                     {kDLBfloat, 16, 1}, {kDLFloat8_e4m3fn, 8, 1}, {kDLInt, 8, 1}};
  DLDataType type = types[random->below(real ? 2 : 6)];
  DLDataType out = type.bits > 8         ? type
                   : type.code == kDLInt ? DLDataType{kDLInt, 32, 1}
                                         : DLDataType{kDLBfloat, 16, 1};
  fill_tensor(random, problem->dims[lt::kA], problem, type, &problem->tensors[lt::kA], false);
  fill_tensor(random, problem->dims[lt::kB], problem, type, &problem->tensors[lt::kB], false);
  fill_tensor(random, problem->dims[lt::kD], problem, out, &problem->tensors[lt::kD], real || random->chance(80));
  fill_tensor(random, problem->dims[lt::kBias], problem, out, &problem->tensors[lt::kBias], real);
  fill_tensor(random, problem->dims[lt::kD], problem, out, &problem->tensors[lt::kC], false);
  Tensor& aux = problem->tensors[lt::kAux];
  fill_tensor(random, problem->dims[lt::kD], problem, problem->epilogue.aux_is_mask() ? DLDataType{kDLUInt, 8, 1} : out,
              &aux, true);
  if (problem->epilogue.aux_is_mask() && !aux.shape.empty() && aux.shape.back() < INT64_MAX - 128) {
    aux.shape.back() = (aux.shape.back() + 127) / 128 * 16;
  }
}

}  // namespace fuzz
