// Beside plan: a bounded LRU of plans, shared by all contractions and threads. Nothing is called under its lock.
#pragma once

#include <atomic>
#include <list>
#include <mutex>
#include <unordered_map>

#include "plan.h"

namespace lt {

struct CacheStats {
  int64_t hits, misses, evictions, size, capacity;
};

class PlanCache {
 public:
  static PlanCache& global();

  std::shared_ptr<const Plan> find(const PlanKey& key);  // null if absent; counts a hit or a miss
  // Keeps and returns the plan that another thread may have put meanwhile.
  std::shared_ptr<const Plan> put(const PlanKey& key, std::shared_ptr<const Plan> plan);
  void count_hit() { hits_.fetch_add(1, std::memory_order_relaxed); }
  // Grows when plans that contractions hold on their own have become invalid.
  int64_t generation() const { return generation_.load(std::memory_order_acquire); }
  void invalidate() { generation_.fetch_add(1, std::memory_order_acq_rel); }
  void forget();  // the plans
  void clear();   // the counters as well
  void set_capacity(int64_t capacity);
  CacheStats stats();

 private:
  PlanCache();
  using Entry = std::pair<PlanKey, std::shared_ptr<const Plan>>;
  void shrink();  // with the lock held

  std::mutex mutex_;
  std::list<Entry> recent_;  // front: used last
  std::unordered_map<PlanKey, std::list<Entry>::iterator, PlanKeyHash> index_;
  size_t capacity_ = 1024;
  std::atomic<int64_t> hits_{0}, misses_{0}, evictions_{0}, generation_{0};
};

}  // namespace lt
