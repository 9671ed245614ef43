// The planner behind a C function, for tests: contraction, labels and layout compile and run without CUDA and without
// tvm.
#include <cstdint>
#include <cstring>

#include "contraction.h"
#include "copies.h"
#include "cost.h"
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

// Writes what tests/csrc/planner.py reads.
class Writer {
 public:
  explicit Writer(int64_t* words) : at_(words) {}
  void value(int64_t value) { *at_++ = value; }
  template <typename Values>
  void list(const Values& values) {
    for (int64_t each : values) value(each);
  }

 private:
  int64_t* at_;
};

void write(const lt::Layout& layout, Writer* out) {
  out->list(std::initializer_list<int64_t>{layout.rows, layout.cols, layout.k, layout.batch, layout.first_is_b,
                                           layout.pointers});
  out->value(static_cast<int64_t>(layout.loops.size()));
  for (const lt::Loop& loop : layout.loops) {
    out->value(loop.size);
    out->list(loop.stride);
  }
  for (const lt::Matrix& matrix : {layout.first, layout.second, layout.c, layout.d, layout.aux}) {
    out->list(std::initializer_list<int64_t>{matrix.trans, matrix.ld, matrix.batch_stride});
  }
  out->list(layout.offset);
}

// A contraction, the strides of its tensors and what is demanded, as the test wrote them.
struct Problem {
  explicit Problem(const int64_t* words) {
    Reader reader(words);
    sizes = reader.list();
    lt::Dims a = reader.dims(), b = reader.dims(), d = reader.dims(), bias = reader.dims();
    bool has_bias = reader.flag();
    lt::Epilogue epilogue{static_cast<lt::Activation>(reader.list()[0]), static_cast<lt::BiasRole>(reader.list()[0])};
    if (!has_bias) epilogue.bias = lt::BiasRole::kNone;
    for (lt::Operand x : {lt::kA, lt::kB, lt::kD, lt::kBias, lt::kC, lt::kAux}) {
      bool given = reader.flag();
      steps[x] = reader.list();
      if (given) strides.of[x] = steps[x].data();
    }
    std::vector<int64_t> asked = reader.list();
    demands = {asked[0] != 0, asked[1], asked[2], asked[3] != 0, asked[4] != 0};
    contraction = lt::make_contraction(a, b, d, bias, epilogue, sizes);
  }
  std::vector<int64_t> sizes, steps[lt::kOperands];
  lt::Strides strides;
  lt::Demands demands;
  lt::Contraction contraction;
};

void say(const std::string& what, char* text) { std::strncpy(text, what.c_str(), 255); }

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

// 0: layouts in `out` and the first one's view in `text`; 1: declined, the reason in `text`; 2: the lists mean nothing,
// why in `text`.
EXPORT int plan(const int64_t* words, int64_t* out, char* text) {
  try {
    Problem problem(words);
    auto layouts = lt::choose_layouts(problem.contraction, problem.strides, problem.demands);
    say(layouts[0].refusal.empty() ? layouts[0].view : layouts[0].refusal, text);
    Writer writer(out);
    writer.value(static_cast<int64_t>(layouts.size()));
    for (const lt::Layout& layout : layouts) write(layout, &writer);
    return layouts[0].refusal.empty() ? 0 : 1;
  } catch (const lt::ArgumentError& error) {
    say(error.what(), text);
    return 2;
  }
}

// The strides that a copy of a and of b should have: each a count, 0 for no copy, then that many strides.
EXPORT void copies(const int64_t* words, int64_t item_size, int64_t* out) {
  Problem problem(words);
  auto layouts = lt::choose_layouts(problem.contraction, problem.strides, problem.demands);
  auto found = lt::advise_copies(problem.contraction, problem.strides, problem.demands, layouts, item_size);
  Writer writer(out);
  for (const auto& strides : found.of) {
    writer.value(static_cast<int64_t>(strides.size()));
    writer.list(strides);
  }
}

EXPORT double cost(int64_t rows, int64_t cols, int64_t k, int64_t batch, int64_t steps, int pointers) {
  lt::Layout layout;
  layout.rows = rows, layout.cols = cols, layout.k = k, layout.batch = batch, layout.pointers = pointers != 0;
  layout.loops.push_back({steps, {}});
  return lt::cost_of(layout);
}

EXPORT double copy_cost(int64_t elements, int64_t item_size) { return lt::cost_of_copy(elements, item_size); }
