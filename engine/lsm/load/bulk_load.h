// Sorted bulk ingestion: streams of rows become table files beside the database, are uploaded while the
// load still runs, and enter the family in one step. The interface is BulkLoad in loads.h.
//
//   add() ─▶ presorted ──────────────────────────▶ SortedFileWriter ─▶ 000001.sst … ─▶ stage (upload)
//        └─▶ unsorted ─▶ ExternalSort ─(finish)──▶ SortedFileWriter ─▶ …                   │
//                                                      IngestExternalFiles, one call ◀─────┘
//
// Invariants
//   LOAD-1  Before the one ingestion call, no row of a load is visible; after it, all its rows are visible.
//   LOAD-2  However a load ends, the destructor of BulkLoad removes the load's directory. If the files were
//           not ingested, it also unstages them: the store deletes their objects from the bucket. A crash
//           leaves a directory under bulk/; the next open removes it.
#pragma once

#include <rocksdb/db.h>
#include <rocksdb/options.h>

#include <array>
#include <memory>
#include <string>

#include "bridge/objstore.h"
#include "lsm/load/loads.h"
#include "lsm/rows.h"

namespace atoll::lsm {

struct BulkLoadSettings {
  rocksdb::DB *db = nullptr;
  Rows *rows = nullptr;  // of the database, for rows that go through the log
  Family *family = nullptr;
  atoll_store *store = nullptr;                             // nullptr: files stay local
  std::string directory;                                    // created on first use, removed by the destructor
  std::array<rocksdb::Options, kStreamKinds> file_options;  // of the table files, for each StreamKind
  size_t threads = 1;                       // most streams that finish() sorts and writes at the same time
  std::shared_ptr<SortBudget> sort_budget;  // memory for unsorted rows of all streams together
  uint64_t file_bytes = 0;                  // size at which a table file is finished; 0: kBulkFileBytes
};

std::unique_ptr<BulkLoad> make_bulk_load(BulkLoadSettings settings);

// The directory below which all loads of a database have their directories.
std::string bulk_directory(const std::string &database_directory);

}  // namespace atoll::lsm
