#include "cloudfs/written_file.h"

#include "cloudfs/io_status.h"

namespace atoll::cloudfs {

using rocksdb::DataVerificationInfo;
using rocksdb::FSWritableFile;
using rocksdb::FSWritableFileOwnerWrapper;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

namespace {

// How many bytes a file gets between two looks at the free space of the disk.
constexpr uint64_t kRoomStepBytes = 1 << 20;

}  // namespace

void RoomMaker::before_append(atoll_store *store, size_t bytes) {
  bytes_ += bytes;
  if (bytes_ < kRoomStepBytes) return;
  bytes_ = 0;
  atoll_store_make_room(store);
}

// ---- TableWriter ---------------------------------------------------------------------------------

TableWriter::TableWriter(std::unique_ptr<FSWritableFile> file, atoll_store *store, uint64_t number,
                         std::string path)
    : FSWritableFileOwnerWrapper(std::move(file)), store_(store), number_(number), path_(std::move(path)) {}

IOStatus TableWriter::Append(const Slice &bytes, const IOOptions &options, IODebugContext *debug) {
  synced_ = false;
  room_.before_append(store_, bytes.size());
  return FSWritableFileOwnerWrapper::Append(bytes, options, debug);
}

IOStatus TableWriter::Append(const Slice &bytes, const IOOptions &options,
                             const DataVerificationInfo &verification, IODebugContext *debug) {
  synced_ = false;
  room_.before_append(store_, bytes.size());
  return FSWritableFileOwnerWrapper::Append(bytes, options, verification, debug);
}

IOStatus TableWriter::Sync(const IOOptions &options, IODebugContext *debug) {
  IOStatus status = FSWritableFileOwnerWrapper::Sync(options, debug);
  synced_ = status.ok();
  return status;
}

IOStatus TableWriter::Fsync(const IOOptions &options, IODebugContext *debug) {
  IOStatus status = FSWritableFileOwnerWrapper::Fsync(options, debug);
  synced_ = status.ok();
  return status;
}

IOStatus TableWriter::Close(const IOOptions &options, IODebugContext *debug) {
  if (closed_) return IOStatus::OK();
  if (!synced_) {
    if (IOStatus status = Sync(options, debug); !status.ok()) return status;
  }
  if (IOStatus status = FSWritableFileOwnerWrapper::Close(options, debug); !status.ok()) return status;
  closed_ = true;
  return to_io_status(atoll_store_add_file(store_, number_, path_.c_str()));
}

// ---- LogWriter -----------------------------------------------------------------------------------

LogWriter::LogWriter(std::unique_ptr<FSWritableFile> file, atoll_store *store, uint64_t number)
    : FSWritableFileOwnerWrapper(std::move(file)), store_(store), number_(number) {}

IOStatus LogWriter::Append(const Slice &bytes, const IOOptions &options, IODebugContext *debug) {
  if (IOStatus status = check_may_write(store_); !status.ok()) return status;
  return count(FSWritableFileOwnerWrapper::Append(bytes, options, debug), bytes.size());
}

IOStatus LogWriter::Append(const Slice &bytes, const IOOptions &options,
                           const DataVerificationInfo &verification, IODebugContext *debug) {
  if (IOStatus status = check_may_write(store_); !status.ok()) return status;
  return count(FSWritableFileOwnerWrapper::Append(bytes, options, verification, debug), bytes.size());
}

IOStatus LogWriter::count(const IOStatus &status, size_t bytes) {
  if (status.ok()) appended(length_.fetch_add(bytes, std::memory_order_acq_rel) + bytes);
  return status;
}

IOStatus LogWriter::Sync(const IOOptions &options, IODebugContext *debug) {
  if (IOStatus status = check_may_write(store_); !status.ok()) return status;
  const uint64_t covered = length();
  IOStatus status = FSWritableFileOwnerWrapper::Sync(options, debug);
  if (status.ok()) synced(covered);
  return status;
}

IOStatus LogWriter::Fsync(const IOOptions &options, IODebugContext *debug) {
  if (IOStatus status = check_may_write(store_); !status.ok()) return status;
  const uint64_t covered = length();
  IOStatus status = FSWritableFileOwnerWrapper::Fsync(options, debug);
  if (status.ok()) synced(covered);
  return status;
}

// ---- WalWriter -----------------------------------------------------------------------------------

namespace {

// Makes a failed sync final. Nobody knows then which bytes are on disk, and other transactions may have
// read commits that the sync should have made durable. Neither a retry nor more disk space tells what is on
// disk. Only recovery at the next start finds out, so the server must be restarted. An IOFenced is returned
// unchanged, because it is final already.
IOStatus final_failure(const IOStatus &status) {
  if (status.ok() || status.subcode() == IOStatus::SubCode::kIOFenced) return status;
  return IOStatus::IOError("syncing the log failed; restart the server: " + status.ToString());
}

}  // namespace

WalWriter::WalWriter(std::unique_ptr<FSWritableFile> file, atoll_store *store, uint64_t number,
                     std::string path)
    : LogWriter(std::move(file), store, number), space_(std::move(path)) {
  atoll_store_wal_created(store, number);
}

WalWriter::~WalWriter() { note_closed(); }

void WalWriter::prepare(size_t bytes) {
  room_.before_append(store_, bytes);
  const MutexLock guard(space_mutex_);
  space_.prepare(length(), bytes);
}

void WalWriter::note_synced() {
  const MutexLock guard(space_mutex_);
  space_.synced(length());
}

IOStatus WalWriter::Append(const Slice &bytes, const IOOptions &options, IODebugContext *debug) {
  prepare(bytes.size());
  return LogWriter::Append(bytes, options, debug);
}

IOStatus WalWriter::Append(const Slice &bytes, const IOOptions &options,
                           const DataVerificationInfo &verification, IODebugContext *debug) {
  prepare(bytes.size());
  return LogWriter::Append(bytes, options, verification, debug);
}

IOStatus WalWriter::Sync(const IOOptions &options, IODebugContext *debug) {
  note_synced();
  return final_failure(LogWriter::Sync(options, debug));
}

IOStatus WalWriter::Fsync(const IOOptions &options, IODebugContext *debug) {
  note_synced();
  return final_failure(LogWriter::Fsync(options, debug));
}

IOStatus WalWriter::Close(const IOOptions &options, IODebugContext *debug) {
  {
    const MutexLock guard(space_mutex_);
    space_.cut(length());
  }
  IOStatus status = LogWriter::Close(options, debug);
  note_closed();
  return status;
}

void WalWriter::note_closed() {
  if (closed_) return;
  closed_ = true;
  atoll_store_wal_closed(store_, number_, length());
}

}  // namespace atoll::cloudfs
