// Sixth in the flow: cublasLt's descriptors as values. Each lives in storage of ours that the library initializes in
// place and checks to be large enough, so a copy of the storage is a copy of the descriptor, in every version of the
// library.
#pragma once

#include <cublasLt.h>

#include "lt_api.h"

namespace lt {

struct OpaqueStorage {
  alignas(16) uint64_t data[64] = {};  // 512 bytes; 12.8's largest descriptor takes 256
};

class MatmulDesc {
 public:
  MatmulDesc() = default;
  MatmulDesc(const Library& library, cublasComputeType_t compute, cudaDataType_t scale) {
    LT_CHECK(library, library.api().desc_init(get(), sizeof(storage_), compute, scale));
  }
  template <typename T>
  void set(const Library& library, cublasLtMatmulDescAttributes_t attribute, const T& value) {
    LT_CHECK(library, library.api().desc_set(get(), attribute, static_cast<const void*>(&value), sizeof(value)));
  }
  // The library's signatures take descriptors it only reads as non-const.
  cublasLtMatmulDesc_t get() const { return reinterpret_cast<cublasLtMatmulDesc_t>(storage_.data); }

 private:
  mutable OpaqueStorage storage_;
};

class MatrixLayout {
 public:
  MatrixLayout() = default;
  MatrixLayout(const Library& library, cudaDataType_t type, int64_t rows, int64_t cols, int64_t ld) {
    LT_CHECK(library, library.api().layout_init(get(), sizeof(storage_), type, rows, cols, ld));
  }
  template <typename T>
  void set(const Library& library, cublasLtMatrixLayoutAttribute_t attribute, const T& value) {
    LT_CHECK(library, library.api().layout_set(get(), attribute, &value, sizeof(value)));
  }
  cublasLtMatrixLayout_t get() const { return reinterpret_cast<cublasLtMatrixLayout_t>(storage_.data); }

 private:
  mutable OpaqueStorage storage_;
};

class Preference {
 public:
  explicit Preference(const Library& library) {
    LT_CHECK(library, library.api().preference_init(get(), sizeof(storage_)));
  }
  template <typename T>
  void set(const Library& library, cublasLtMatmulPreferenceAttributes_t attribute, const T& value) {
    LT_CHECK(library, library.api().preference_set(get(), attribute, &value, sizeof(value)));
  }
  cublasLtMatmulPreference_t get() const { return reinterpret_cast<cublasLtMatmulPreference_t>(storage_.data); }

 private:
  mutable OpaqueStorage storage_;
};

}  // namespace lt
