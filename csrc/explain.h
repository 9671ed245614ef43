// Beside gemm: a layout and its plan in words that Python reads.
#pragma once

#include <sstream>
#include <string>

#include "plan.h"

namespace lt {

// A JSON object, written member by member.
class JsonObject {
 public:
  JsonObject& add(const char* name, const std::string& value);
  JsonObject& add(const char* name, const char* value) { return add(name, std::string(value)); }
  JsonObject& add(const char* name, bool value) { return raw(name, value ? "true" : "false"); }
  JsonObject& add(const char* name, int64_t value) { return raw(name, std::to_string(value)); }
  std::string text() const { return "{" + members_ + "}"; }

 private:
  JsonObject& raw(const char* name, const std::string& value);
  std::string members_;
};

// `plan` null: none was asked for. Sizes, flags and leading dimensions are cuBLAS's (column-major, D is rows x cols,
// its A is the operand that `first` names); `layout` is PyTorch's view; strides in elements, workspace in bytes.
std::string to_json(const Layout& layout, const Plan* plan, bool has_bias);

}  // namespace lt
