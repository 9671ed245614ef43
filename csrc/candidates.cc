// Gemm's part for tuning: the algorithms that there are for a call, and a call with one of them.
#include "explain.h"
#include "gemm.h"
#include "hex.h"
#include "key.h"
#include "launch.h"
#include "refusals.h"

namespace lt {
namespace {

constexpr int64_t kMaxCandidates = 256;

}  // namespace

Found Gemm::tunable(const Tensors& tensors, int64_t flags, Library* library) const {
  Found found = *make(tensors, flags, library);
  if (found.parts.size() != 1 || !found.parts[0].plan) {
    throw ArgumentError("there is no one plan to tune: " +
                        (found.refusal.empty() ? "the contraction takes several" : found.refusal) + ".");
  }
  return found;
}

std::string Gemm::candidates(const Tensors& tensors, int64_t flags, int64_t count) const {
  if (count < 1 || count > kMaxCandidates)
    throw ArgumentError("count must be 1 to 256, was " + std::to_string(count) + ".");
  Tensors copy = tensors;
  Library* library = prepare(&copy, {1, copy.has(kC) ? 1.0 : 0.0}, flags);
  Found found = tunable(copy, flags, library);
  const Part& part = found.parts[0];
  DeviceGuard guard(*library, tensors[kA].device.device_id);
  auto plans = lt::candidates(*library, library->handle(tensors[kA].device.device_id), part.key,
                              pointers_of(contraction_, copy, part.layout, 0), static_cast<int>(count));
  std::vector<std::string> algos;
  for (const Plan& plan : plans) {
    JsonObject json;
    json.add("algo", to_hex(&plan.algo, sizeof(plan.algo)));
    algos.push_back(json.add("workspace", static_cast<int64_t>(plan.workspace)).text());
  }
  JsonObject json;
  return json.add("key", part.key.to_hex()).add_raw("candidates", to_json_list(algos)).text();
}

Outcome Gemm::run_with(Tensors tensors, Scalars scalars, int64_t flags, const std::string& algo) {
  cublasLtMatmulAlgo_t given;
  if (!from_hex(algo, &given, sizeof(given))) throw ArgumentError("algo must be 128 digits of lower-case hex.");
  Library* library = prepare(&tensors, scalars, flags);
  Found found = tunable(tensors, flags, library);
  Part& part = found.parts[0];
  DeviceGuard guard(*library, tensors[kA].device.device_id);
  auto plan = std::make_shared<Plan>(plan_with(*library, library->handle(tensors[kA].device.device_id), part.key,
                                               pointers_of(contraction_, tensors, part.layout, 0), given));
  if (!plan->refusal.empty()) return Outcome::kDeclined;
  part.plan = plan;
  launch(contraction_, tensors, scalars, types_of(tensors, flags), library, found.parts);
  return Outcome::kComputed;
}

}  // namespace lt
