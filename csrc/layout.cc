// From strides to layouts: what no layout can be made of is refused, what is beyond int32 cut, the rest chosen.
#include "layout.h"

#include <algorithm>
#include <utility>

#include "chooser.h"

namespace lt {
namespace {

using Labels = std::vector<Label>;

std::vector<Layout> refused(std::string reason) {
  Layout none;
  none.refusal = std::move(reason);
  return {none};
}

// Two elements of a written tensor in one place would be written in no order. Sufficient, and true of every permuted or
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

std::string refusal_of(const Labels& labels, const Contraction& contraction) {
  for (const Label& label : labels) {
    if (*std::min_element(label.stride.begin(), label.stride.end()) < 0) return "a stride is negative";
    // Cut in pieces it would be summed in the output's type.
    if (label.cls == LabelClass::kK && label.size > kMaxExtent) return "k is beyond int32";
  }
  if (overlaps(labels, kD)) return "elements of the output overlap";
  bool writes_aux = contraction.epilogue.writes_aux();
  return writes_aux && overlaps(labels, kAux) ? "elements of aux overlap" : "";
}

Label first_of(const Label& label, int64_t size) {
  Label piece = label;
  piece.size = size;
  return piece;
}

// Choices for the labels from `begin` on; those beyond int32 are cut into as many whole pieces as there are, which a
// loop steps over, and the piece that is left.
class Cutter {
 public:
  Cutter(const Contraction& whole, const Demands& demands) : whole_(whole), demands_(demands) {}

  std::vector<Layout> run(const Labels& labels) {
    cut(labels, {}, {});
    for (const Layout& layout : found_) {
      if (!layout.refusal.empty()) return {layout};
    }
    return std::move(found_);
  }

 private:
  using Offset = std::array<int64_t, kOperands>;

  void cut(Labels labels, std::vector<Loop> pieces, Offset offset) {
    auto large = std::find_if(labels.begin(), labels.end(), [](const Label& x) { return x.size > kMaxExtent; });
    if (large == labels.end()) return choose_piece(std::move(labels), pieces, offset);
    const Label whole = *large;
    Loop loop{whole.size / kPiece, {}};
    Offset rest = offset;
    for (int x = 0; x < kOperands; ++x) {
      loop.stride[x] = whole.stride[x] * kPiece;
      rest[x] += loop.stride[x] * loop.size;
    }
    if (whole.size % kPiece) {
      *large = first_of(whole, whole.size % kPiece);
      cut(labels, pieces, rest);
    }
    *large = first_of(whole, kPiece);
    pieces.push_back(loop);
    cut(labels, pieces, offset);
  }

  void choose_piece(Labels labels, const std::vector<Loop>& pieces, const Offset& offset) {
    merge(&labels);
    Layout layout = pieces.empty() ? choose(labels, whole_, demands_) : choose(labels, whole_, without_pointers());
    layout.loops.insert(layout.loops.end(), pieces.begin(), pieces.end());
    layout.offset = offset;
    if (layout.refusal.empty() && layout.steps() > kMaxCalls && !layout.pointers) {
      layout.refusal = "the loop would take more than 64 calls";
    }
    if (layout.refusal.empty() && whole_.epilogue.writes_bias() && (!pieces.empty() || offset != Offset{})) {
      layout.refusal = "a bias gradient over several matrices is no epilogue";
    }
    found_.push_back(std::move(layout));
  }

  Demands without_pointers() const {
    Demands demands = demands_;
    demands.pointer_arrays = false;
    return demands;
  }

  const Contraction& whole_;
  const Demands& demands_;
  std::vector<Layout> found_;
};

}  // namespace

int64_t Layout::steps() const {
  int64_t count = 1;
  for (const Loop& loop : loops) {
    if (__builtin_mul_overflow(count, loop.size, &count)) return INT64_MAX;
  }
  return count;
}

int64_t Layout::start(Operand operand, int64_t i) const {
  int64_t at = offset[operand];
  for (const Loop& loop : loops) {
    at += i % loop.size * loop.stride[operand];
    i /= loop.size;
  }
  return at;
}

std::vector<Layout> choose_layouts(const Contraction& contraction, const Strides& strides, const Demands& demands) {
  if (!contraction.refusal.empty()) return refused(contraction.refusal);
  auto labels = labels_of(contraction, strides);
  if (!labels) return refused("a tensor spans more than an address space");
  std::string refusal = refusal_of(*labels, contraction);
  if (!refusal.empty()) return refused(std::move(refusal));
  return Cutter(contraction, demands).run(*labels);
}

}  // namespace lt
