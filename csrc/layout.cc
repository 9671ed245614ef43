// Chooses matrix, batch and loop labels. Row-major inside (as the caller's tensors are); `column_major` is the one
// place that knows cuBLAS's order.
#include "layout.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace lt {
namespace {

using Labels = std::vector<Label>;

// D[m, n] = left[m, k] right[k, n], all row-major; `trans` says that the operand is stored the other way round.
struct RowMajor {
  bool left_is_a = true;
  int64_t m = 1, n = 1, k = 1, batch = 1, calls = 1;
  Matrix left, right, c, d;
};

Layout column_major(const RowMajor& row) {
  // A row-major matrix read column-major is its transpose, so D^T = right^T left^T: the operands change places, m and n
  // change places, flags and leading dimensions stay.
  Layout found;
  found.rows = row.n;
  found.cols = row.m;
  found.k = row.k;
  found.batch = row.batch;
  found.calls = row.calls;
  found.first_is_b = row.left_is_a;
  found.first = row.right;
  found.second = row.left;
  found.c = row.c;
  found.d = row.d;
  // left = b means out^T = b^T a^T was computed: what is stored plainly there, PyTorch's view calls transposed.
  bool a_trans = row.left_is_a ? row.left.trans : !row.right.trans;
  bool b_trans = row.left_is_a ? row.right.trans : !row.left.trans;
  found.view = std::string(a_trans ? "T" : "N") + (b_trans ? "T" : "N");
  return found;
}

// The cost rule: fewest calls; then the most work in one matrix; then, if one side is of size 1, the other along D's
// rows; then the D whose rows lie closest together.
bool cheaper(const RowMajor& x, const RowMajor& y) {
  if (x.calls != y.calls) return x.calls < y.calls;
  double work_x = static_cast<double>(x.m) * x.n * x.k, work_y = static_cast<double>(y.m) * y.n * y.k;
  if (work_x != work_y) return work_x > work_y;
  return x.n != y.n ? x.n > y.n : x.d.ld < y.d.ld;
}

// A side of a matrix: a label, or nothing (size 1, its stride meaningless).
struct Side {
  const Label* label = nullptr;
  int64_t size() const { return label ? label->size : 1; }
  int64_t stride(Operand x) const { return label ? label->stride[x] : 0; }
};

// The leading dimension of outer x inner stored with inner contiguous, repaired where a size of 1 leaves it
// meaningless.
std::optional<int64_t> leading_dimension(Side outer, Side inner, Operand x) {
  if (inner.size() > 1 && inner.stride(x) != 1) return std::nullopt;
  if (outer.size() == 1) return inner.size();
  if (outer.stride(x) < inner.size()) return std::nullopt;  // overlapping, expanded or not contiguous
  return outer.stride(x);
}

// How outer x inner is stored in x, either way round. A side of size 1 is never made the contiguous one by choice.
std::optional<Matrix> stored(Side outer, Side inner, Operand x) {
  auto plain = leading_dimension(outer, inner, x), turned = leading_dimension(inner, outer, x);
  Matrix matrix;
  matrix.trans = turned && (!plain || inner.size() == 1);
  if (!plain && !turned) return std::nullopt;
  matrix.ld = matrix.trans ? *turned : *plain;
  return matrix;
}

// The output and C may not be transposed.
std::optional<Matrix> stored_plainly(Side outer, Side inner, Operand x) {
  auto ld = leading_dimension(outer, inner, x);
  if (!ld) return std::nullopt;
  Matrix matrix;
  matrix.ld = *ld;
  return matrix;
}

// Looks at every choice of the matrix's labels, keeps the cheapest, and for a refusal the reason of the choice that
// went furthest.
class Chooser {
 public:
  explicit Chooser(const Labels& labels, bool has_bias) : labels_(labels), has_bias_(has_bias) {}

  Layout choose() {
    auto summed = of(LabelClass::kK);
    if (summed.size() > 1) return refused("the summed labels do not merge into one k in both operands");
    for (bool left_is_a : {true, false}) {
      for (Side outer : of(left_is_a ? LabelClass::kM : LabelClass::kN)) {
        for (Side inner : of(left_is_a ? LabelClass::kN : LabelClass::kM)) try_one(left_is_a, outer, inner, summed[0]);
      }
    }
    return best_ ? column_major(*best_) : refused(reason_);
  }

 private:
  static Layout refused(std::string reason) {
    Layout none;
    none.refusal = std::move(reason);
    return none;
  }

  // The labels of a class. A class that has one always gives one to the matrix: a gemv is not a GEMM.
  std::vector<Side> of(LabelClass cls) const {
    std::vector<Side> sides;
    for (const Label& label : labels_) {
      if (label.cls == cls) sides.push_back({&label});
    }
    if (sides.empty()) sides.push_back({});
    return sides;
  }

  bool fail(int stage, const char* reason) {
    if (stage > stage_) {
      stage_ = stage;
      reason_ = reason;
    }
    return false;
  }

  bool try_one(bool left_is_a, Side outer, Side inner, Side k) {
    RowMajor row;
    row.left_is_a = left_is_a;
    row.m = outer.size();
    row.n = inner.size();
    row.k = k.size();
    if (!place_output(&row, outer, inner) || !place_operands(&row, outer, inner, k)) return false;
    if (!bias_fits(inner) || !place_rest(&row, outer, inner, k)) return false;
    if (!best_ || cheaper(row, *best_)) best_ = row;
    return true;
  }

  bool place_output(RowMajor* row, Side outer, Side inner) {
    if (std::max({row->m, row->n, row->k}) > kMaxExtent) return fail(1, "a matrix side is beyond int32");
    auto d = stored_plainly(outer, inner, kD);
    if (!d) return fail(2, "the output's contiguous dimension is neither m nor n, or its rows overlap");
    auto c = stored_plainly(outer, inner, kC);
    if (!c) return fail(3, "c is not a matrix in the output's order");
    row->d = *d;
    row->c = *c;
    return true;
  }

  bool place_operands(RowMajor* row, Side outer, Side inner, Side k) {
    Operand left = row->left_is_a ? kA : kB, right = row->left_is_a ? kB : kA;
    auto x = stored(outer, k, left), y = stored(k, inner, right);
    const char* const reasons[] = {"a is not a matrix in memory: no side is contiguous, or rows overlap",
                                   "b is not a matrix in memory: no side is contiguous, or rows overlap"};
    if (!x) return fail(4, reasons[left]);
    if (!y) return fail(4, reasons[right]);
    row->left = *x;
    row->right = *y;
    return true;
  }

  // The BIAS epilogue adds one vector along D's (column-major) rows, and the same one to every matrix of a batch.
  bool bias_fits(Side rows) {
    if (!has_bias_) return true;
    bool fits = rows.size() == 1 || rows.stride(kBias) == 1;
    for (const Label& label : labels_) fits = fits && (&label == rows.label || label.stride[kBias] == 0);
    return fits || fail(5, "the bias is not one contiguous vector along the rows of D");
  }

  // The labels outside the matrix: the largest is the strided batch, one more the loop.
  bool place_rest(RowMajor* row, Side outer, Side inner, Side k) {
    Labels rest;
    for (const Label& label : labels_) {
      if (&label == outer.label || &label == inner.label || &label == k.label) continue;
      rest.push_back(label);
      rest.back().cls = LabelClass::kBatch;  // out here all are, and may merge as such
    }
    merge(&rest);
    std::stable_sort(rest.begin(), rest.end(), [](const Label& x, const Label& y) { return x.size > y.size; });
    if (rest.size() > 2) return fail(6, "more than two labels outside the matrix do not merge");
    if (rest.size() == 2 && rest[1].size > kMaxCalls) return fail(7, "the loop would take more than 64 calls");
    if (!rest.empty() && rest[0].size > kMaxExtent) return fail(7, "the batch count is beyond int32");
    for (size_t i = 0; i < rest.size(); ++i) step(row, rest[i], i == 0);
    return true;
  }

  static void step(RowMajor* row, const Label& label, bool batch) {
    Operand left = row->left_is_a ? kA : kB, right = row->left_is_a ? kB : kA;
    const std::pair<Matrix*, Operand> all[] = {{&row->left, left}, {&row->right, right}, {&row->c, kC}, {&row->d, kD}};
    for (auto [matrix, x] : all) (batch ? matrix->batch_stride : matrix->loop_stride) = label.stride[x];
    (batch ? row->batch : row->calls) = label.size;
  }

  const Labels& labels_;
  bool has_bias_;
  std::optional<RowMajor> best_;
  int stage_ = 0;
  std::string reason_;
};

// Two elements of the output in one place would be written in no order. Sufficient, and true of every permuted or
// padded tensor: each label steps over all that the smaller ones reach.
bool overlaps(const Labels& labels, Operand x) {
  std::vector<std::pair<int64_t, int64_t>> steps;
  for (const Label& label : labels) {
    if (label.cls != LabelClass::kK) steps.push_back({label.stride[x], label.size});
  }
  std::sort(steps.begin(), steps.end());
  int64_t reach = 0;
  for (auto [stride, size] : steps) {
    if (stride <= reach) return true;
    reach += stride * (size - 1);
  }
  return false;
}

}  // namespace

Layout choose_layout(const Contraction& contraction, const Strides& strides) {
  Layout refused;
  refused.refusal = contraction.refusal;
  if (!refused.refusal.empty()) return refused;
  Labels labels = labels_of(contraction, strides);
  for (const Label& label : labels) {
    if (*std::min_element(label.stride.begin(), label.stride.end()) < 0) refused.refusal = "a stride is negative";
  }
  if (overlaps(labels, kD)) refused.refusal = "elements of the output overlap";
  return refused.refusal.empty() ? Chooser(labels, contraction.has_bias).choose() : refused;
}

}  // namespace lt
