// Database::clone_family(): a family that shares the table files of another; copy_to_family(): one with a
// copy of a part of another's entries.
//
// The files enter the new family by an ingestion, which keeps their sequence numbers and puts them under file
// numbers of their own; the file system makes of each link a second name for the same object
// (atoll_store_share_file). An ingestion reads the files' own sequence numbers only. A file that was ingested
// itself, over older rows, has its number in the MANIFEST alone and would lose it: it is compacted first.
#include <rocksdb/db.h>
#include <rocksdb/metadata.h>

#include <algorithm>

#include "lsm/database_impl.h"

namespace atoll::lsm {
namespace {

using File = rocksdb::SstFileMetaData;

constexpr uint64_t kEntriesPerQuestion = 1024;  // whether the statement was killed

// Oldest rows first: from the last level up, and within the first level from the oldest file on.
std::vector<File> files_of(rocksdb::DB *db, rocksdb::ColumnFamilyHandle *handle) {
  rocksdb::ColumnFamilyMetaData family;
  db->GetColumnFamilyMetaData(handle, &family);
  std::vector<File> files;
  for (auto level = family.levels.rbegin(); level != family.levels.rend(); ++level)
    files.insert(files.end(), level->files.rbegin(), level->files.rend());
  return files;
}

bool overlap(const File &a, const File &b) {
  return a.smallestkey <= b.largestkey && b.smallestkey <= a.largestkey;
}

// One sequence number for all entries: perhaps the MANIFEST's.
bool may_be_ingested(const File &file) {
  return file.smallest_seqno == file.largest_seqno && file.largest_seqno != 0;
}

// Files that were perhaps ingested and lie over older ones.
std::vector<File> to_compact(const std::vector<File> &files) {
  std::vector<File> found;
  for (auto file = files.begin(); file != files.end(); ++file) {
    const auto is_below = [&](const File &older) { return overlap(older, *file); };
    if (may_be_ingested(*file) && std::any_of(files.begin(), file, is_below)) found.push_back(*file);
  }
  return found;
}

Status ingest(rocksdb::DB *db, const std::vector<File> &files, rocksdb::ColumnFamilyHandle *target) {
  rocksdb::IngestExternalFileOptions options;
  options.allow_db_generated_files = true;
  options.link_files = true;
  options.failed_move_fall_back_to_copy = false;
  options.snapshot_consistency = false;
  options.allow_blocking_flush = false;
  options.verify_file_checksum = false;
  options.fill_cache = false;
  std::vector<std::string> paths;
  for (const File &file : files) paths.push_back(file.db_path + file.name);
  if (paths.empty()) return Status::Ok();
  return from_rocksdb(db->IngestExternalFile(target, paths, options)).with("sharing table files");
}

Status copy_entries(Database *database, Family *source, std::string_view begin, std::string_view end,
                    std::string_view start, const Compression &compression,
                    const std::function<bool()> &is_cancelled, Family *target) {
  const std::unique_ptr<BulkLoad> load = database->bulk_load(target, compression);
  const size_t stream = load->add_stream(/*presorted=*/true, nullptr);
  const rocksdb::Slice last(end.data(), end.size());
  rocksdb::ReadOptions options;
  options.iterate_upper_bound = &last;
  const std::unique_ptr<rocksdb::Iterator> entries(source->base()->NewIterator(options, source->handle()));
  std::string key;
  uint64_t copied = 0;
  for (entries->Seek({begin.data(), begin.size()}); entries->Valid(); entries->Next()) {
    if (++copied % kEntriesPerQuestion == 0 && is_cancelled())
      return Status(Code::kInterrupted, "the statement was killed");
    key.assign(start).append(entries->key().ToStringView().substr(start.size()));
    ATOLL_RETURN_IF_ERROR(load->add(stream, key, entries->value().ToStringView()));
  }
  ATOLL_RETURN_IF_ERROR(from_rocksdb(entries->status()));
  return load->finish([&](double) { return !is_cancelled(); });
}

// Obsolete files stay while this lives.
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

Status DatabaseImpl::clone_family(Family *source, const Compression &compression, Family **out) {
  rocksdb::DB *db = source->base();
  ATOLL_RETURN_IF_ERROR(flush(source).with("flushing the rows to share"));
  for (const File &file : to_compact(files_of(db, source->handle())))
    ATOLL_RETURN_IF_ERROR(compact(source, file.smallestkey, file.largestkey));
  Family *made = nullptr;
  ATOLL_RETURN_IF_ERROR(create_family(compression, &made));
  Status status;
  {
    const FilesKept kept(db);
    status = kept.status();
    if (status.ok()) status = ingest(db, files_of(db, source->handle()), made->handle());
  }
  if (!status.ok()) {
    drop_family(made->id());
    return status;
  }
  if (options_.store != nullptr) atoll_store_note_ddl(options_.store);
  *out = made;
  return Status::Ok();
}

Status DatabaseImpl::copy_to_family(Family *source, std::string_view begin, std::string_view end,
                                    std::string_view start, const Compression &compression,
                                    const std::function<bool()> &is_cancelled, Family **out) {
  Family *made = nullptr;
  ATOLL_RETURN_IF_ERROR(create_family(compression, &made));
  const Status status = copy_entries(this, source, begin, end, start, compression, is_cancelled, made);
  if (!status.ok()) {
    drop_family(made->id());
    return status;
  }
  *out = made;
  return Status::Ok();
}

}  // namespace atoll::lsm
