#include "cloudfs/io_status.h"

#include <cstring>

#include "base/messages/lost_object.h"
#include "bridge/result.h"

namespace atoll::cloudfs {
namespace {

// How lost_object() recognizes its error. RocksDB has no sub-code for it.
constexpr char kLostMark[] = "lost object";

rocksdb::IOStatus retryable(rocksdb::IOStatus status) {
  status.SetRetryable(true);
  return status;
}

// The status for "no memory". It has no message, because RocksDB gives a status either this sub-code or a
// message, and a message needs memory.
rocksdb::IOStatus no_memory() noexcept {
  return retryable(rocksdb::IOStatus::IOError(rocksdb::Status::kMemoryLimit));
}

}  // namespace

const char *lost_object(const rocksdb::Status &status) {
  if (!status.IsIOError() || status.subcode() != rocksdb::Status::kPathNotFound) return nullptr;
  const char *mark = status.getState() == nullptr ? nullptr : std::strstr(status.getState(), kLostMark);
  // RocksDB puts ": " between the two parts of a message.
  return mark == nullptr ? nullptr : mark + std::strlen(kLostMark) + std::strlen(": ");
}

rocksdb::IOStatus to_io_status(const atoll_result &result) {
  return to_io_status(bridge::to_code(result), result.message);
}

rocksdb::IOStatus to_io_status(Code code, const char *message) {
  switch (code) {
    case Code::kOk:
      return rocksdb::IOStatus::OK();
    case Code::kNotFound:
      return rocksdb::IOStatus::PathNotFound(message);
    case Code::kNoSpace:
      return retryable(rocksdb::IOStatus::NoSpace(message));
    case Code::kFenced:
    case Code::kReadOnly:
      return rocksdb::IOStatus::IOFenced(message, "");
    case Code::kCorruption:
      if (is_lost_object(message)) return retryable(rocksdb::IOStatus::PathNotFound(kLostMark, message));
      return rocksdb::IOStatus::Corruption(message);
    case Code::kUnavailable:
    case Code::kLockTimeout:
    case Code::kInterrupted:
      return retryable(rocksdb::IOStatus::IOError(message));
    case Code::kNoMemory:
      return no_memory();
    case Code::kInvalid:
      return rocksdb::IOStatus::InvalidArgument(message);
    case Code::kDuplicate:
    case Code::kDeadlock:
    case Code::kForeignKey:
    case Code::kBug:
      return rocksdb::IOStatus::IOError(message);
  }
  return rocksdb::IOStatus::IOError("unknown result code");
}

rocksdb::IOStatus io_status_of_exception(const Status &status) noexcept {
  return guarded([&] { return to_io_status(status.code(), status.message()); },
                 [](const Status &) { return no_memory(); });
}

rocksdb::IOStatus final_io_status_of_exception(const Status &status) noexcept {
  return guarded([&] { return rocksdb::IOStatus::IOError(status.message()); },
                 [](const Status &) { return rocksdb::IOStatus::IOError(); });
}

}  // namespace atoll::cloudfs
