// Beside gemm: locks that a forked child finds open. A child has one thread, and a lock that another thread of the
// parent held would stay held in it for ever; so every lock of ours is taken before a fork and let go on both sides.
#pragma once

#include <mutex>

namespace lt {

// For the life of the process. No lock that is given here is ever taken while another of them is held.
void hold_across_fork(std::mutex* mutex);

// A lock of a fixed set, the same for the same address.
std::mutex& pooled_mutex(const void* address);

}  // namespace lt
