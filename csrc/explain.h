// Beside gemm: a layout and its plan in words that Python reads.
#pragma once

#include <string>
#include <vector>

#include "gemm.h"

namespace lt {

// A JSON object, written member by member.
class JsonObject {
 public:
  JsonObject& add(const char* name, const std::string& value);
  JsonObject& add(const char* name, const char* value) { return add(name, std::string(value)); }
  JsonObject& add(const char* name, bool value) { return add_raw(name, value ? "true" : "false"); }
  JsonObject& add(const char* name, int64_t value) { return add_raw(name, std::to_string(value)); }
  JsonObject& add(const char* name, double value) { return add_raw(name, std::to_string(value)); }
  JsonObject& add_raw(const char* name, const std::string& json);
  std::string text() const { return "{" + members_ + "}"; }

 private:
  std::string members_;
};

std::string to_json_list(const std::vector<std::string>& values);  // of JSON values

// Sizes, flags and leading dimensions are cuBLAS's (column-major, D is rows x cols, its A is the operand that `first`
// names); `layout` is PyTorch's view; strides in elements, workspace in bytes. The first of several parts is shown.
// `library` is null where none was asked.
std::string to_json(const Found& found, const Contraction& contraction, const Copies& copies, const Library* library);

}  // namespace lt
