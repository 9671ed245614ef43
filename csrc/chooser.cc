// Chooses matrix, batch and loop labels. Row-major inside (as the caller's tensors are); `column_major` is the one
// place that knows cuBLAS's order.
#include "chooser.h"

#include <algorithm>
#include <utility>

#include "cost.h"
#include "named_order.h"
#include "sides.h"

namespace lt {
namespace {

using Labels = std::vector<Label>;

// D[m, n] = left[m, k] right[k, n], all row-major; `trans` says that the operand is stored the other way round.
struct RowMajor {
  bool left_is_a = true;
  int64_t m = 1, n = 1, k = 1, batch = 1;
  Matrix left, right, c, d, aux;
  std::vector<Loop> loops;
  bool pointers = false;
};

Layout column_major(const RowMajor& row) {
  // A row-major matrix read column-major is its transpose, so D^T = right^T left^T: the operands change places, m and n
  // change places, flags and leading dimensions stay.
  Layout found;
  found.rows = row.n;
  found.cols = row.m;
  found.k = row.k;
  found.batch = row.batch;
  found.loops = row.loops;
  found.pointers = row.pointers;
  found.first_is_b = row.left_is_a;
  found.first = row.right;
  found.second = row.left;
  found.c = row.c;
  found.d = row.d;
  found.aux = row.aux;
  // left = b means out^T = b^T a^T was computed: what is stored plainly there, PyTorch's view calls transposed.
  bool a_trans = row.left_is_a ? row.left.trans : !row.right.trans;
  bool b_trans = row.left_is_a ? row.right.trans : !row.left.trans;
  found.view = std::string(a_trans ? "T" : "N") + (b_trans ? "T" : "N");
  return found;
}

// The least cost; then no array of pointers; then fewest calls; then the most work in one matrix; then, if one side is
// of size 1, the other along D's rows; then the D whose rows lie closest together.
bool cheaper(const Layout& x, const Layout& y) {
  double cost_x = cost_of(x), cost_y = cost_of(y);
  if (cost_x != cost_y) return cost_x < cost_y;
  if (x.pointers != y.pointers) return y.pointers;
  if (x.calls() != y.calls()) return x.calls() < y.calls();
  double work_x = static_cast<double>(x.rows) * static_cast<double>(x.cols);
  double work_y = static_cast<double>(y.rows) * static_cast<double>(y.cols);
  if (work_x != work_y) return work_x > work_y;
  return x.rows != y.rows ? x.rows > y.rows : x.d.ld < y.d.ld;
}

// Looks at every choice of the matrix's labels, keeps the cheapest, and for a refusal the reason of the choice that
// went furthest.
class Chooser {
 public:
  Chooser(const Labels& labels, const Contraction& whole, const Demands& demands)
      : labels_(labels), whole_(whole), demands_(demands), order_(whole) {}

  Layout run() {
    auto summed = of(LabelClass::kK);
    if (summed.size() > 1) return refused("the summed labels do not merge into one k in both operands");
    for (bool left_is_a : {true, false}) {
      if (demands_.order_of_spec && left_is_a == order_.ends_in(kD, LabelClass::kM)) continue;
      for (Side outer : of(left_is_a ? LabelClass::kM : LabelClass::kN)) {
        for (Side inner : of(left_is_a ? LabelClass::kN : LabelClass::kM)) try_one(left_is_a, outer, inner, summed[0]);
      }
    }
    return found_ ? best_ : refused(reason_);
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

  void try_one(bool left_is_a, Side outer, Side inner, Side k) {
    RowMajor row;
    row.left_is_a = left_is_a;
    row.m = outer.size();
    row.n = inner.size();
    row.k = k.size();
    bool fits = place_output(&row, outer, inner) && place_operands(&row, outer, inner, k) && thick_enough(outer) &&
                thick_enough(inner);
    if (fits) place_rest(row, outer, inner, k);
  }

  bool place_output(RowMajor* row, Side outer, Side inner) {
    auto d = leading_dimension(outer, inner, kD, demands_.output_multiple);
    if (!d) return fail(2, "the output's contiguous dimension is neither m nor n, or its rows overlap");
    auto c = leading_dimension(outer, inner, kC, demands_.output_multiple);
    if (!c) return fail(3, "c is not a matrix in the output's order");
    row->d.ld = *d;
    row->c.ld = *c;
    if (!whole_.epilogue.has_aux()) return true;
    auto aux = leading_dimension(outer, inner, kAux, whole_.epilogue.aux_multiple());
    if (!aux)
      return fail(3, "aux is not a matrix in the output's order, or its leading dimension has a wrong multiple");
    row->aux.ld = *aux;
    return true;
  }

  bool place_operands(RowMajor* row, Side outer, Side inner, Side k) {
    Operand left = row->left_is_a ? kA : kB, right = row->left_is_a ? kB : kA;
    const char* const reasons[] = {"a is not a matrix in memory: no side is contiguous, or rows overlap",
                                   "b is not a matrix in memory: no side is contiguous, or rows overlap"};
    bool k_last = order_.ends_in(left, LabelClass::kK);
    if (!store(&row->left, outer, k, left, k_last, false)) return fail(4, reasons[left]);
    k_last = order_.ends_in(right, LabelClass::kK);
    if (!store(&row->right, k, inner, right, !k_last, true)) return fail(4, reasons[right]);
    return true;
  }

  // How outer x inner is stored in x, either way round. A side of size 1 is never made the contiguous one by choice;
  // where sizes of 1 leave it open and the order of the spec is asked for, that decides. `k_is_outer`: of the two
  // sides.
  bool store(Matrix* matrix, Side outer, Side inner, Operand x, bool plain_in_spec, bool k_is_outer) const {
    auto plain = leading_dimension(outer, inner, x, demands_.operand_multiple);
    auto turned = leading_dimension(inner, outer, x, demands_.operand_multiple);
    if (demands_.k_innermost) (k_is_outer ? plain : turned).reset();
    if (!plain && !turned) return false;
    matrix->trans = turned && (!plain || (demands_.order_of_spec ? !plain_in_spec : inner.size() == 1));
    matrix->ld = matrix->trans ? *turned : *plain;
    return true;
  }

  bool thick_enough(Side side) {
    if (!side.label || side.size() >= kThinSide) return true;
    int64_t whole = 1;
    for (const Label& label : labels_) {
      if (label.cls == side.label->cls && __builtin_mul_overflow(whole, label.size, &whole)) whole = kMaxExtent;
    }
    return whole < kThinSide * side.size() ||
           fail(5, "only gemv-shaped matrices lie in memory: of a side nearly all is left outside");
  }

  // One vector along D's rows, the same for every matrix: the BIAS epilogue reads it so and D's gradient is written so.
  // An operand's gradient lies along the side that is its own. What is written sums over all there is: one matrix.
  bool bias_fits(bool left_is_a, Side outer, Side inner, bool more) {
    BiasRole role = whole_.epilogue.bias;
    if (role == BiasRole::kNone) return true;
    if (whole_.epilogue.writes_bias() && more) return fail(6, "a bias gradient over several matrices is no epilogue");
    Side along = inner;
    if (role == BiasRole::kGradOfA) along = left_is_a ? outer : inner;
    if (role == BiasRole::kGradOfB) along = left_is_a ? inner : outer;
    bool fits = along.size() == 1 || along.stride(kBias) == 1;
    for (const Label& label : labels_) fits = fits && (&label == along.label || label.stride[kBias] == 0);
    return fits || fail(5, "the bias is not one contiguous vector along the side that its epilogue runs along");
  }

  // The labels outside the matrix: the largest is the strided batch, the others loops, or all are arrays of pointers.
  void place_rest(RowMajor row, Side outer, Side inner, Side k) {
    Labels rest;
    for (const Label& label : labels_) {
      if (&label == outer.label || &label == inner.label || &label == k.label) continue;
      rest.push_back(label);
      rest.back().cls = LabelClass::kBatch;  // out here all are, and may merge as such
    }
    merge(&rest);
    if (!bias_fits(row.left_is_a, outer, inner, !rest.empty())) return;
    if (!aux_steps(rest)) return;
    std::stable_sort(rest.begin(), rest.end(), [](const Label& x, const Label& y) { return x.size > y.size; });
    if (!rest.empty()) batch(&row, rest[0]);
    for (size_t i = 1; i < rest.size(); ++i) row.loops.push_back({rest[i].size, rest[i].stride});
    Layout found = column_major(row);
    if (found.calls() <= kMaxCalls) keep(found);
    found.pointers = demands_.pointer_arrays && !found.loops.empty() && whole_.epilogue.is_default();
    if (found.pointers && found.steps() <= kMaxExtent / found.batch) return keep(found);
    if (found.steps() > kMaxCalls) fail(7, "the loop would take more than 64 calls");
  }

  bool aux_steps(const Labels& rest) {
    if (!whole_.epilogue.has_aux()) return true;
    for (const Label& label : rest) {
      if (label.stride[kAux] % whole_.epilogue.aux_multiple())
        return fail(6, "a matrix of aux starts between multiples");
    }
    return true;
  }

  void keep(const Layout& layout) {
    if (!found_ || cheaper(layout, best_)) best_ = layout;
    found_ = true;
  }

  static void batch(RowMajor* row, const Label& label) {
    Operand left = row->left_is_a ? kA : kB, right = row->left_is_a ? kB : kA;
    row->batch = label.size;
    row->left.batch_stride = label.stride[left];
    row->right.batch_stride = label.stride[right];
    row->c.batch_stride = label.stride[kC];
    row->d.batch_stride = label.stride[kD];
    row->aux.batch_stride = label.stride[kAux];
  }

  const Labels& labels_;
  const Contraction& whole_;
  const Demands& demands_;
  NamedOrder order_;
  bool found_ = false;
  Layout best_;
  int stage_ = 0;
  std::string reason_;
};

}  // namespace

Layout choose(const Labels& labels, const Contraction& whole, const Demands& demands) {
  return Chooser(labels, whole, demands).run();
}

}  // namespace lt
