// The plan cache's list and index.
#include "plan_cache.h"

#include "fork.h"

namespace lt {

PlanCache::PlanCache() { hold_across_fork(&mutex_); }

PlanCache& PlanCache::global() {
  static auto& cache = *new PlanCache;  // leaked on purpose: threads may still call when statics are destroyed
  return cache;
}

std::shared_ptr<const Plan> PlanCache::find(const PlanKey& key) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = index_.find(key);
  (found == index_.end() ? misses_ : hits_).fetch_add(1, std::memory_order_relaxed);
  if (found == index_.end()) return nullptr;
  recent_.splice(recent_.begin(), recent_, found->second);
  return found->second->second;
}

std::shared_ptr<const Plan> PlanCache::put(const PlanKey& key, std::shared_ptr<const Plan> plan) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = index_.find(key);
  if (found != index_.end()) return found->second->second;
  recent_.emplace_front(key, plan);
  index_[key] = recent_.begin();
  shrink();
  return plan;
}

void PlanCache::forget() {
  std::lock_guard<std::mutex> lock(mutex_);
  index_.clear();
  recent_.clear();
  invalidate();
}

void PlanCache::clear() {
  forget();
  std::lock_guard<std::mutex> lock(mutex_);
  hits_ = misses_ = evictions_ = 0;
}

void PlanCache::set_capacity(int64_t capacity) {
  std::lock_guard<std::mutex> lock(mutex_);
  capacity_ = static_cast<size_t>(capacity);
  shrink();
}

CacheStats PlanCache::stats() {
  std::lock_guard<std::mutex> lock(mutex_);
  return {hits_, misses_, evictions_, static_cast<int64_t>(recent_.size()), static_cast<int64_t>(capacity_)};
}

void PlanCache::shrink() {
  while (recent_.size() > capacity_) {
    index_.erase(recent_.back().first);
    recent_.pop_back();
    ++evictions_;
  }
}

}  // namespace lt
