// Beside plan: algorithms that were timed and chosen, by key. Empty unless the user tunes or a tuned file was read.
#pragma once

#include <cublasLt.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "fork.h"

namespace lt {

class Tuned {
 public:
  static Tuned& global() {
    static auto& tuned = *new Tuned;  // leaked on purpose, as the plan cache is
    return tuned;
  }

  std::optional<cublasLtMatmulAlgo_t> find(const std::string& key) {
    if (size_.load(std::memory_order_acquire) == 0) return std::nullopt;
    std::lock_guard<std::mutex> lock(mutex_);
    auto found = algos_.find(key);
    if (found == algos_.end()) return std::nullopt;
    return found->second;
  }

  void put(const std::string& key, const cublasLtMatmulAlgo_t& algo) {
    std::lock_guard<std::mutex> lock(mutex_);
    algos_[key] = algo;
    size_.store(static_cast<int64_t>(algos_.size()), std::memory_order_release);
  }

  void clear() {
    std::lock_guard<std::mutex> lock(mutex_);
    algos_.clear();
    size_.store(0, std::memory_order_release);
  }

  int64_t size() const { return size_.load(std::memory_order_acquire); }

 private:
  Tuned() { hold_across_fork(&mutex_); }
  std::mutex mutex_;
  std::atomic<int64_t> size_{0};
  std::unordered_map<std::string, cublasLtMatmulAlgo_t> algos_;
};

}  // namespace lt
