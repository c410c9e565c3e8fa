// See reason_first.h.
#include "base/messages/reason_first.h"

#include <algorithm>
#include <string_view>

namespace atoll {
namespace {

// The words between an operation and the reason why it failed. crates/objstore (requests/failure.rs) writes
// "failed: reason", or "failed after 5 attempts: reason".
constexpr std::string_view kFailed = " failed";
constexpr std::string_view kAfter = " after ";
constexpr std::string_view kAttempts = " attempts";

// Where a message with kFailed has its parts.
struct Failure {
  std::string_view operation, attempts, reason;  // attempts: "5 attempts" or empty
};

// Returns false if the text behind the kFailed at `at` is not a reason.
bool parse(std::string_view message, size_t at, Failure *out) {
  out->operation = message.substr(0, at);
  const std::string_view rest = message.substr(at + kFailed.size());
  const size_t colon = rest.find(": ");
  if (colon == std::string_view::npos) return false;
  const std::string_view between = rest.substr(0, colon);
  out->reason = rest.substr(colon + 2);
  out->attempts = between.substr(std::min(between.size(), kAfter.size()));
  return between.empty() || (between.starts_with(kAfter) && between.ends_with(kAttempts));
}

}  // namespace

std::string reason_first(const std::string &message) {
  Failure failure;
  for (size_t at = message.rfind(kFailed); at != std::string::npos && at > 0;
       at = message.rfind(kFailed, at - 1)) {
    if (!parse(message, at, &failure)) continue;
    std::string text(failure.reason);
    text.append(" (").append(failure.operation);
    if (!failure.attempts.empty()) text.append(", ").append(failure.attempts);
    return text + ")";
  }
  return message;
}

}  // namespace atoll
