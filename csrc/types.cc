// The table of types, as cublasLtMatmul's documentation has it ("supported data types" and the notes below it), and
// torch._scaled_mm's and torch._int_mm's own limits where they are narrower.
#include "types.h"

namespace lt {
namespace {

constexpr int64_t kFp8Bytes = 16, kInt8Bytes = 4;  // what dimensions, leading dimensions and pointers are multiples of

struct Known {
  uint8_t code, bits;
  cudaDataType_t type;
};
constexpr Known kKnown[] = {
    {kDLFloat, 64, CUDA_R_64F},
    {kDLFloat, 32, CUDA_R_32F},
    {kDLFloat, 16, CUDA_R_16F},
    {kDLBfloat, 16, CUDA_R_16BF},
    {kDLInt, 8, CUDA_R_8I},
    {kDLInt, 32, CUDA_R_32I},
    {kDLFloat8_e4m3fn, 8, CUDA_R_8F_E4M3},
    {kDLFloat8_e5m2, 8, CUDA_R_8F_E5M2},
};

const Known* known(DLDataType type) {
  for (const Known& each : kKnown) {
    if (type.lanes == 1 && each.code == type.code && each.bits == type.bits) return &each;
  }
  return nullptr;
}

bool is_fp8(DLDataType type) { return type.code == kDLFloat8_e4m3fn || type.code == kDLFloat8_e5m2; }
bool is_int8(DLDataType type) { return type.code == kDLInt && type.bits == 8; }

void choose_compute(Types* types, int64_t flags) {
  if (types->d == CUDA_R_64F) types->compute = CUBLAS_COMPUTE_64F, types->scale = CUDA_R_64F;
  if (types->int8()) types->compute = CUBLAS_COMPUTE_32I, types->scale = CUDA_R_32I;
  if (types->a == CUDA_R_32F && (flags & kTf32)) types->compute = CUBLAS_COMPUTE_32F_FAST_TF32;
  if (types->a == CUDA_R_16F && (flags & kFp16Accumulate)) {
    types->compute = CUBLAS_COMPUTE_16F;
    types->scale = CUDA_R_16F;
  }
}

}  // namespace

bool same(DLDataType x, DLDataType y) { return x.code == y.code && x.bits == y.bits && x.lanes == y.lanes; }

std::string to_text(DLDataType type) {
  const char* kind = type.code == kDLFloat           ? "float"
                     : type.code == kDLBfloat        ? "bfloat"
                     : type.code == kDLComplex       ? "complex"
                     : type.code == kDLInt           ? "int"
                     : type.code == kDLUInt          ? "uint"
                     : type.code == kDLFloat8_e4m3fn ? "float8_e4m3fn of bits "
                     : type.code == kDLFloat8_e5m2   ? "float8_e5m2 of bits "
                                                     : "type of bits ";
  return kind + std::to_string(type.bits);
}

const char* misfit_of_b(DLDataType a, DLDataType b) {
  return same(a, b) || (is_fp8(a) && is_fp8(b)) ? nullptr : "differs from a in dtype";
}

const char* misfit_of_out(DLDataType a, DLDataType out) {
  if (is_int8(a)) return out.code == kDLInt && out.bits == 32 ? nullptr : "must be int32 where a and b are int8";
  if (!is_fp8(a)) return same(a, out) ? nullptr : "differs from a in dtype";
  bool wide = out.code == kDLBfloat || (out.code == kDLFloat && out.bits <= 32);
  return wide ? nullptr : "must be bfloat16, float16 or float32 where a and b are fp8";
}

// A bias of an fp32 output of fp8 operands is bf16 (torch._scaled_mm and the documentation's table say so).
DLDataType bias_type(DLDataType a, DLDataType out) {
  return is_fp8(a) && out.bits == 32 ? DLDataType{kDLBfloat, 16, 1} : out;
}

Types types_of(DLDataType a, DLDataType b, DLDataType out, int64_t flags) {
  Types types;
  const Known *ka = known(a), *kb = known(b), *kd = known(out), *kbias = known(bias_type(a, out));
  if (!ka || !kb || !kd || ka->type == CUDA_R_32I) {
    types.refusal = "only fp64, fp32, fp16, bf16, fp8 and int8 are computed here";
    return types;
  }
  types.a = ka->type, types.b = kb->type, types.d = kd->type, types.bias = kbias->type;
  if (types.a == CUDA_R_8F_E5M2 && types.b == CUDA_R_8F_E5M2) types.refusal = "two e5m2 operands have no kernel";
  choose_compute(&types, flags);
  return types;
}

Demands demands_of(const Types& types, int64_t flags, int major) {
  Demands demands;
  demands.order_of_spec = (flags & kBatchInvariant) != 0;
  // Ada, Hopper and Blackwell's 12.x take fp8 operands contiguous along k alone; Blackwell's 10.x takes all.
  demands.k_innermost = types.int8() || (types.fp8() && major != 10);
  if (types.int8()) demands.operand_multiple = kInt8Bytes;
  if (types.fp8()) {
    demands.operand_multiple = kFp8Bytes;
    demands.output_multiple = kFp8Bytes / (types.d == CUDA_R_32F ? 4 : 2);
  }
  return demands;
}

const char* refusal_of(const Types& types, const Layout& layout, int64_t alignment) {
  if (types.refusal[0]) return types.refusal;
  int64_t multiple = types.fp8() ? kFp8Bytes : types.int8() ? kInt8Bytes : 1;
  if (alignment % multiple) return types.fp8() ? "fp8 takes pointers on 16 bytes" : "int8 takes pointers on 4 bytes";
  if (layout.k % multiple) return types.fp8() ? "fp8 takes k in multiples of 16" : "int8 takes k in multiples of 4";
  if (layout.rows % multiple) {
    return types.fp8() ? "fp8 takes rows of D in multiples of 16" : "int8 takes rows of D in multiples of 4";
  }
  return "";
}

}  // namespace lt
