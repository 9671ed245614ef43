// Drives planner and plan cache with random labels, sizes, strides, types and addresses: nothing may crash, overflow or
// be told to the library that it refuses; every eighth problem has memory, is computed by the double and compared.
//
// fuzz DOUBLE REAL COUNT SEED
#include <cstdio>

#include "reference.h"
#include "session.h"

namespace {

struct Tally {
  int64_t refused = 0, declined = 0, planned = 0, compared = 0, failed_on_purpose = 0;
};

void fill_values(fuzz::Random* random, fuzz::Tensor* tensor) {
  int64_t last = 0;
  for (size_t d = 0; d < tensor->shape.size(); ++d) last += (tensor->shape[d] - 1) * tensor->strides[d];
  for (int64_t i = 0; i <= last; ++i) {
    auto value = static_cast<double>(random->below(7) - 3);
    if (tensor->dl.dtype.bits == 64) reinterpret_cast<double*>(tensor->memory.get())[i] = value;
    if (tensor->dl.dtype.bits == 32) reinterpret_cast<float*>(tensor->memory.get())[i] = static_cast<float>(value);
  }
}

// What the library would be told, once more against what it may be told.
bool told_the_truth(const lt::Layout& layout) {
  bool fits = layout.rows > 0 && layout.cols > 0 && layout.k > 0 && layout.batch > 0;
  fits = fits && layout.rows <= lt::kMaxExtent && layout.cols <= lt::kMaxExtent && layout.k <= lt::kMaxExtent;
  fits = fits && layout.batch <= lt::kMaxExtent && layout.calls() <= lt::kMaxCalls;
  fits = fits && layout.first.ld >= (layout.first.trans ? layout.k : layout.rows);
  fits = fits && layout.second.ld >= (layout.second.trans ? layout.cols : layout.k);
  return fits && layout.d.ld >= layout.rows && layout.c.ld >= layout.rows && layout.steps() >= 1;
}

bool layouts_hold(const fuzz::Problem& problem, const lt::Contraction& contraction) {
  lt::Strides strides;
  std::array<std::vector<int64_t>, lt::kOperands> storage;
  for (lt::Operand x : {lt::kA, lt::kB, lt::kD}) {
    strides.of[x] = lt::strides_of(problem.tensors[static_cast<size_t>(x)].dl, &storage[x]);
  }
  if (problem.epilogue.bias != lt::BiasRole::kNone) {
    strides.of[lt::kBias] = lt::strides_of(problem.tensors[lt::kBias].dl, &storage[lt::kBias]);
  }
  lt::Demands demands;
  auto layouts = lt::choose_layouts(contraction, strides, demands);
  if (!layouts[0].refusal.empty()) return true;
  for (const lt::Layout& layout : layouts) {
    if (!told_the_truth(layout)) return false;
  }
  return true;
}

bool one(const fuzz::Double& library, fuzz::Random* random, bool real, Tally* tally) {
  fuzz::Problem problem;
  fuzz::fill_problem(random, real, &problem);
  library.set("double_no_op", real ? 0 : 2);
  // Faults at any entry point but cublasLtCreate's, whose handles stay.
  bool fault = random->chance(3);
  if (fault) library.fail(2 + static_cast<int>(random->below(3)), random->chance(50) ? 15 : 13);
  if (real) {
    for (auto& tensor : problem.tensors) fill_values(random, &tensor);
  }
  try {
    auto gemm = fuzz::bind(problem);
    if (!layouts_hold(problem, gemm->contraction())) return std::fprintf(stderr, "a layout is no layout\n"), false;
    lt::Tensors tensors = fuzz::tensors_of(problem);
    if (random->chance(10)) gemm->explain(tensors, problem.flags);
    lt::Outcome outcome = gemm->run(tensors, {problem.alpha, problem.beta}, problem.flags);
    if (outcome != lt::Outcome::kComputed) return ++tally->declined, true;
    ++tally->planned;
    if (real && !fuzz::Reference(problem).holds()) return false;
    tally->compared += real;
    // The same call again is a hit, and does the same.
    return random->chance(90) || gemm->run(tensors, {problem.alpha, problem.beta}, problem.flags) == outcome || fault;
  } catch (const lt::ArgumentError&) {
    return ++tally->refused, true;
  } catch (const lt::LibraryError& error) {
    if (fault) return ++tally->failed_on_purpose, true;
    // A device beyond those that there are is the caller's; anything else would be ours.
    return std::fprintf(stderr, "%s\n", error.what()), false;
  }
}

}  // namespace

int main(int, char** argv) {
  fuzz::Double library = fuzz::open(argv[1], argv[2]);
  int64_t count = std::atoll(argv[3]);
  int64_t seed = std::atoll(argv[4]);
  lt::PlanCache::global().set_capacity(64);  // evictions are part of it
  Tally tally;
  for (int64_t i = seed; i < seed + count; ++i) {
    fuzz::Random random(static_cast<uint64_t>(i));
    library.set64("double_want_workspace", i % 5 == 0 ? 1000 : 0);
    library.set("double_capturing", i % 11 == 0);
    if (!one(library, &random, i % 8 == 0, &tally)) {
      std::fprintf(stderr, "problem %lld is wrong\n", static_cast<long long>(i));
      return 1;
    }
    for (int entry = 0; entry < 6; ++entry) library.fail(entry, 0);
  }
  lt::CacheStats stats = lt::PlanCache::global().stats();
  std::printf(
      "problems %lld planned %lld compared %lld declined %lld refused %lld failed %lld evictions %lld hits %lld\n",
      static_cast<long long>(count), static_cast<long long>(tally.planned), static_cast<long long>(tally.compared),
      static_cast<long long>(tally.declined), static_cast<long long>(tally.refused),
      static_cast<long long>(tally.failed_on_purpose), static_cast<long long>(stats.evictions),
      static_cast<long long>(stats.hits));
  return 0;
}
