// Reads DLTensors and checks them. Runs on every call: no allocation unless there is something to complain about.
#include "tensors.h"

#include <algorithm>

#include "errors.h"
#include "types.h"

namespace lt {
namespace {

constexpr int64_t kMaxAlignment = 256;  // cublasLt's own default, beyond which it asks for nothing
constexpr int64_t kMaskBits = 128;      // a ReLU mask's rows are whole runs of this

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

// Why the tensor's type does not go with the others; null if it does.
const char* misfit(Operand x, const DLTensor& tensor, const Tensors& tensors, bool mask) {
  DLDataType a = tensors[kA].dtype, out = tensors[kD].dtype;
  if (x == kA) return nullptr;
  if (x == kB) return misfit_of_b(a, tensor.dtype);
  if (x == kD) return misfit_of_out(a, tensor.dtype);
  if (x == kAux && mask) {
    return lt::same(tensor.dtype, {kDLUInt, 8, 1}) ? nullptr : "must be uint8: it is the bit mask of a ReLU";
  }
  DLDataType wanted = x == kBias ? bias_type(a, out) : out;
  return lt::same(tensor.dtype, wanted) ? nullptr : "differs from a in dtype";
}

std::vector<int64_t> mask_shape(std::vector<int64_t> shape) {
  if (!shape.empty()) shape.back() = (shape.back() / kMaskBits + (shape.back() % kMaskBits != 0)) * (kMaskBits / 8);
  return shape;
}

[[noreturn]] void refuse_shape(Operand x, const DLTensor& tensor, const std::vector<int64_t>& expected) {
  throw ArgumentError(std::string(name_of(x)) + " has shape " + shape_text(tensor) + " where " + to_text(expected) +
                      " was bound.");
}

void check_one(const Contraction& contraction, Operand x, const DLTensor& tensor, const Tensors& tensors) {
  const DLTensor& a = tensors[kA];
  std::string name = name_of(x);
  bool mask = x == kAux && contraction.epilogue.aux_is_mask();
  if (mask && !has_shape(tensor, mask_shape(contraction.shape[x]))) {
    refuse_shape(x, tensor, mask_shape(contraction.shape[x]));
  }
  if (!mask && !has_shape(tensor, contraction.shape[x])) refuse_shape(x, tensor, contraction.shape[x]);
  if (const char* why = misfit(x, tensor, tensors, mask)) {
    throw ArgumentError(name + " " + why + " (" + to_text(tensor.dtype) + ", " + to_text(a.dtype) +
                        "); nothing is cast here.");
  }
  if (!same(tensor.device, a.device)) {
    throw ArgumentError(name + " is on " + device_text(tensor.device) + ", a on " + device_text(a.device) + ".");
  }
  // Fake and meta tensors have none.
  if (!tensor.data) throw ArgumentError(name + " of shape " + shape_text(tensor) + " has no memory.");
}

// What nearly every call is: of a's own type and device, with memory.
bool plainly_fits(const Contraction& contraction, Operand x, const DLTensor& tensor, const DLTensor& a) {
  return tensor.data && has_shape(tensor, contraction.shape[x]) && lt::same(tensor.dtype, a.dtype) &&
         same(tensor.device, a.device) && a.dtype.bits > 8 && x != kAux;
}

void check_presence(const Contraction& contraction, const Tensors& tensors) {
  if (tensors.has(kBias) != contraction.has_bias()) {
    throw ArgumentError(contraction.has_bias() ? "bias is missing: the contraction was bound with one."
                                               : "bias was given, but the contraction was bound without one.");
  }
  if (tensors.has(kAux) != contraction.epilogue.has_aux()) {
    throw ArgumentError(contraction.epilogue.has_aux() ? "aux is missing: the contraction's epilogue has one."
                                                       : "aux was given, but the contraction's epilogue has none.");
  }
}

// What is written while something else is read or written is no result. Starts alone are compared: a view that begins
// elsewhere in the same memory is the caller's own.
void check_memory(const Contraction& contraction, const Tensors& tensors) {
  bool written[kOperands] = {};
  written[kD] = true;
  written[kBias] = contraction.epilogue.writes_bias();
  written[kAux] = contraction.epilogue.writes_aux();
  for (Operand x : {kD, kBias, kAux}) {
    for (int i = 0; written[x] && i < kOperands; ++i) {
      auto y = static_cast<Operand>(i);
      if (y == x || !tensors.has(y) || data_of(tensors[y]) != data_of(tensors[x])) continue;
      if ((x == kD && y == kC) || (written[y] && y < x)) continue;
      throw ArgumentError(std::string(name_of(x)) + " shares memory with " + name_of(y) + ", which is read while " +
                          name_of(x) + " is written.");
    }
  }
}

void check_scale(const char* name, const DLTensor& scale, const DLTensor& operand) {
  if (!lt::same(scale.dtype, {kDLFloat, 32, 1})) {
    throw ArgumentError(std::string(name) + " must be float32, was " + to_text(scale.dtype) + ".");
  }
  if (!same(scale.device, operand.device) || !scale.data) {
    throw ArgumentError(std::string(name) + " is on " + device_text(scale.device) + ", a on " +
                        device_text(operand.device) + ".");
  }
  int64_t step = 1;
  for (int d = scale.ndim - 1; d >= 0; --d) {
    if (scale.shape[d] != 1 && scale.strides && scale.strides[d] != step) {
      throw ArgumentError(std::string(name) + " of shape " + shape_text(scale) + " must be contiguous.");
    }
    if (__builtin_mul_overflow(step, scale.shape[d], &step)) step = -1;
  }
}

}  // namespace

char* data_of(const DLTensor& tensor) { return static_cast<char*>(tensor.data) + tensor.byte_offset; }

int64_t item_size(const DLTensor& tensor) { return tensor.dtype.bits / 8; }

int64_t elements_of(const DLTensor& tensor) {
  int64_t count = 1;
  for (int d = 0; d < tensor.ndim; ++d) {
    if (__builtin_mul_overflow(count, tensor.shape[d], &count)) return INT64_MAX;
  }
  return count;
}

int64_t alignment_of(const void* address, int64_t steps) {
  int64_t bits = reinterpret_cast<int64_t>(address) | steps | kMaxAlignment;
  return bits & -bits;
}

const int64_t* strides_of(const DLTensor& tensor, std::vector<int64_t>* storage) {
  if (tensor.strides) return tensor.strides;
  storage->assign(tensor.ndim, 1);
  for (int i = tensor.ndim - 2; i >= 0; --i) {
    // Beyond 64 bits: refused by the planner, as negative strides are.
    if (__builtin_mul_overflow((*storage)[i + 1], tensor.shape[i + 1], &(*storage)[i])) (*storage)[i] = -1;
  }
  return storage->data();
}

void to_bits(const DLTensor& mask, std::vector<int64_t>* strides) {
  std::vector<int64_t> storage;
  const int64_t* bytes = strides_of(mask, &storage);
  strides->assign(bytes, bytes + mask.ndim);
  for (int d = 0; d + 1 < mask.ndim; ++d) {
    if (__builtin_mul_overflow(bytes[d], 8, &(*strides)[d])) (*strides)[d] = -1;  // refused, as negative strides are
  }
}

void check_tensors(const Contraction& contraction, const Tensors& tensors) {
  check_presence(contraction, tensors);
  const DLTensor& a = tensors[kA];
  for (int i = 0; i < kOperands; ++i) {
    auto x = static_cast<Operand>(i);
    if (tensors.has(x) && !plainly_fits(contraction, x, tensors[x], a)) check_one(contraction, x, tensors[x], tensors);
  }
  check_memory(contraction, tensors);
  if (tensors.scale[0]) check_scale("scale_a", *tensors.scale[0], a);
  if (tensors.scale[1]) check_scale("scale_b", *tensors.scale[1], a);
}

}  // namespace lt
