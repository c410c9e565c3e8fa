#include "cloudfs/io_status.h"

#include "bridge/result.h"

namespace atoll::cloudfs {
namespace {

rocksdb::IOStatus retryable(rocksdb::IOStatus status) {
  status.SetRetryable(true);
  return status;
}

}  // namespace

rocksdb::IOStatus to_io_status(const atoll_result &result) {
  switch (bridge::to_code(result)) {
    case Code::kOk:
      return rocksdb::IOStatus::OK();
    case Code::kNotFound:
      return rocksdb::IOStatus::PathNotFound(result.message);
    case Code::kNoSpace:
      return retryable(rocksdb::IOStatus::NoSpace(result.message));
    case Code::kFenced:
    case Code::kReadOnly:
      return rocksdb::IOStatus::IOFenced(result.message, "");
    case Code::kCorruption:
      return rocksdb::IOStatus::Corruption(result.message);
    case Code::kUnavailable:
    case Code::kLockTimeout:
    case Code::kInterrupted:
    case Code::kNoMemory:
      return retryable(rocksdb::IOStatus::IOError(result.message));
    case Code::kInvalid:
      return rocksdb::IOStatus::InvalidArgument(result.message);
    case Code::kDuplicate:
    case Code::kDeadlock:
    case Code::kBug:
      return rocksdb::IOStatus::IOError(result.message);
  }
  return rocksdb::IOStatus::IOError("unknown result code");
}

}  // namespace atoll::cloudfs
