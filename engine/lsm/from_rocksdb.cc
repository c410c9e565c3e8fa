// Translates a RocksDB status into the Code that tells the caller how to react. kUnavailable is the safe code
// for an I/O failure of an unknown kind: it says that the statement fails, that nothing is damaged, and that
// a retry may succeed.
#include "cloudfs/io_status.h"
#include "lsm/family.h"

namespace atoll::lsm {
namespace {

Code code_of_io_error(const rocksdb::Status &status) {
  switch (status.subcode()) {
    case rocksdb::Status::kIOFenced:
      return Code::kFenced;
    case rocksdb::Status::kNoSpace:
      return Code::kNoSpace;
    case rocksdb::Status::kMemoryLimit:
      return Code::kNoMemory;
    default:
      return Code::kUnavailable;
  }
}

Code code_of(const rocksdb::Status &status) {
  switch (status.code()) {
    case rocksdb::Status::kOk:
      return Code::kOk;
    case rocksdb::Status::kNotFound:
      return Code::kNotFound;
    case rocksdb::Status::kCorruption:
      return Code::kCorruption;
    case rocksdb::Status::kNotSupported:
    case rocksdb::Status::kInvalidArgument:
      return Code::kBug;
    case rocksdb::Status::kIOError:
      return code_of_io_error(status);
    case rocksdb::Status::kShutdownInProgress:
      return Code::kInterrupted;
    case rocksdb::Status::kTimedOut:
      return status.subcode() == rocksdb::Status::kLockTimeout ? Code::kLockTimeout : Code::kUnavailable;
    case rocksdb::Status::kAborted:
      return status.subcode() == rocksdb::Status::kMemoryLimit ? Code::kNoMemory : Code::kInterrupted;
    case rocksdb::Status::kBusy:
      return status.subcode() == rocksdb::Status::kDeadlock ? Code::kDeadlock : Code::kUnavailable;
    case rocksdb::Status::kMergeInProgress:
    case rocksdb::Status::kIncomplete:
    case rocksdb::Status::kExpired:
    case rocksdb::Status::kTryAgain:
      return Code::kUnavailable;
    case rocksdb::Status::kCompactionTooLarge:
    case rocksdb::Status::kColumnFamilyDropped:
    case rocksdb::Status::kMaxCode:
      return Code::kBug;
  }
  return Code::kBug;
}

}  // namespace

Status from_rocksdb(const rocksdb::Status &status) {
  if (status.ok()) return Status();
  if (const char *lost = cloudfs::lost_object(status)) return Status(Code::kCorruption, lost);
  return Status(code_of(status), status.ToString());
}

}  // namespace atoll::lsm
