// DatabaseImpl::verify_files(): checksums of the bytes that are stored, whatever the block cache holds.
#include <rocksdb/convenience.h>

#include "lsm/database_impl.h"

namespace atoll::lsm {
namespace {

constexpr size_t kReadBytes = 2 << 20;  // as a scan of rows; TableReader fetches ahead of such reads

std::vector<rocksdb::SstFileMetaData> files_in(rocksdb::DB *db, Family *family, std::string_view begin,
                                               std::string_view end) {
  rocksdb::ColumnFamilyMetaData levels;
  db->GetColumnFamilyMetaData(family->handle(), &levels);
  std::vector<rocksdb::SstFileMetaData> files;
  for (const rocksdb::LevelMetaData &level : levels.levels) {
    for (const rocksdb::SstFileMetaData &file : level.files) {
      if (file.largestkey >= begin && file.smallestkey < end) files.push_back(file);
    }
  }
  return files;
}

}  // namespace

// RocksDB does not keep the files while they are read here: one that a compaction removed meanwhile is no
// part of the range any more, and that it could not be read means nothing.
Status DatabaseImpl::verify_files(Family *family, std::string_view begin, std::string_view end,
                                  const std::function<bool()> &is_cancelled) {
  rocksdb::DB *const db = base(family->side());
  const rocksdb::Options options = db->GetOptions(family->handle());
  rocksdb::ReadOptions read;
  read.readahead_size = kReadBytes;
  for (const rocksdb::SstFileMetaData &file : files_in(db, family, begin, end)) {
    if (is_cancelled()) return Status(Code::kInterrupted, "");
    const std::string path = file.db_path + file.name;
    const Status status = from_rocksdb(rocksdb::VerifySstFileChecksum(options, rocksdb::EnvOptions(options),
                                                                      read, path, file.largest_seqno));
    if (status.ok()) continue;
    for (const rocksdb::SstFileMetaData &live : files_in(db, family, begin, end)) {
      if (live.file_number == file.file_number) return status.with("table file " + path);
    }
  }
  return Status::Ok();
}

}  // namespace atoll::lsm
