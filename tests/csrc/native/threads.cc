// Threads over a few shared contractions and a small plan cache: for ThreadSanitizer, and for wrong results.
//
// threads DOUBLE REAL THREADS CALLS
#include <cstdio>
#include <thread>

#include "session.h"
#include "tuned.h"

namespace {

constexpr int kContractions = 6;

struct Shared {
  std::vector<std::unique_ptr<fuzz::Problem>> shapes;
  std::vector<std::shared_ptr<lt::Gemm>> gemms;
};

// m k, n k, n -> m n with a bias: the descriptor's pointer differs from call to call.
Shared make_shared_contractions() {
  Shared shared;
  for (int i = 0; i < kContractions; ++i) {
    auto problem = std::make_unique<fuzz::Problem>();
    problem->sizes = {2 + i, 5, 7};
    problem->dims[lt::kA] = {{0}, {2}}, problem->dims[lt::kB] = {{1}, {2}}, problem->dims[lt::kD] = {{0}, {1}};
    problem->dims[lt::kBias] = {{1}};
    problem->epilogue = lt::make_epilogue("", true);
    shared.gemms.push_back(fuzz::bind(*problem));
    shared.shapes.push_back(std::move(problem));
  }
  return shared;
}

struct Values {
  explicit Values(const fuzz::Problem& problem, float bias_value, int device) {
    for (lt::Operand x : {lt::kA, lt::kB, lt::kD, lt::kBias}) {
      shape[x] = fuzz::shape_of(problem.dims[x], problem.sizes);
      int64_t count = 1;
      for (int64_t n : shape[x]) count *= n;
      counts[x] = count;
      for (int64_t i = 0; i < count; ++i) data[x][i] = x == lt::kBias ? bias_value : 1.0f;
      dl[x] = {
          data[x], {kDLCPU, device}, static_cast<int32_t>(shape[x].size()), {kDLFloat, 32, 1}, shape[x].data(), nullptr,
          0};
      tensors.of[x] = &dl[x];
    }
  }
  bool right(float bias_value) const {
    for (int64_t i = 0; i < counts[lt::kD]; ++i) {
      if (data[lt::kD][i] != 7 + bias_value) return false;
    }
    return true;
  }
  std::vector<int64_t> shape[lt::kOperands];
  int64_t counts[lt::kOperands] = {};
  // Room for the largest, 7 x 7. Aligned alike in every call, so that plans are found again.
  alignas(256) float data[lt::kOperands][64];
  DLTensor dl[lt::kOperands];
  lt::Tensors tensors;
};

void work(Shared* shared, int thread, int calls, std::atomic<int>* wrong) {
  fuzz::Random random(static_cast<uint64_t>(thread));
  for (int i = 0; i < calls; ++i) {
    auto which = static_cast<size_t>(random.below(kContractions));
    auto bias = static_cast<float>(thread * 1000 + i % 100);
    // Every device has its own handle; a thread's own device is put back.
    Values values(*shared->shapes[which], bias, static_cast<int>(random.below(3)));
    int64_t flags = random.below(4);
    if (shared->gemms[which]->run(values.tensors, {}, flags) != lt::Outcome::kComputed || !values.right(bias)) {
      wrong->fetch_add(1);
    }
    if (i % 50 == 0) lt::PlanCache::global().stats();
    if (i % 97 == 0) lt::PlanCache::global().set_capacity(8 + random.below(60));
    // Rarely enough that plans are found as well.
    if (thread == 0 && i % 101 == 0) lt::PlanCache::global().forget();
    if (i % 103 == 0) lt::Tuned::global().put("none", {});
  }
}

}  // namespace

int main(int, char** argv) {
  fuzz::Double library = fuzz::open(argv[1], argv[2]);
  library.set64("double_want_workspace", 512);
  int threads = std::atoi(argv[3]), calls = std::atoi(argv[4]);
  Shared shared = make_shared_contractions();
  std::atomic<int> wrong{0};
  std::vector<std::thread> pool;
  for (int t = 0; t < threads; ++t) pool.emplace_back(work, &shared, t, calls, &wrong);
  for (std::thread& each : pool) each.join();
  lt::CacheStats stats = lt::PlanCache::global().stats();
  std::printf("calls %d wrong %d hits %lld misses %lld evictions %lld\n", threads * calls, wrong.load(),
              static_cast<long long>(stats.hits), static_cast<long long>(stats.misses),
              static_cast<long long>(stats.evictions));
  return wrong.load() ? 1 : 0;
}
