// Registers with pthread_atfork once, for all locks.
#include "fork.h"

#include <pthread.h>

#include <array>
#include <cstdint>
#include <vector>

namespace lt {
namespace {

struct Held {
  std::mutex listing;
  std::vector<std::mutex*> mutexes;
};

Held& held() {
  static auto& all = *new Held;  // leaked on purpose: a fork may come when statics are destroyed
  return all;
}

void before() {
  held().listing.lock();
  for (std::mutex* mutex : held().mutexes) mutex->lock();
}

void after() {
  for (std::mutex* mutex : held().mutexes) mutex->unlock();
  held().listing.unlock();
}

struct Pool {
  static constexpr size_t kSize = 64;
  Pool() {
    for (std::mutex& mutex : mutexes) hold_across_fork(&mutex);
  }
  std::array<std::mutex, kSize> mutexes;
};

}  // namespace

void hold_across_fork(std::mutex* mutex) {
  static const int registered = pthread_atfork(before, after, after);
  (void)registered;
  std::lock_guard<std::mutex> lock(held().listing);
  held().mutexes.push_back(mutex);
}

std::mutex& pooled_mutex(const void* address) {
  static auto& pool = *new Pool;
  return pool.mutexes[reinterpret_cast<uintptr_t>(address) / 64 % Pool::kSize];
}

}  // namespace lt
