// Beside double.cc: a matmul as the real library's descriptors tell it, what the documentation refuses of it, and its
// product.
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

struct Matrix {
  uint32_t type = 0;
  int32_t order = 0, batch = 1;
  uint64_t rows = 0, cols = 0;
  int64_t ld = 0, stride = 0;
  bool read(cublasLtMatrixLayout_t layout) {
    return layout && get(layout, CUBLASLT_MATRIX_LAYOUT_TYPE, &type) &&
           get(layout, CUBLASLT_MATRIX_LAYOUT_ORDER, &order) && get(layout, CUBLASLT_MATRIX_LAYOUT_ROWS, &rows) &&
           get(layout, CUBLASLT_MATRIX_LAYOUT_COLS, &cols) && get(layout, CUBLASLT_MATRIX_LAYOUT_LD, &ld) &&
           get(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch) &&
           get(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride);
  }
  // Column-major, at least one element, and no column runs into the next.
  bool legal() const {
    return order == CUBLASLT_ORDER_COL && rows > 0 && cols > 0 && rows <= INT32_MAX && cols <= INT32_MAX &&
           ld >= static_cast<int64_t>(rows) && batch > 0;
  }
};

struct Call {
  int32_t compute = 0, scale = 0, trans_a = 0, trans_b = 0;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  Matrix a, b, c, d;
  int64_t rows = 0, cols = 0, k = 0;

  cublasStatus_t read(cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t la, cublasLtMatrixLayout_t lb,
                      cublasLtMatrixLayout_t lc, cublasLtMatrixLayout_t ld) {
    bool ok = desc && get(desc, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, &compute) &&
              get(desc, CUBLASLT_MATMUL_DESC_SCALE_TYPE, &scale) && get(desc, CUBLASLT_MATMUL_DESC_TRANSA, &trans_a) &&
              get(desc, CUBLASLT_MATMUL_DESC_TRANSB, &trans_b) && get(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue) &&
              get(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias);
    if (!ok || !a.read(la) || !b.read(lb) || !c.read(lc) || !d.read(ld)) return CUBLAS_STATUS_INVALID_VALUE;
    return validate();
  }

  cublasStatus_t validate() {
    for (const Matrix* m : {&a, &b, &c, &d}) {
      if (!m->legal() || m->batch != d.batch) return CUBLAS_STATUS_INVALID_VALUE;
    }
    auto op_rows = [](const Matrix& m, int t) { return static_cast<int64_t>(t ? m.cols : m.rows); };
    auto op_cols = [](const Matrix& m, int t) { return static_cast<int64_t>(t ? m.rows : m.cols); };
    rows = d.rows, cols = d.cols, k = op_cols(a, trans_a);
    if (op_rows(a, trans_a) != rows || op_rows(b, trans_b) != k || op_cols(b, trans_b) != cols) {
      return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (c.rows != d.rows || c.cols != d.cols) return CUBLAS_STATUS_INVALID_VALUE;
    // Matrices of D must not overlap; those of A and B may even be one (stride 0).
    if (d.batch > 1 && d.stride < 1) return CUBLAS_STATUS_INVALID_VALUE;
    return supported_types() ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
  }

  bool supported_types() const {
    if (a.type != b.type || a.type != c.type || a.type != d.type) return false;
    if (epilogue != CUBLASLT_EPILOGUE_DEFAULT && epilogue != CUBLASLT_EPILOGUE_BIAS) return false;
    bool wide = d.type == CUDA_R_64F;
    if (scale != (wide ? CUDA_R_64F : CUDA_R_32F)) return false;
    if (wide) return compute == CUBLAS_COMPUTE_64F;
    bool narrow = d.type == CUDA_R_16F || d.type == CUDA_R_16BF;
    if (narrow) return compute == CUBLAS_COMPUTE_32F;
    return d.type == CUDA_R_32F && (compute == CUBLAS_COMPUTE_32F || compute == CUBLAS_COMPUTE_32F_FAST_TF32);
  }
};

double load(const void* data, int64_t i, uint32_t type) {
  if (type == CUDA_R_64F) return static_cast<const double*>(data)[i];
  if (type == CUDA_R_32F) return static_cast<const float*>(data)[i];
  if (type == CUDA_R_16F) return static_cast<double>(static_cast<const _Float16*>(data)[i]);
  uint32_t bits = static_cast<uint32_t>(static_cast<const uint16_t*>(data)[i]) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

uint16_t to_bf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

void store(void* data, int64_t i, uint32_t type, double value) {
  if (type == CUDA_R_64F) static_cast<double*>(data)[i] = value;
  if (type == CUDA_R_32F) static_cast<float*>(data)[i] = static_cast<float>(value);
  if (type == CUDA_R_16F) static_cast<_Float16*>(data)[i] = static_cast<_Float16>(value);
  if (type == CUDA_R_16BF) static_cast<uint16_t*>(data)[i] = to_bf16(static_cast<float>(value));
}

void compute(const Call& call, double alpha, const void* a, const void* b, double beta, const void* c, void* d) {
  uint32_t type = call.d.type;
  for (int64_t batch = 0; batch < call.d.batch; ++batch) {
    for (int64_t col = 0; col < call.cols; ++col) {
      for (int64_t row = 0; row < call.rows; ++row) {
        double sum = 0;
        for (int64_t k = 0; k < call.k; ++k) {
          int64_t ia = call.trans_a ? k + row * call.a.ld : row + k * call.a.ld;
          int64_t ib = call.trans_b ? col + k * call.b.ld : k + col * call.b.ld;
          sum += load(a, ia + batch * call.a.stride, type) * load(b, ib + batch * call.b.stride, type);
        }
        double value = alpha * sum;
        // With beta 0 C is not read.
        if (beta != 0) value += beta * load(c, row + col * call.c.ld + batch * call.c.stride, type);
        if (call.epilogue == CUBLASLT_EPILOGUE_BIAS) value += load(call.bias, row, type);
        store(d, row + col * call.d.ld + batch * call.d.stride, type, value);
      }
    }
  }
}

}  // namespace
