// Converts what the C ABI returns (bridge/objstore.h) to the Status of the C++ layers.
#pragma once

#include <cstring>
#include <string>

#include "base/status.h"
#include "bridge/objstore.h"

namespace atoll::bridge {

inline bool ok(const atoll_result &result) { return result.code == static_cast<uint8_t>(Code::kOk); }

// A code that the C++ side does not know (the Rust library is newer) is a mistake of Atoll itself. It becomes
// kBug, never success.
inline Code to_code(const atoll_result &result) {
  if (result.code > static_cast<uint8_t>(Code::kNoMemory)) return Code::kBug;
  return static_cast<Code>(result.code);
}

inline Status to_status(const atoll_result &result) {
  if (ok(result)) return Status();
  return Status(to_code(result), result.message);
}

// Returns the text in an array of fixed size, such as atoll_store_stats::last_error, up to the first NUL.
template <size_t kSize>
std::string text_of(const char (&field)[kSize]) {
  return {field, ::strnlen(field, kSize)};
}

}  // namespace atoll::bridge
