// The result of every call below the handler that can fail.
//
// A code names what the CALLER does next, not which library failed: two failures that call for the same
// reaction share a code. The message has the details, and callers put context in front of it (with()).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/namespace.h"

namespace atoll {

// The numbers are part of the C ABI (engine/bridge/objstore.h): never change them, only add new ones at the
// end.
enum class Code : uint8_t {
  kOk = 0,
  kNotFound = 1,     // There is no such row, table or object. This is expected, and never logged.
  kDuplicate = 2,    // A unique key exists already. The statement reports it, or replaces the row.
  kDeadlock = 3,     // The caller must roll back the whole transaction. Then it can be repeated.
  kLockTimeout = 4,  // Another transaction holds the lock. The statement is rolled back.
  kInterrupted = 5,  // The statement was killed, or its thread must stop. The statement is rolled back.
  kUnavailable = 6,  // The bucket did not answer in time. Nothing is damaged; retry later.
  kNoSpace = 7,      // A disk or a quota is full. Nothing is damaged; free space, then retry.
  kFenced = 8,       // Another server owns the database now, with a newer epoch. Stop writing; never retry.
  kReadOnly = 9,     // This server is not allowed to write; the message says why. Do not retry.
  kInvalid = 10,     // The user asked for something that is not possible. Tell the user.
  kCorruption = 11,  // Stored bytes broke a checksum or an invariant. Never retry, never ignore.
  kBug = 12,         // A mistake in Atoll's code: a broken contract or an unexpected exception. Fix the code.
  kNoMemory = 13,    // The process got no memory or no thread. The statement is rolled back; retry later.
  kForeignKey = 14,  // A constraint FOREIGN KEY refuses the row. The statement reports it, or skips the row.
};

// A code and a message for the user; kOk has no message. Copying a kOk costs nothing.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message)
      : code_(code), message_(std::make_shared<const std::string>(std::move(message))) {}

  static Status Ok() { return Status(); }

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const char *message() const { return message_ ? message_->c_str() : ""; }

  // Returns a Status with the same code, and with `context` in front of the message: "opening table t1: ...".
  // A Status that is ok() is returned unchanged.
  Status with(std::string_view context) const {
    if (ok()) return *this;
    return Status(code_, std::string(context) + ": " + message());
  }

 private:
  Code code_ = Code::kOk;
  std::shared_ptr<const std::string> message_;
};

// A short name for `code`, as shown in messages and tests.
const char *code_name(Code code);

}  // namespace atoll

// Returns from the enclosing function when `expression` is not ok.
#define ATOLL_RETURN_IF_ERROR(expression)                                      \
  do {                                                                         \
    if (::atoll::Status status_ = (expression); !status_.ok()) return status_; \
  } while (false)
