// Sorted bulk ingestion: streams of rows become table files beside the database, are uploaded while the
// load still runs, and enter the family in one step. The contract is BulkLoad in loads.h.
//
//   add() ─▶ presorted ──────────────────────────▶ SortedFileWriter ─▶ 000001.sst … ─▶ stage (upload)
//        └─▶ unsorted ─▶ ExternalSort ─(finish)──▶ SortedFileWriter ─▶ …                   │
//                                                      IngestExternalFiles, one call ◀─────┘
//
// Invariants
//   LOAD-1  Nothing of a load is visible before the one ingestion call, and all of it after.
//   LOAD-2  Whatever way a load ends, its directory is removed and files that were staged and not bound are
//           unstaged (destructor). A crash leaves a directory under bulk/, wiped at the next open.
#pragma once

#include <rocksdb/db.h>
#include <rocksdb/options.h>

#include <array>
#include <memory>
#include <string>

#include "bridge/objstore.h"
#include "lsm/load/loads.h"

namespace atoll::lsm {

struct BulkLoadSettings {
  rocksdb::DB *db = nullptr;
  Family *family = nullptr;
  atoll_store *store = nullptr;  // nullptr: files stay local
  std::string directory;         // created on first use, removed by the destructor
  std::array<rocksdb::Options, kStreamKinds> file_options;
  size_t threads = 1;
  std::shared_ptr<SortBudget> sort_budget;  // memory for unsorted rows of all streams together
  uint64_t file_bytes = 0;                  // 0: kBulkFileBytes
};

std::unique_ptr<BulkLoad> make_bulk_load(BulkLoadSettings settings);

std::string bulk_directory(const std::string &database_directory);

}  // namespace atoll::lsm
