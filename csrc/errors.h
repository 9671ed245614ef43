// First in the flow: what a failure looks like. An ArgumentError is the caller's mistake and reaches Python as
// ValueError, a LibraryError is the library's own and arrives as RuntimeError. "Declined" is neither: it is a reason,
// never thrown.
#pragma once

#include <stdexcept>
#include <string>

namespace lt {

struct ArgumentError : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

struct LibraryError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace lt
