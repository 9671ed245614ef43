// Beside double.cc: a matmul as the real library's descriptors tell it, and what the documentation refuses of it.
#pragma once

#include <cublasLt.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstring>

namespace {

// The real library, whose GetAttribute calls are used.
void* real = nullptr;
template <typename F>
F real_symbol(const char* name) {
  return reinterpret_cast<F>(dlsym(real, name));
}

template <typename T>
bool get(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute, T* value) {
  static auto call = real_symbol<decltype(&cublasLtMatrixLayoutGetAttribute)>("cublasLtMatrixLayoutGetAttribute");
  return call(layout, attribute, value, sizeof(T), nullptr) == CUBLAS_STATUS_SUCCESS;
}
template <typename T>
bool get(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute, T* value) {
  static auto call = real_symbol<decltype(&cublasLtMatmulDescGetAttribute)>("cublasLtMatmulDescGetAttribute");
  return call(desc, attribute, value, sizeof(T), nullptr) == CUBLAS_STATUS_SUCCESS;
}
template <typename T>
bool get(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute, T* value) {
  static auto call =
      real_symbol<decltype(&cublasLtMatmulPreferenceGetAttribute)>("cublasLtMatmulPreferenceGetAttribute");
  return call(preference, attribute, value, sizeof(T), nullptr) == CUBLAS_STATUS_SUCCESS;
}

// cublasLt.h of CUDA 13; 12.8 keeps and gives back the value.
constexpr auto kBatchMode = static_cast<cublasLtMatrixLayoutAttribute_t>(8);
constexpr int32_t kStrided = 0, kPointerArray = 1, kOuterVector = 3;

// What the double pretends to be.
struct Machine {
  int64_t version;
  int capability;  // major
};

struct Matrix {
  uint32_t type = 0;
  int32_t order = 0, batch = 1, mode = kStrided;
  uint64_t rows = 0, cols = 0;
  int64_t ld = 0, stride = 0;
  bool read(cublasLtMatrixLayout_t layout) {
    return layout && get(layout, CUBLASLT_MATRIX_LAYOUT_TYPE, &type) &&
           get(layout, CUBLASLT_MATRIX_LAYOUT_ORDER, &order) && get(layout, CUBLASLT_MATRIX_LAYOUT_ROWS, &rows) &&
           get(layout, CUBLASLT_MATRIX_LAYOUT_COLS, &cols) && get(layout, CUBLASLT_MATRIX_LAYOUT_LD, &ld) &&
           get(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch) &&
           get(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride) && get(layout, kBatchMode, &mode);
  }
  // Column-major, at least one element, and no column runs into the next.
  bool legal() const {
    return order == CUBLASLT_ORDER_COL && rows > 0 && cols > 0 && rows <= INT32_MAX && cols <= INT32_MAX &&
           ld >= static_cast<int64_t>(rows) && batch > 0;
  }
};

struct Epilogue {
  uint32_t value = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  void* aux = nullptr;
  int64_t ld_aux = 0, stride_aux = 0;
  int32_t bias_type = -1;

  bool is(uint32_t flag) const { return (value & flag) == flag; }
  bool relu() const { return is(CUBLASLT_EPILOGUE_RELU); }
  bool gelu() const { return is(CUBLASLT_EPILOGUE_GELU); }
  bool drelu() const { return is(CUBLASLT_EPILOGUE_DRELU); }
  bool dgelu() const { return is(CUBLASLT_EPILOGUE_DGELU); }
  bool adds_bias() const { return is(CUBLASLT_EPILOGUE_BIAS); }
  bool has_aux() const { return is(128); }
  bool mask() const { return relu() || drelu(); }
  bool grad_d() const { return (drelu() || dgelu()) && is(16); }
  bool grad_a() const { return is(CUBLASLT_EPILOGUE_BGRADA); }
  bool grad_b() const { return is(CUBLASLT_EPILOGUE_BGRADB); }
  bool writes_bias() const { return grad_d() || grad_a() || grad_b(); }

  bool read(cublasLtMatmulDesc_t desc) {
    return get(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &value) && get(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias) &&
           get(desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &aux) &&
           get(desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &ld_aux) &&
           get(desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, &stride_aux) &&
           get(desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &bias_type);
  }
  // cublasLt.h: EPILOGUE_AUX_LD and _BATCH_STRIDE are multiples of 128 bits of a mask, of 8 elements otherwise.
  cublasStatus_t validate(int64_t rows, int32_t batch) const {
    if ((adds_bias() || writes_bias()) && !bias) return CUBLAS_STATUS_INVALID_VALUE;
    if (writes_bias() && batch > 1) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (!has_aux()) return CUBLAS_STATUS_SUCCESS;
    int64_t multiple = mask() ? 128 : 8;
    bool fits = aux && ld_aux >= rows && ld_aux % multiple == 0 && stride_aux % multiple == 0;
    return fits && (batch == 1 || stride_aux > 0) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
  }
};

struct Call {
  int32_t compute = 0, scale = 0, trans_a = 0, trans_b = 0;
  int32_t mode_a = 0, mode_b = 0;
  int8_t fast_accumulate = 0;
  const void *scale_a = nullptr, *scale_b = nullptr;
  Epilogue epilogue;
  Matrix a, b, c, d;
  int64_t rows = 0, cols = 0, k = 0;

  bool pointers() const { return d.mode == kPointerArray; }
  uint32_t bias_type() const { return epilogue.bias_type < 0 ? d.type : static_cast<uint32_t>(epilogue.bias_type); }

  cublasStatus_t read(cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t la, cublasLtMatrixLayout_t lb,
                      cublasLtMatrixLayout_t lc, cublasLtMatrixLayout_t ld, const Machine& machine) {
    bool ok = desc && get(desc, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, &compute) &&
              get(desc, CUBLASLT_MATMUL_DESC_SCALE_TYPE, &scale) && get(desc, CUBLASLT_MATMUL_DESC_TRANSA, &trans_a) &&
              get(desc, CUBLASLT_MATMUL_DESC_TRANSB, &trans_b) && epilogue.read(desc) &&
              get(desc, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &scale_a) &&
              get(desc, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &scale_b) &&
              get(desc, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, &mode_a) &&
              get(desc, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, &mode_b) &&
              get(desc, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast_accumulate);
    if (!ok || !a.read(la) || !b.read(lb) || !c.read(lc) || !d.read(ld)) return CUBLAS_STATUS_INVALID_VALUE;
    return validate(machine);
  }

 private:
  cublasStatus_t validate(const Machine& machine) {
    for (const Matrix* m : {&a, &b, &c, &d}) {
      if (!m->legal() || m->batch != d.batch || m->mode != d.mode) return CUBLAS_STATUS_INVALID_VALUE;
    }
    auto op_rows = [](const Matrix& m, int t) { return static_cast<int64_t>(t ? m.cols : m.rows); };
    auto op_cols = [](const Matrix& m, int t) { return static_cast<int64_t>(t ? m.rows : m.cols); };
    rows = static_cast<int64_t>(d.rows), cols = static_cast<int64_t>(d.cols), k = op_cols(a, trans_a);
    if (op_rows(a, trans_a) != rows || op_rows(b, trans_b) != k || op_cols(b, trans_b) != cols) {
      return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (c.rows != d.rows || c.cols != d.cols) return CUBLAS_STATUS_INVALID_VALUE;
    // Matrices of D must not overlap; those of A and B may even be one (stride 0).
    if (!pointers() && d.batch > 1 && d.stride < 1) return CUBLAS_STATUS_INVALID_VALUE;
    bool plain = epilogue.value == CUBLASLT_EPILOGUE_DEFAULT;
    if (pointers() && (machine.version < 130000 || !plain || scale_a || scale_b)) return CUBLAS_STATUS_NOT_SUPPORTED;
    cublasStatus_t status = epilogue.validate(rows, d.batch);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    return supported_types(machine) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
  }

  static bool fp8(uint32_t type) { return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2; }

  bool supported_types(const Machine& machine) const {
    if (fp8(a.type)) return supported_fp8(machine);
    if (scale_a || scale_b || fast_accumulate) return false;
    if (a.type == CUDA_R_8I) return supported_int8();
    if (a.type != b.type || a.type != c.type || a.type != d.type || bias_type() != d.type) return false;
    if (d.type == CUDA_R_64F) return compute == CUBLAS_COMPUTE_64F && scale == CUDA_R_64F;
    if (d.type == CUDA_R_16F && compute == CUBLAS_COMPUTE_16F) return scale == CUDA_R_16F;
    if (scale != CUDA_R_32F) return false;
    if (d.type == CUDA_R_16F || d.type == CUDA_R_16BF) return compute == CUBLAS_COMPUTE_32F;
    return d.type == CUDA_R_32F && (compute == CUBLAS_COMPUTE_32F || compute == CUBLAS_COMPUTE_32F_FAST_TF32);
  }

  // cublasLtMatmul's notes on FP8: TN on Ada, Hopper and 12.x; dimensions and leading dimensions on 16 bytes.
  bool supported_fp8(const Machine& machine) const {
    if (!fp8(b.type) || (a.type == CUDA_R_8F_E5M2 && b.type == CUDA_R_8F_E5M2)) return false;
    if (machine.capability != 10 && (!trans_a || trans_b)) return false;
    if (a.ld % 16 || b.ld % 16 || k % 16 || rows % 16) return false;
    if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F || c.type != d.type) return false;
    bool wide = d.type == CUDA_R_32F;
    if (!wide && d.type != CUDA_R_16F && d.type != CUDA_R_16BF) return false;
    if (d.ld * (wide ? 4 : 2) % 16) return false;
    if (epilogue.adds_bias() && bias_type() != (wide ? static_cast<uint32_t>(CUDA_R_16BF) : d.type)) return false;
    bool vectors = mode_a == kOuterVector || mode_b == kOuterVector;
    if (!vectors) return true;
    return mode_a == mode_b && scale_a && scale_b && machine.version >= 120900 && d.batch == 1;
  }

  // The notes on regular IMMA kernels: TN, multiples of 4.
  bool supported_int8() const {
    bool types = b.type == CUDA_R_8I && c.type == CUDA_R_32I && d.type == CUDA_R_32I;
    bool sizes = a.ld % 4 == 0 && b.ld % 4 == 0 && k % 4 == 0 && rows % 4 == 0;
    return types && sizes && trans_a && !trans_b && compute == CUBLAS_COMPUTE_32I && scale == CUDA_R_32I &&
           epilogue.value == CUBLASLT_EPILOGUE_DEFAULT;
  }
};

}  // namespace
