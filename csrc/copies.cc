// Tries copies in the few orders that can help: dimensions grouped by class, each group in the order in which another
// tensor has it in memory.
#include "copies.h"

#include <algorithm>
#include <numeric>

#include "cost.h"
#include "sides.h"

namespace lt {
namespace {

constexpr double kNever = 1e300;

double cost_of(const std::vector<Layout>& layouts) {
  double cost = 0;
  for (const Layout& layout : layouts) cost += layout.refusal.empty() ? lt::cost_of(layout) : kNever;
  return cost;
}

class Copier {
 public:
  Copier(const Contraction& contraction, const Strides& strides, const Demands& demands, int64_t item_size)
      : whole_(contraction), strides_(strides), demands_(demands), item_size_(item_size) {}

  Copies best(double limit) {
    best_.cost = limit;
    for (Operand x : {kA, kB}) {
      for (const auto& copied : orders(x)) try_copies(x == kA ? &copied : nullptr, x == kB ? &copied : nullptr);
    }
    if (!demands_.k_innermost) return best_;
    for (const auto& a : orders(kA)) {
      for (const auto& b : orders(kB)) try_copies(&a, &b);
    }
    return best_;
  }

 private:
  using Order = std::vector<size_t>;  // dimensions, outermost first
  enum Group { kOuter, kOwn, kSummed };

  void try_copies(const std::vector<int64_t>* a, const std::vector<int64_t>* b) {
    Strides strides = strides_;
    double cost = 0;
    for (auto [x, copied] : {std::pair{kA, a}, std::pair{kB, b}}) {
      if (!copied) continue;
      strides.of[x] = copied->data();
      cost += cost_of_copy(elements(x), item_size_);
    }
    cost += cost_of(choose_layouts(whole_, strides, demands_));
    if (cost >= best_.cost) return;
    best_ = Copies{};
    if (a) best_.of[kA] = *a;
    if (b) best_.of[kB] = *b;
    best_.cost = cost;
  }

  int64_t elements(Operand x) const {
    int64_t count = 1;
    for (int64_t extent : whole_.shape[x]) {
      if (__builtin_mul_overflow(count, extent, &count)) return INT64_MAX;
    }
    return count;
  }

  // Strides of contiguous copies of `x`.
  std::vector<std::vector<int64_t>> orders(Operand x) const {
    std::vector<std::vector<int64_t>> found;
    for (Operand like : {kD, x == kA ? kB : kA}) {
      for (Group innermost : {kSummed, kOwn}) {
        auto strides = contiguous(x, order(x, like, innermost), innermost);
        if (!strides.empty() && std::find(found.begin(), found.end(), strides) == found.end()) found.push_back(strides);
      }
    }
    return found;
  }

  Order order(Operand x, Operand like, Group innermost) const {
    Order order(whole_.dims[x].size());
    std::iota(order.begin(), order.end(), 0);
    Operand other = x == kA ? kB : kA;
    auto rank = [&](size_t dim) {
      Group group = group_of(x, dim);
      int place = group == kOuter ? 0 : group == innermost ? 2 : 1;
      // Outer dimensions as `like` has them, one's own as D has them, the summed as the other operand has them.
      Operand model = group == kOuter ? like : group == kOwn ? kD : other;
      return std::pair{place, -stride_in(model, whole_.dims[x][dim])};
    };
    std::stable_sort(order.begin(), order.end(), [&](size_t i, size_t j) { return rank(i) < rank(j); });
    return order;
  }

  // By the innermost atom that is no size of 1: a dimension joined of several classes is copied as it is.
  Group group_of(Operand x, size_t dim) const {
    for (auto atom = whole_.dims[x][dim].rbegin(); atom != whole_.dims[x][dim].rend(); ++atom) {
      LabelClass cls = whole_.classes[*atom];
      if (cls == LabelClass::kBatch) return kOuter;
      if (cls == LabelClass::kK) return kSummed;
      if (cls != LabelClass::kNone) return kOwn;
    }
    return kOuter;
  }

  int64_t stride_in(Operand model, const Dim& atoms) const {
    int64_t found = 0;
    for (size_t d = 0; d < whole_.dims[model].size(); ++d) {
      const Dim& dim = whole_.dims[model][d];
      int64_t stride = strides_.of[model][d];
      for (auto atom = dim.rbegin(); atom != dim.rend(); ++atom) {
        if (std::find(atoms.begin(), atoms.end(), *atom) != atoms.end()) found = std::max(found, stride);
        if (__builtin_mul_overflow(stride, whole_.sizes[*atom], &stride)) return found;
      }
    }
    return found;
  }

  // Rows of the innermost group are padded to the multiple that leading dimensions have to be. Empty on overflow.
  std::vector<int64_t> contiguous(Operand x, const Order& order, Group innermost) const {
    std::vector<int64_t> strides(order.size());
    int64_t step = 1;
    bool padded = false;
    for (auto dim = order.rbegin(); dim != order.rend(); ++dim) {
      if (step > INT64_MAX / 2) return {};
      if (!padded && group_of(x, *dim) != innermost) {
        step = round_up(step, demands_.operand_multiple);
        padded = true;
      }
      strides[*dim] = step;
      if (__builtin_mul_overflow(step, std::max<int64_t>(1, whole_.shape[x][*dim]), &step)) return {};
    }
    return strides;
  }

  const Contraction& whole_;
  const Strides& strides_;
  const Demands& demands_;
  int64_t item_size_;
  Copies best_;
};

}  // namespace

Copies advise_copies(const Contraction& contraction, const Strides& strides, const Demands& demands,
                     const std::vector<Layout>& direct, int64_t item_size) {
  if (!contraction.refusal.empty()) return {};
  double limit = cost_of(direct);
  Copies found = Copier(contraction, strides, demands, item_size).best(limit);
  return found.cost < limit ? found : Copies{};
}

}  // namespace lt
