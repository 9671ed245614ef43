// The cost rule.
#include "cost.h"

#include <algorithm>

namespace lt {
namespace {

double whole_tiles(int64_t side) {
  int64_t tiles = (side + kTile - 1) / kTile;
  return static_cast<double>(tiles * kTile);
}

}  // namespace

double cost_of(const Layout& layout) {
  double matrices = static_cast<double>(layout.batch) * (layout.pointers ? static_cast<double>(layout.steps()) : 1.0);
  double work = whole_tiles(layout.rows) * whole_tiles(layout.cols) * static_cast<double>(layout.k) * matrices;
  double call = std::max(1.0, work / kWorkOfALaunch);
  return static_cast<double>(layout.calls()) * call + (layout.pointers ? 1.0 : 0.0);
}

double cost_of_copy(int64_t elements, int64_t item_size) {
  return 1.0 + 2.0 * static_cast<double>(elements) * static_cast<double>(item_size) / kBytesOfALaunch;
}

}  // namespace lt
