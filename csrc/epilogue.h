// Beside contraction: what happens to the product on its way to memory, by the names that the boundary takes.
#pragma once

#include <string>

namespace lt {

// "relu_aux" and "gelu_aux" are the activations that also write what their gradients read: a bit mask, or the values
// before the activation. "drelu" and "dgelu" multiply by the activation's derivative, read from such an aux.
enum class Activation { kNone, kRelu, kGelu, kReluAux, kGeluAux, kDRelu, kDGelu };

// What the bias tensor is: added along D's rows; or written, as the sum of D (after the activation's derivative) over
// its other side; or as the sum of an operand over k.
enum class BiasRole { kNone, kAdd, kGradOfD, kGradOfA, kGradOfB };

struct Epilogue {
  Activation activation = Activation::kNone;
  BiasRole bias = BiasRole::kNone;

  bool has_aux() const { return activation >= Activation::kReluAux; }
  bool writes_aux() const { return activation == Activation::kReluAux || activation == Activation::kGeluAux; }
  bool aux_is_mask() const { return activation == Activation::kReluAux || activation == Activation::kDRelu; }
  bool writes_bias() const { return bias > BiasRole::kAdd; }
  bool is_default() const { return activation == Activation::kNone && bias == BiasRole::kNone; }
  // The aux's leading dimension and batch stride are multiples of this: bits of a mask, elements otherwise
  // (cublasLt.h, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD).
  int aux_multiple() const { return aux_is_mask() ? 128 : 8; }
};

// `name` is "" or one of relu, gelu, relu_aux, gelu_aux, drelu, dgelu, bgrada, bgradb. Throws ArgumentError.
Epilogue make_epilogue(const std::string& name, bool has_bias);

}  // namespace lt
