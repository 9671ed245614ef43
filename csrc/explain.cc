// Writes JSON: just what this engine has to say.
#include "explain.h"

namespace lt {

JsonObject& JsonObject::raw(const char* name, const std::string& value) {
  members_ += std::string(members_.empty() ? "\"" : ", \"") + name + "\": " + value;
  return *this;
}

JsonObject& JsonObject::add(const char* name, const std::string& value) {
  std::string quoted = "\"";
  for (char c : value) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return raw(name, quoted + "\"");
}

std::string to_json(const Layout& layout, const Plan* plan, bool has_bias) {
  JsonObject json;
  json.add("declined", plan ? plan->refusal : layout.refusal);
  if (layout.refusal.empty()) {
    json.add("layout", layout.view).add("first", layout.first_is_b ? "b" : "a");
    json.add("rows", layout.rows).add("cols", layout.cols).add("k", layout.k);
    json.add("batch", layout.batch).add("calls", layout.calls);
    json.add("trans_a", layout.first.trans).add("trans_b", layout.second.trans);
    json.add("lda", layout.first.ld).add("ldb", layout.second.ld).add("ldc", layout.c.ld).add("ldd", layout.d.ld);
    json.add("batch_stride_a", layout.first.batch_stride).add("batch_stride_b", layout.second.batch_stride);
    json.add("batch_stride_c", layout.c.batch_stride).add("batch_stride_d", layout.d.batch_stride);
    json.add("epilogue", has_bias ? "BIAS" : "DEFAULT");
  }
  if (plan) json.add("workspace", static_cast<int64_t>(plan->workspace));
  return json.text();
}

}  // namespace lt
