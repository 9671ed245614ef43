// Beside double: the problems that were computed, for tests to ask for.
#pragma once

#include <pthread.h>

#include <deque>
#include <mutex>

#include "product.h"
#include "promise.h"

namespace {

// tests/double/build.py's PROBLEM, in order.
struct Problem {
  int64_t rows, cols, k, batch, trans_a, trans_b, lda, ldb, ldd, epilogue, device, workspace, compute, reductions,
      align_a, algo, stream, workspace_at, type_a, type_d, fast_accumulate, pointers, first_algo;
};
constexpr size_t kRemembered = 4096;
std::mutex remembering;
// A forked child has to find it open, whoever held it in the parent.
const int at_fork =
    pthread_atfork([] { remembering.lock(); }, [] { remembering.unlock(); }, [] { remembering.unlock(); });
std::deque<Problem> remembered;

void remember(const Call& call, const Promise& promise, int device, size_t workspace_size, const void* workspace,
              void* stream) {
  std::lock_guard<std::mutex> lock(remembering);
  if (remembered.size() == kRemembered) remembered.pop_front();
  remembered.push_back({call.rows,
                        call.cols,
                        call.k,
                        call.d.batch,
                        call.trans_a,
                        call.trans_b,
                        call.a.ld,
                        call.b.ld,
                        call.d.ld,
                        call.epilogue.value,
                        device,
                        static_cast<int64_t>(workspace_size),
                        call.compute,
                        static_cast<int64_t>(promise.reductions),
                        promise.align[0],
                        static_cast<int64_t>(promise.made_for),
                        reinterpret_cast<int64_t>(stream),
                        reinterpret_cast<int64_t>(workspace),
                        call.a.type,
                        call.d.type,
                        call.fast_accumulate,
                        call.pointers(),
                        promise.rank});
}

void forget_problems() {
  std::lock_guard<std::mutex> lock(remembering);
  remembered.clear();
}

int64_t count_problems() {
  std::lock_guard<std::mutex> lock(remembering);
  return static_cast<int64_t>(remembered.size());
}

// 0 where there is no problem `i`.
int read_problem(int64_t i, int64_t* out) {
  std::lock_guard<std::mutex> lock(remembering);
  if (i < 0 || i >= static_cast<int64_t>(remembered.size())) return 0;
  std::memcpy(out, &remembered[static_cast<size_t>(i)], sizeof(Problem));
  return 1;
}

}  // namespace
