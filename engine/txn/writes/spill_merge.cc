// Merges the files of a transaction on local disk before a commit ingests them into the database. Files that
// change existing rows enter level 0 one by one, because their keys overlap with other files. Each file there
// makes every read more expensive, and too many of them stop all writes.

#include <algorithm>
#include <map>
#include <utility>

#include "txn/reads/own_cursor.h"
#include "txn/writes/spill.h"

namespace atoll::txn {

namespace {

// If a family has more files than this, they are merged into about this many or fewer. RocksDB begins to
// compact level 0 at 4 files and to slow writers down at 20.
constexpr size_t kFilesMax = 8;
constexpr uint64_t kMergedFileBytes = 256 << 20;  // least length of keys and values in a merged file

}  // namespace

Status Spill::merge_many() {
  struct Files {
    size_t count = 0;
    uint64_t bytes = 0;
  };
  std::map<lsm::Family *, Files> families;
  for (const auto &run : *runs_) {
    for (const SpilledRun::Part &part : run->parts()) {
      ++families[part.family].count;
      families[part.family].bytes += part.bytes;
    }
  }
  for (const auto &[family, files] : families) {
    if (files.count <= kFilesMax) continue;
    std::vector<std::string> paths;
    const uint64_t file_bytes = std::max(kMergedFileBytes, files.bytes / kFilesMax);
    ATOLL_RETURN_IF_ERROR(merge(family, file_bytes, &paths)
                              .with("merging a transaction's changes on local disk for its commit"));
    merged_[family] = std::move(paths);
  }
  return Status::Ok();
}

Status Spill::merge(lsm::Family *family, uint64_t file_bytes, std::vector<std::string> *paths) {
  OwnCursor cursor(nullptr, nullptr, runs_, family, ScanOptions());
  std::unique_ptr<lsm::RunFileWriter> writer;
  uint64_t bytes = 0;
  for (cursor.to_first(); cursor.valid(); cursor.next()) {
    if (writer == nullptr || bytes > file_bytes) {
      if (writer != nullptr) ATOLL_RETURN_IF_ERROR(writer->finish());
      paths->push_back(directory_ + "/" + std::to_string(next_file_++) + ".sst");
      writer = std::make_unique<lsm::RunFileWriter>(run_files_->run_file_options(), paths->back());
      bytes = 0;
    }
    ATOLL_RETURN_IF_ERROR(writer->add(cursor.key(), cursor.value(), cursor.removed()));
    bytes += cursor.key().size() + cursor.value().size();
  }
  ATOLL_RETURN_IF_ERROR(cursor.status());
  return writer == nullptr ? Status::Ok() : writer->finish();
}

}  // namespace atoll::txn
