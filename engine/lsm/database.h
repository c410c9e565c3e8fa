// The only place that opens RocksDB: options, column families, bulk ingestion, numbers.
//
// Two databases are open in one server: `main`, whose files live in the bucket (cloudfs), and `temp`, for
// TEMPORARY tables: plain local files, no WAL, wiped at start.
#pragma once

#include <rocksdb/utilities/transaction_db.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "lsm/load/sort_budget.h"
#include "bridge/objstore.h"

namespace atoll::lsm {

enum class Algorithm : uint8_t { kNone = 0, kLz4 = 1, kZstd = 2, kZlib = 3 };

struct Compression {
  Algorithm algorithm = Algorithm::kLz4;
  int level = 0;  // 0: the algorithm's default
  bool operator==(const Compression &) const = default;
};

// kPast: a state of the past (past_database.h). It does not change, and nothing writes to it.
enum class Side : uint8_t { kMain, kTemp, kPast };

// A column family. Pointers stay valid until the database is closed, also after a drop.
// It is read here below locks and transactions: a read without a snapshot sees the newest committed rows.
class Family {
 public:
  virtual ~Family() = default;
  virtual uint32_t id() const = 0;
  virtual Side side() const = 0;
  virtual rocksdb::ColumnFamilyHandle *handle() const = 0;

  // The statuses are RocksDB's: from_rocksdb() says what they ask for.
  rocksdb::Status get(const rocksdb::ReadOptions &options, const rocksdb::Slice &key,
                      rocksdb::PinnableSlice *value) const {
    return base()->Get(options, handle(), key, value);
  }
  rocksdb::Status get(const rocksdb::ReadOptions &options, const rocksdb::Slice &key,
                      std::string *value) const {
    return base()->Get(options, handle(), key, value);
  }
  // `keys` are ascending.
  void multi_get(const rocksdb::ReadOptions &options, size_t count, const rocksdb::Slice *keys,
                 rocksdb::PinnableSlice *values, rocksdb::Status *statuses) const {
    base()->MultiGet(options, handle(), count, keys, values, statuses, /*sorted_input=*/true);
  }
  std::unique_ptr<rocksdb::Iterator> iterator(const rocksdb::ReadOptions &options) const {
    return std::unique_ptr<rocksdb::Iterator>(base()->NewIterator(options, handle()));
  }
  // Of the newest committed write of the database that has the family.
  uint64_t newest_sequence() const { return base()->GetLatestSequenceNumber(); }

 private:
  friend struct Raw;
  // The RocksDB database that has the family, below its transaction layer.
  virtual rocksdb::DB *base() const = 0;
};

struct DatabaseOptions {
  std::string local_dir;           // main
  std::string temp_dir;            // temp
  atoll_store *store = nullptr;    // nullptr: no bucket (tests)
  uint64_t block_cache_bytes = 0;  // 0: smallest possible
  uint64_t memtable_bytes = 0;     // one budget for all families (WriteBufferManager); 0: derived
  uint64_t wal_bytes_max = 0;      // max_total_wal_size; 0: derived
  Compression default_compression;
  int background_threads = 0;               // 0: cores
  uint64_t bulk_sort_bytes = 128ull << 20;  // memory of one statement for unsorted streams
  std::function<void(int level, const std::string &)> log;
};

// How the keys of a stream will be read. Decides whether the stream's files get filters.
enum class StreamKind {
  kSought,  // readers also look for keys that do not exist: filters
  kKnown,   // readers use ranges, or keys that an index entry has given them: no filters
};
constexpr size_t kStreamKinds = 2;

// Loads sorted rows into one family, for ALTER and index builds. Each byte is written once to the local disk,
// and each file is uploaded as soon as it is complete. All rows become visible in one step, to older
// snapshots too: the caller keeps their readers away (IndexDef::readable_from). The destructor removes files
// that were not ingested. Threads: one at a time for each adder of a stream; streams and adders are
// independent of each other.
class BulkLoad {
 public:
  virtual ~BulkLoad() = default;
  // `presorted`: keys come in strictly ascending order. Otherwise the load sorts them in memory, within its
  // budget, and writes sorted runs to the local disk beyond it.
  // `unique_length`: how many bytes of a key must be unique in this stream; 0: none. May be null.
  // `adders`: the number of threads that add. A presorted stream has one. A single adder gets a thread that
  // sorts; several adders sort what they have added themselves.
  using UniqueLength = std::function<size_t(std::string_view key)>;
  virtual size_t add_stream(bool presorted, UniqueLength unique_length, StreamKind kind, size_t adders) = 0;
  size_t add_stream(bool presorted, UniqueLength unique_length, StreamKind kind = StreamKind::kSought) {
    return add_stream(presorted, std::move(unique_length), kind, 1);
  }
  // Errors: kDuplicate (message empty; see duplicate_key()), kNoSpace, kUnavailable, kFenced.
  virtual Status add(size_t stream, std::string_view key, std::string_view value, size_t adder) = 0;
  Status add(size_t stream, std::string_view key, std::string_view value) {
    return add(stream, key, value, 0);
  }
  // Sorts, writes, uploads and ingests the rows of all streams. With a bucket, returns after the files are
  // uploaded and noted as DDL. `progress` (may be null) gets the part that is done, 0 to 1, and returns false
  // to abort. Errors: as add(); kInterrupted: aborted.
  virtual Status finish(const std::function<bool(double)> &progress) = 0;
  // After kDuplicate: the stream and the second of the two keys that clash.
  virtual size_t duplicate_stream() const = 0;
  virtual std::string_view duplicate_key() const = 0;
  virtual std::string_view duplicate_value() const { return {}; }
};

class Ingestion;

struct RangeEstimate {
  uint64_t bytes = 0;    // on disk, compressed, plus memtables
  uint64_t entries = 0;  // estimated
};

// A table file of the main database.
struct TableFile {
  uint64_t number = 0;
  uint32_t family_id = 0;
  int level = 0;
  uint64_t entries = 0;
  uint64_t deletions = 0;
  std::string smallest_key, largest_key;
};

// A compaction of the main database that runs or has ended since the start of the server.
struct Compaction {
  enum class State : uint8_t { kRunning, kDone, kFailed };
  int job = 0;
  uint32_t family_id = 0;
  State state = State::kRunning;
  std::string reason;  // RocksDB's word for it
  int input_level = 0, output_level = 0;
  uint64_t input_files = 0, output_files = 0;
  uint64_t input_bytes = 0, output_bytes = 0;  // 0 while it runs
  uint64_t started_us = 0;                     // since 1970
  uint64_t took_us = 0;                        // 0 while it runs
};

class PastDatabase;

class Database {
 public:
  virtual ~Database() = default;

  // Opens or creates. Errors: kCorruption, kUnavailable, kNoSpace, kInvalid.
  static Status open(const DatabaseOptions &options, std::unique_ptr<Database> *out);

  // ---- below locks and transactions (rows.cc) ----
  // The statuses are RocksDB's: from_rocksdb() says what they ask for.
  // Writes the batch in one step. Requires for main: the caller holds commit_gate() shared.
  rocksdb::Status write(Side side, const rocksdb::WriteOptions &options, rocksdb::WriteBatch *batch);
  // The caller gives it back to release_snapshot() of the same side.
  const rocksdb::Snapshot *take_snapshot(Side side);
  void release_snapshot(Side side, const rocksdb::Snapshot *snapshot);
  uint64_t newest_sequence();  // of the newest committed write to main
  // A section of main's log that can be prepared, and is committed or rolled back later. It takes no locks.
  std::unique_ptr<rocksdb::Transaction> begin_section();
  std::vector<std::unique_ptr<rocksdb::Transaction>> prepared_sections();  // once, after open()
  // The family for what recovery alone reads: the markers of spilled transactions.
  rocksdb::ColumnFamilyHandle *marker_handle();
  rocksdb::Status get_marker(const rocksdb::Slice &key, std::string *value);

  virtual Family *catalog_family() = 0;  // definitions of all tables
  virtual Family *shared_family() = 0;   // small tables, under a prefix each
  virtual Family *temp_family() = 0;     // TEMPORARY tables, under a prefix each

  // Makes a family for one table. With the default compression it is taken from a pool. The family is durable
  // when this returns. Errors: kUnavailable, kFenced, kNoSpace.
  virtual Status create_family(const Compression &compression, Family **out) = 0;
  // Makes a family with the rows that `source`, of main, has now: it shares the table files, none is copied.
  // Later changes of one are not in the other. Durable when this returns. The caller keeps writers away.
  // Blocks: for a flush, and until files that are new are uploaded. Errors: as create_family(), kInterrupted.
  virtual Status clone_family(Family *source, const Compression &compression, Family **out) = 0;
  // Writes a copy of each entry in [begin, end), in which `start` replaces the first start.size() bytes of
  // the key. Not synced. Asks `is_cancelled` now and then. Errors: kInterrupted, and those of a write; after
  // an error some copies are written.
  virtual Status copy_entries(Family *family, std::string_view begin, std::string_view end,
                              std::string_view start, const std::function<bool()> &is_cancelled) = 0;
  virtual Family *find_family(uint32_t id) = 0;  // nullptr: no such family
  // Whether all memtables keep their filters after a restart with one family more (filtered_families_max()).
  virtual bool has_room_for_family() = 0;
  // Drops it in the background. Requires: no table in the catalog uses it any more.
  virtual void drop_family(uint32_t id) = 0;
  // Drops the families that the catalog does not know: those of a crash between making a family and its
  // table.
  virtual void reconcile_families(const std::function<bool(uint32_t id)> &is_known) = 0;

  // The sequence number of the oldest snapshot of main that is held; UINT64_MAX: none is.
  virtual uint64_t oldest_snapshot() = 0;

  // Removes [begin, end) by one range tombstone; the space is reclaimed in the background.
  virtual Status delete_range(Family *family, std::string_view begin, std::string_view end) = 0;

  virtual std::unique_ptr<BulkLoad> bulk_load(Family *family, const Compression &compression,
                                              std::shared_ptr<SortBudget> budget) = 0;
  std::unique_ptr<BulkLoad> bulk_load(Family *family, const Compression &compression) {
    return bulk_load(family, compression, sort_budget(UINT64_MAX));
  }
  // A new budget for the loads of one statement: the lesser of `bytes_max` and
  // DatabaseOptions::bulk_sort_bytes.
  virtual std::shared_ptr<SortBudget> sort_budget(uint64_t bytes_max) = 0;

  // For transactions larger than memory (run_file.h): the options of their files, and the directory that
  // holds one sub-directory for each such transaction. A sub-directory outlives a restart; its transaction
  // removes it.
  virtual rocksdb::Options run_file_options() = 0;
  virtual std::string spill_directory() = 0;
  // Commits an ingestion into main. Holds commit_gate() exclusively, so that the bucket's state stays a
  // prefix of the history. Errors: as Ingestion::commit().
  virtual Status commit_ingestion(Ingestion *ingestion) = 0;
  // A writer to main holds this shared while it writes. Functions of Family and BulkLoad do so themselves.
  virtual SharedMutex *commit_gate() = 0;

  // Writes to main without row locks, with commit_gate() held shared and an empty commit mark. For data that
  // nobody but the caller knows, or whose writes the caller puts in order. Errors: those of a write.
  Status write_unlocked(rocksdb::WriteBatch *batch, bool sync);

  virtual RangeEstimate estimate(Family *family, std::string_view begin, std::string_view end) = 0;
  // As estimate(), from sizes alone: small ranges are not counted.
  virtual RangeEstimate sizes(Family *family, std::string_view begin, std::string_view end) = 0;
  // What the whole family takes in files and in memory. Exact; costs nothing.
  virtual uint64_t total_bytes(Family *family) = 0;
  // Whether [begin, end) takes more than `bytes_max`, in files and in memory. When sizes() says so, this call
  // reads up to `bytes_max` to make sure, because RocksDB estimates the size of a memtable's entries by the
  // average of all entries in it.
  virtual bool takes_more_than(Family *family, std::string_view begin, std::string_view end,
                               uint64_t bytes_max) = 0;
  // Keys that split [begin, end) into about `pieces` equal parts, ascending, for parallel scans.
  virtual std::vector<std::string> split(Family *family, std::string_view begin, std::string_view end,
                                         size_t pieces) = 0;

  // Syncs the WAL: all that was written before the call is on the local disk after it. Calls at the same time
  // share a sync. After a sync that failed, every write fails until the database is opened again.
  virtual Status sync_wal() = 0;
  virtual Status flush(Family *family) = 0;  // nullptr: all
  // Compacts all files with keys in [begin, end). Blocks: until that is done and the new files are uploaded.
  // Errors: kInterrupted: the statement was killed; the compaction then ends in the background.
  virtual Status compact(Family *family, std::string_view begin, std::string_view end) = 0;
  // Reads all table files with keys in [begin, end), past the block cache, and compares every block with its
  // checksum. As any read does, it takes the local file, else cached parts, else the bucket. `is_cancelled`
  // is asked before each read of at most 2 MiB; once true, it must stay so. Errors: kCorruption (names file
  // and offset), kUnavailable, kInterrupted.
  virtual Status verify_files(Family *family, std::string_view begin, std::string_view end,
                              const std::function<bool()> &is_cancelled) = 0;
  // The last background error, kOk if none. RocksDB resumes by itself after kNoSpace and kUnavailable.
  virtual Status background_error() = 0;

  virtual void set_block_cache_bytes(uint64_t bytes) = 0;  // the most that it may take
  virtual uint64_t block_cache_bytes() const = 0;
  virtual uint64_t block_cache_bytes_used() const = 0;
  // name/value pairs for SHOW STATUS (memtable bytes, stalls, compaction debt, WAL syncs, ...).
  virtual std::vector<std::pair<std::string, uint64_t>> counters() = 0;
  virtual std::vector<TableFile> table_files() = 0;   // in no order
  virtual std::vector<Compaction> compactions() = 0;  // oldest first, some hundred

  // Whether RocksDB delays or stops writers, because flushes or compactions are behind. Takes its mutex: not
  // for the usual path of a commit.
  virtual bool holds_writers_back() = 0;

  // Opens the state that `when` names, a snapshot or a moment, in `directory`, which must not exist.
  // `schema`: for people. What is local only must have been published before. Errors, requests: those of
  // atoll_store_mount(), and kCorruption.
  virtual Status open_past(const std::string &when, const std::string &schema, const std::string &directory,
                           std::unique_ptr<PastDatabase> *out) = 0;

  // Flushes memtables so that no WAL is needed, waits for background work. Then destroy.
  virtual Status shut_down() = 0;

 private:
  friend struct Raw;
  virtual rocksdb::TransactionDB *db(Side side) = 0;
};

// Maps a RocksDB status; adds nothing to its message.
Status from_rocksdb(const rocksdb::Status &status);

}  // namespace atoll::lsm
