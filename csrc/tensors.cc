// Reads DLTensors and checks them. Runs on every call: no allocation unless there is something to complain about.
#include "tensors.h"

#include <algorithm>

#include "errors.h"

namespace lt {
namespace {

constexpr int64_t kMaxAlignment = 256;  // cublasLt's own default, beyond which it asks for nothing

bool same(DLDataType x, DLDataType y) { return x.code == y.code && x.bits == y.bits && x.lanes == y.lanes; }

bool same(DLDevice x, DLDevice y) { return x.device_type == y.device_type && x.device_id == y.device_id; }

std::string shape_text(const DLTensor& tensor) {
  return to_text(std::vector<int64_t>(tensor.shape, tensor.shape + tensor.ndim));
}

std::string device_text(DLDevice device) {
  std::string kind = device.device_type == kDLCPU    ? "cpu"
                     : device.device_type == kDLCUDA ? "cuda"
                                                     : "device type " + std::to_string(device.device_type);
  return kind + ":" + std::to_string(device.device_id);
}

bool has_shape(const DLTensor& tensor, const std::vector<int64_t>& expected) {
  return tensor.ndim == static_cast<int>(expected.size()) && std::equal(expected.begin(), expected.end(), tensor.shape);
}

void check_one(const Contraction& contraction, Operand x, const DLTensor& tensor, const DLTensor& a) {
  const std::vector<int64_t>& expected = contraction.shape[x];
  std::string name = name_of(x);
  if (!has_shape(tensor, expected)) {
    throw ArgumentError(name + " has shape " + shape_text(tensor) + " where " + to_text(expected) + " was bound.");
  }
  if (!same(tensor.dtype, a.dtype)) {
    throw ArgumentError(name + " differs from a in dtype (" + to_text(tensor.dtype) + ", " + to_text(a.dtype) +
                        "); nothing is cast here.");
  }
  if (!same(tensor.device, a.device)) {
    throw ArgumentError(name + " is on " + device_text(tensor.device) + ", a on " + device_text(a.device) + ".");
  }
  // Fake and meta tensors have none.
  if (!tensor.data) throw ArgumentError(name + " of shape " + shape_text(tensor) + " has no memory.");
}

bool fits(const Contraction& contraction, Operand x, const DLTensor& tensor, const DLTensor& a) {
  return tensor.data && has_shape(tensor, contraction.shape[x]) && same(tensor.dtype, a.dtype) &&
         same(tensor.device, a.device);
}

void check_bias_and_memory(const Contraction& contraction, const Tensors& tensors) {
  if (tensors.has(kBias) != contraction.has_bias) {
    throw ArgumentError(contraction.has_bias ? "bias is missing: the contraction was bound with one."
                                             : "bias was given, but the contraction was bound without one.");
  }
  for (Operand x : {kA, kB, kBias}) {
    if (tensors.has(x) && tensors[x].data && data_of(tensors[x]) == data_of(tensors[kD])) {
      throw ArgumentError(std::string("out shares memory with ") + name_of(x) +
                          ", which is read while out is written.");
    }
  }
}

}  // namespace

Type type_of(DLDataType type) {
  if (type.lanes != 1) return {CUDA_R_32F, false};
  if (type.code == kDLBfloat && type.bits == 16) return {CUDA_R_16BF, true};
  if (type.code != kDLFloat) return {CUDA_R_32F, false};
  if (type.bits == 16) return {CUDA_R_16F, true};
  if (type.bits == 32) return {CUDA_R_32F, true};
  return {CUDA_R_64F, type.bits == 64};
}

std::string to_text(DLDataType type) {
  const char* kind = type.code == kDLFloat     ? "float"
                     : type.code == kDLBfloat  ? "bfloat"
                     : type.code == kDLComplex ? "complex"
                     : type.code == kDLInt     ? "int"
                     : type.code == kDLUInt    ? "uint"
                                               : "type of bits ";
  return kind + std::to_string(type.bits);
}

char* data_of(const DLTensor& tensor) { return static_cast<char*>(tensor.data) + tensor.byte_offset; }

int64_t item_size(const DLTensor& tensor) { return tensor.dtype.bits / 8; }

int64_t alignment_of(const DLTensor& tensor, int64_t loop_stride) {
  int64_t bits = reinterpret_cast<int64_t>(data_of(tensor)) | (loop_stride * item_size(tensor)) | kMaxAlignment;
  return bits & -bits;
}

const int64_t* strides_of(const DLTensor& tensor, std::vector<int64_t>* storage) {
  if (tensor.strides) return tensor.strides;
  storage->assign(tensor.ndim, 1);
  for (int i = tensor.ndim - 2; i >= 0; --i) (*storage)[i] = (*storage)[i + 1] * tensor.shape[i + 1];
  return storage->data();
}

void check_tensors(const Contraction& contraction, const Tensors& tensors) {
  const DLTensor& a = tensors[kA];
  for (int i = 0; i < kOperands; ++i) {
    auto x = static_cast<Operand>(i);
    if (x == kBias && tensors.has(kBias) != contraction.has_bias) continue;  // said below, in its own words
    if (tensors.has(x) && !fits(contraction, x, tensors[x], a)) check_one(contraction, x, tensors[x], a);
  }
  check_bias_and_memory(contraction, tensors);
}

}  // namespace lt
