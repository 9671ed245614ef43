// The planner behind a C function, for tests: contraction, labels and layout compile and run without CUDA and without
// tvm.
#include <cstdint>
#include <cstring>

#include "contraction.h"
#include "errors.h"
#include "layout.h"

namespace {

// Reads what tests/csrc/planner.py writes: a count, then that many values.
class Reader {
 public:
  explicit Reader(const int64_t* words) : at_(words) {}
  std::vector<int64_t> list() {
    int64_t count = *at_++;
    std::vector<int64_t> values(at_, at_ + count);
    at_ += count;
    return values;
  }
  lt::Dims dims() {
    lt::Dims dims(*at_++);
    for (lt::Dim& dim : dims) dim = list();
    return dims;
  }
  bool flag() { return *at_++ != 0; }

 private:
  const int64_t* at_;
};

void write(const lt::Matrix& matrix, int64_t** out) {
  for (int64_t value : {static_cast<int64_t>(matrix.trans), matrix.ld, matrix.batch_stride, matrix.loop_stride}) {
    *(*out)++ = value;
  }
}

void write(const lt::Layout& layout, int64_t* out, char* text) {
  for (int64_t value :
       {layout.rows, layout.cols, layout.k, layout.batch, layout.calls, static_cast<int64_t>(layout.first_is_b)}) {
    *out++ = value;
  }
  for (const lt::Matrix& matrix : {layout.first, layout.second, layout.c, layout.d}) write(matrix, &out);
  std::strncpy(text, layout.refusal.empty() ? layout.view.c_str() : layout.refusal.c_str(), 255);
}

}  // namespace

// 0: a layout in `out` and its view in `text`; 1: declined, the reason in `text`; 2: the lists mean nothing, why in
// `text`.
extern "C" __attribute__((visibility("default"))) int plan(const int64_t* words, int64_t* out, char* text) {
  Reader reader(words);
  std::vector<int64_t> sizes = reader.list();
  lt::Dims a = reader.dims(), b = reader.dims(), d = reader.dims(), bias = reader.dims();
  bool has_bias = reader.flag(), has_c = reader.flag();
  std::vector<int64_t> steps[lt::kOperands];
  lt::Strides strides;
  for (lt::Operand x : {lt::kA, lt::kB, lt::kD, lt::kBias, lt::kC}) {
    steps[x] = reader.list();
    if ((x != lt::kBias || has_bias) && (x != lt::kC || has_c)) strides.of[x] = steps[x].data();
  }
  try {
    lt::Layout layout = lt::choose_layout(lt::make_contraction(a, b, d, has_bias, bias, sizes), strides);
    write(layout, out, text);
    return layout.refusal.empty() ? 0 : 1;
  } catch (const lt::ArgumentError& error) {
    std::strncpy(text, error.what(), 255);
    return 2;
  }
}
