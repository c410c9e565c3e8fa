#include "base/status.h"

namespace atoll {

const char *code_name(Code code) {
  switch (code) {
    case Code::kOk:
      return "ok";
    case Code::kNotFound:
      return "not found";
    case Code::kDuplicate:
      return "duplicate key";
    case Code::kDeadlock:
      return "deadlock";
    case Code::kLockTimeout:
      return "lock wait timeout";
    case Code::kInterrupted:
      return "interrupted";
    case Code::kUnavailable:
      return "unavailable";
    case Code::kNoSpace:
      return "no space";
    case Code::kFenced:
      return "fenced";
    case Code::kReadOnly:
      return "read only";
    case Code::kInvalid:
      return "invalid";
    case Code::kCorruption:
      return "corruption";
    case Code::kBug:
      return "bug";
    case Code::kNoMemory:
      return "no memory";
    case Code::kForeignKey:
      return "foreign key";
  }
  return "unknown";
}

}  // namespace atoll
