// Interfaces for rows that enter the database as whole table files: rows of ALTER and index builds, and of
// transactions that are larger than memory.
#pragma once

#include <rocksdb/options.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "lsm/family.h"
#include "lsm/load/sort_budget.h"

namespace atoll::lsm {

// How the keys of a stream of rows will be read. The caller of add_stream() chooses it. It decides whether
// the stream's files get filters.
enum class StreamKind {
  kSought,  // readers also look for keys that do not exist: filters
  kKnown,   // readers use ranges, or keys that an index entry has given them: no filters
};
constexpr size_t kStreamKinds = 2;

// Loads sorted rows into one family, for ALTER and index builds. Each byte is written once to the local disk,
// and each file is uploaded as soon as it is complete. All rows become visible in one step, to older
// snapshots too, so the caller keeps readers with older snapshots away (IndexDef::readable_from). The
// destructor removes files that were not ingested.
//
// A stream is a sequence of rows that the load sorts for itself, such as the entries of one index. An adder
// is one of the threads that add rows to a stream. Threads: one at a time for each adder of a stream.
// Different streams, and different adders of a stream, can be used at the same time.
class BulkLoad {
 public:
  virtual ~BulkLoad() = default;
  // Begins a stream and returns its number.
  // `presorted`: keys come in strictly ascending order. Otherwise the load sorts them in memory, within its
  // budget, and writes sorted runs to the local disk beyond it.
  // `unique_length`: returns how many bytes at the start of a key must be unique in this stream; 0: none.
  // nullptr: none in any key.
  // `adders`: the number of threads that add rows. A presorted stream has one. For a single adder, another
  // thread sorts; several adders sort their own rows.
  using UniqueLength = std::function<size_t(std::string_view key)>;
  virtual size_t add_stream(bool presorted, UniqueLength unique_length, StreamKind kind, size_t adders) = 0;
  size_t add_stream(bool presorted, UniqueLength unique_length, StreamKind kind = StreamKind::kSought) {
    return add_stream(presorted, std::move(unique_length), kind, 1);
  }
  // Adds a row. `adder`: the number of the calling thread among the stream's adders, from 0. Errors:
  // kDuplicate (message empty; see duplicate_key()), kNoSpace, kUnavailable, kFenced.
  virtual Status add(size_t stream, std::string_view key, std::string_view value, size_t adder) = 0;
  Status add(size_t stream, std::string_view key, std::string_view value) {
    return add(stream, key, value, 0);
  }
  // Sorts, writes, uploads and ingests the rows of all streams. `progress` (may be null) gets the part of the
  // work that is done, 0 to 1, and returns false to abort. Errors: as add(); kInterrupted: aborted.
  virtual Status ingest(const std::function<bool(double)> &progress) = 0;
  // From now on, ingest() writes rows that are few (kFewRows) through the log, as a transaction does: to make
  // and ingest a table file for them would take several syncs. Requires: all streams are unsorted; the rows
  // are of main, and nobody needs them before a later write of the caller, which is synced.
  static constexpr uint64_t kFewRows = 2000;
  virtual void write_few_to_log() = 0;
  // Whether ingest() will write the rows through the log.
  virtual bool is_for_log() const = 0;
  // Whether ingest() has put table files into the family.
  virtual bool has_ingested() const = 0;
  // With a bucket, waits until the bucket has the files and the MANIFEST edit of this load, if it has
  // ingested rows, and of all loads that have ingested theirs before. `progress`: as in ingest(). Errors:
  // kInterrupted, kUnavailable, kFenced. The rows stay in the family then; the caller drops the family or the
  // range, as after any failed load.
  virtual Status wait_for_bucket(const std::function<bool(double)> &progress) = 0;
  // Ingests the rows, and waits for the bucket.
  Status finish(const std::function<bool(double)> &progress) {
    const Status status = ingest(progress);
    return status.ok() ? wait_for_bucket(progress) : status;
  }
  // After kDuplicate: the stream with the duplicate, and the second of the two keys that clash. If several
  // streams have duplicates, ingest() reports the stream that was added first.
  virtual size_t duplicate_stream() const = 0;
  virtual std::string_view duplicate_key() const = 0;
  virtual std::string_view duplicate_value() const { return {}; }
};

// Begins bulk loads. Threads: any.
class Loads {
 public:
  virtual ~Loads() = default;

  // Begins a load into `family`. `compression`: of the files. `budget`: memory for sorting; loads of one
  // statement share it.
  virtual std::unique_ptr<BulkLoad> bulk_load(Family *family, const Compression &compression,
                                              std::shared_ptr<SortBudget> budget) = 0;
  std::unique_ptr<BulkLoad> bulk_load(Family *family, const Compression &compression) {
    return bulk_load(family, compression, sort_budget(UINT64_MAX));
  }
  // Makes the memory budget for the loads of one statement: the lesser of `bytes_max` and
  // DatabaseOptions::bulk_sort_bytes.
  virtual std::shared_ptr<SortBudget> sort_budget(uint64_t bytes_max) = 0;
};

class Ingestion;

// What transactions that are larger than memory need for their files (run_file.h).
class RunFiles {
 public:
  virtual ~RunFiles() = default;

  // Returns the options of these transactions' run files.
  virtual rocksdb::Options run_file_options() = 0;
  // Returns the directory that has a sub-directory for each such transaction. A sub-directory survives a
  // restart; its transaction removes it.
  virtual std::string spill_directory() = 0;
  // Commits an ingestion into main. Holds commit_gate() exclusively, so that a restore from the bucket always
  // gives a prefix of the history. Errors: as Ingestion::commit().
  virtual Status commit_ingestion(Ingestion *ingestion) = 0;
};

}  // namespace atoll::lsm
