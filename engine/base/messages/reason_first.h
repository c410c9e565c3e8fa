// Puts the reason of an error in front of the operation that failed: the server cuts the error of a statement
// after about 500 bytes.
#pragma once

#include <string>

#include "base/namespace.h"

namespace atoll {

// "opening a: reading b failed after 5 attempts: HTTP 403" becomes "HTTP 403 (opening a: reading b, 5
// attempts)". A message without an operation that failed is returned unchanged.
std::string reason_first(const std::string &message);

}  // namespace atoll
