// DatabaseImpl::clone_family() makes a family that shares the table files of another family.
// DatabaseImpl::copy_entries() copies a family's entries under other keys.
//
// For a clone, RocksDB imports the files into the new family under new file numbers; each file keeps its
// level and its sequence numbers. When RocksDB links a file, the file system makes the link a second name for
// the same object (atoll_store_share_file). An ingestion of the files would not work, for two reasons. It
// puts files that overlap into level 0, where too many files stop all writers. And it takes a file's sequence
// numbers from the file itself. But if a file was ingested before and RocksDB gave it a sequence number then,
// only the MANIFEST contains this number.
#include <rocksdb/db.h>
#include <rocksdb/metadata.h>
#include <rocksdb/write_batch.h>

#include "cloudfs/file_name.h"
#include "lsm/database_impl.h"
#include "lsm/past/past_database.h"
#include "lsm/raw.h"

namespace atoll::lsm {
namespace {

constexpr size_t kCopyBatchBytes = 1 << 20;  // copy_entries() writes copies in batches of this size

// Returns all table files of a family, under paths in `directory`: by these paths cloudfs knows that the
// files are to be shared.
rocksdb::ExportImportFilesMetaData files_of(rocksdb::DB *db, rocksdb::ColumnFamilyHandle *handle,
                                            const std::string &directory) {
  rocksdb::ColumnFamilyMetaData family;
  db->GetColumnFamilyMetaData(handle, &family);
  rocksdb::ExportImportFilesMetaData files;
  files.db_comparator_name = handle->GetComparator()->Name();
  for (const rocksdb::LevelMetaData &level : family.levels) {
    for (const rocksdb::SstFileMetaData &file : level.files) {
      rocksdb::LiveFileMetaData &live = files.files.emplace_back();
      static_cast<rocksdb::SstFileMetaData &>(live) = file;
      live.db_path = directory;
      live.name = cloudfs::table_file_name(file.file_number);
      live.level = level.level;
    }
  }
  return files;
}

// Keeps RocksDB from deleting obsolete files while an object of this class lives.
class FilesKept {
 public:
  explicit FilesKept(rocksdb::DB *db) : db_(db), status_(from_rocksdb(db->DisableFileDeletions())) {}
  ~FilesKept() { (void)db_->EnableFileDeletions(); }
  FilesKept(const FilesKept &) = delete;
  FilesKept &operator=(const FilesKept &) = delete;
  const Status &status() const { return status_; }

 private:
  rocksdb::DB *const db_;
  const Status status_;
};

}  // namespace

Status DatabaseImpl::clone_family(Family *source, PastDatabase *past, const Compression &compression,
                                  Family **out) {
  rocksdb::DB *db = Raw::of(source);
  std::unique_ptr<cloudfs::SharedPast> shared;
  if (past != nullptr)
    shared = std::make_unique<cloudfs::SharedPast>(files_.get(), past->file_system());
  else
    ATOLL_RETURN_IF_ERROR(flush(source).with("flushing the rows to share"));
  const FilesKept kept(db);
  ATOLL_RETURN_IF_ERROR(kept.status());
  const auto files =
      files_of(db, source->handle(),
               past != nullptr ? past->directory() : cloudfs::shared_directory(options_.local_dir));
  return files.files.empty() ? create_family(compression, out) : families_->import(compression, files, out);
}

Status DatabaseImpl::copy_entries(Family *from, std::string_view begin, std::string_view end, Family *to,
                                  std::string_view start, const std::function<bool()> &is_cancelled) {
  const rocksdb::Slice last(end.data(), end.size());
  rocksdb::ReadOptions options;
  options.iterate_upper_bound = &last;
  const std::unique_ptr<rocksdb::Iterator> entries = from->iterator(options);
  rocksdb::WriteBatch batch;
  std::string key;
  for (entries->Seek({begin.data(), begin.size()}); entries->Valid(); entries->Next()) {
    key.assign(start).append(entries->key().ToStringView().substr(start.size()));
    ATOLL_RETURN_IF_ERROR(from_rocksdb(batch.Put(to->handle(), key, entries->value())));
    if (batch.GetDataSize() < kCopyBatchBytes) continue;
    if (is_cancelled()) return Status(Code::kInterrupted, "the statement was killed");
    ATOLL_RETURN_IF_ERROR(write_unlocked(&batch, /*sync=*/false).with("copying rows"));
    batch.Clear();
  }
  ATOLL_RETURN_IF_ERROR(from_rocksdb(entries->status()));
  if (batch.Count() == 0) return Status::Ok();
  return write_unlocked(&batch, /*sync=*/false).with("copying rows");
}

}  // namespace atoll::lsm
