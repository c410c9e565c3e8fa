// DatabaseImpl::verify_files(): compares the stored bytes of table files with their checksums, past the block
// cache.
#include <rocksdb/convenience.h>
#include <rocksdb/file_system.h>

#include "base/border/border.h"
#include "lsm/database_impl.h"
#include "lsm/raw.h"

namespace atoll::lsm {
namespace {

constexpr size_t kReadBytes = 2 << 20;  // as in scans of rows: for such reads, TableReader fetches ahead

using IsCancelled = std::function<bool()>;

// A file whose reads fail once `is_cancelled` returns true: RocksDB offers no other way to stop the
// verification of a file.
class CancellableFile final : public rocksdb::FSRandomAccessFileOwnerWrapper {
 public:
  CancellableFile(std::unique_ptr<rocksdb::FSRandomAccessFile> file, const IsCancelled &is_cancelled)
      : FSRandomAccessFileOwnerWrapper(std::move(file)), is_cancelled_(is_cancelled) {}
  rocksdb::IOStatus Read(uint64_t offset, size_t size, const rocksdb::IOOptions &options,
                         rocksdb::Slice *result, char *scratch,
                         rocksdb::IODebugContext *debug) const override {
    if (is_cancelled_()) return rocksdb::IOStatus::Aborted();
    return FSRandomAccessFileOwnerWrapper::Read(offset, size, options, result, scratch, debug);
  }

 private:
  const IsCancelled &is_cancelled_;
};

// A file system that opens table files as CancellableFile.
class CancellableFiles final : public rocksdb::FileSystemWrapper {
 public:
  CancellableFiles(const std::shared_ptr<rocksdb::FileSystem> &files, const IsCancelled &is_cancelled)
      : FileSystemWrapper(files), is_cancelled_(is_cancelled) {}
  const char *Name() const override { return "CancellableFiles"; }
  rocksdb::IOStatus NewRandomAccessFile(const std::string &path, const rocksdb::FileOptions &options,
                                        std::unique_ptr<rocksdb::FSRandomAccessFile> *file,
                                        rocksdb::IODebugContext *debug) override {
    rocksdb::IOStatus status = FileSystemWrapper::NewRandomAccessFile(path, options, file, debug);
    if (!status.ok()) return status;
    return guarded(
        [&] {
          *file = std::make_unique<CancellableFile>(std::move(*file), is_cancelled_);
          return rocksdb::IOStatus::OK();
        },
        [](const Status &) { return rocksdb::IOStatus::Aborted(); });
  }

 private:
  const IsCancelled &is_cancelled_;
};

}  // namespace

// RocksDB can delete a file while this function reads it. A file that a compaction has removed does not
// belong to the range any more, so an error of this file is ignored.
Status DatabaseImpl::verify_files(Family *family, std::string_view begin, std::string_view end,
                                  const std::function<bool()> &is_cancelled) {
  rocksdb::DB *const db = Raw::of(family);
  rocksdb::Options options = db->GetOptions(family->handle());
  const auto env = rocksdb::NewCompositeEnv(
      std::make_shared<CancellableFiles>(options.env->GetFileSystem(), is_cancelled));
  options.env = env.get();
  rocksdb::ReadOptions read;
  read.readahead_size = kReadBytes;
  for (const rocksdb::SstFileMetaData &file : files_in(db, family->handle(), begin, end)) {
    const std::string path = file.db_path + file.name;
    const Status status = from_rocksdb(rocksdb::VerifySstFileChecksum(options, rocksdb::EnvOptions(options),
                                                                      read, path, file.largest_seqno));
    if (is_cancelled()) return Status(Code::kInterrupted, "");
    if (status.ok()) continue;
    for (const rocksdb::SstFileMetaData &live : files_in(db, family->handle(), begin, end)) {
      if (live.file_number == file.file_number) return status.with("table file " + path);
    }
  }
  return Status::Ok();
}

}  // namespace atoll::lsm
