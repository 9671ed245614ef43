// Writes JSON: just what this engine has to say.
#include "explain.h"

#include "cost.h"

namespace lt {
namespace {

// The library's names, in the order of `Activation`.
constexpr const char* kActivationNames[] = {"", "RELU", "GELU", "RELU_AUX", "GELU_AUX", "DRELU", "DGELU"};

std::string epilogue_name(const Epilogue& epilogue, bool first_is_b) {
  std::string name = kActivationNames[static_cast<int>(epilogue.activation)];
  auto append = [&](const char* more) { name += (name.empty() ? "" : "_") + std::string(more); };
  if (epilogue.bias == BiasRole::kAdd) append("BIAS");
  if (epilogue.bias == BiasRole::kGradOfD) append("BGRAD");
  if (epilogue.bias == BiasRole::kGradOfA) append(first_is_b ? "BGRADB" : "BGRADA");
  if (epilogue.bias == BiasRole::kGradOfB) append(first_is_b ? "BGRADA" : "BGRADB");
  return name.empty() ? "DEFAULT" : name;
}

std::string numbers(const std::vector<int64_t>& values) {
  std::vector<std::string> texts;
  texts.reserve(values.size());
  for (int64_t value : values) texts.push_back(std::to_string(value));
  return to_json_list(texts);
}

void add_layout(const Found& found, const Contraction& contraction, JsonObject* json) {
  const Layout& layout = found.parts[0].layout;
  int64_t calls = 0;
  double cost = 0;
  for (const Part& part : found.parts) calls += part.layout.calls(), cost += cost_of(part.layout);
  json->add("layout", layout.view).add("first", layout.first_is_b ? "b" : "a");
  json->add("rows", layout.rows).add("cols", layout.cols).add("k", layout.k);
  json->add("batch", layout.batch * (layout.pointers ? layout.steps() : 1)).add("calls", calls);
  json->add("pointers", layout.pointers).add("parts", static_cast<int64_t>(found.parts.size())).add("cost", cost);
  json->add("trans_a", layout.first.trans).add("trans_b", layout.second.trans);
  json->add("lda", layout.first.ld).add("ldb", layout.second.ld).add("ldc", layout.c.ld).add("ldd", layout.d.ld);
  json->add("batch_stride_a", layout.first.batch_stride).add("batch_stride_b", layout.second.batch_stride);
  json->add("batch_stride_c", layout.c.batch_stride).add("batch_stride_d", layout.d.batch_stride);
  json->add("epilogue", epilogue_name(contraction.epilogue, layout.first_is_b));
  if (contraction.epilogue.has_aux()) json->add("ld_aux", layout.aux.ld);
}

// The library's own numbers of what it will run; they mean the same in its logs.
std::string algorithm(const Library& library, const Plan& plan) {
  JsonObject json;
  auto add = [&](const char* name, cublasLtMatmulAlgoConfigAttributes_t attribute) {
    int32_t value = 0;
    size_t written = 0;
    cublasStatus_t status = library.api().algo_config(&plan.algo, attribute, &value, sizeof(value), &written);
    if (status == CUBLAS_STATUS_SUCCESS) json.add(name, static_cast<int64_t>(value));
  };
  add("id", CUBLASLT_ALGO_CONFIG_ID);
  add("tile", CUBLASLT_ALGO_CONFIG_TILE_ID);
  add("stages", CUBLASLT_ALGO_CONFIG_STAGES_ID);
  add("split_k", CUBLASLT_ALGO_CONFIG_SPLITK_NUM);
  return json.add("chosen", plan.tuned ? "tuned" : "heuristic").text();
}

}  // namespace

JsonObject& JsonObject::add_raw(const char* name, const std::string& json) {
  members_ += std::string(members_.empty() ? "\"" : ", \"") + name + "\": " + json;
  return *this;
}

JsonObject& JsonObject::add(const char* name, const std::string& value) {
  std::string quoted = "\"";
  for (char c : value) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return add_raw(name, quoted + "\"");
}

std::string to_json_list(const std::vector<std::string>& values) {
  std::string text = "[";
  for (const std::string& value : values) text += (text.size() > 1 ? ", " : "") + value;
  return text + "]";
}

std::string to_json(const Found& found, const Contraction& contraction, const Copies& copies, const Library* library) {
  JsonObject json;
  json.add("declined", found.refusal);
  if (!found.parts.empty()) {
    add_layout(found, contraction, &json);
    const Plan* plan = found.parts[0].plan.get();
    if (plan) json.add("workspace", static_cast<int64_t>(plan->workspace));
    if (plan && library && plan->refusal.empty()) json.add_raw("algorithm", algorithm(*library, *plan));
  }
  if (copies.any()) {
    JsonObject strides;
    for (Operand x : {kA, kB}) {
      if (!copies.of[x].empty()) strides.add_raw(name_of(x), numbers(copies.of[x]));
    }
    json.add_raw("copy", strides.text()).add("copy_cost", copies.cost);
  }
  return json.text();
}

}  // namespace lt
