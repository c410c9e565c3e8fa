// One column family and its reads (Family), and what DDL does with the families (Families).
#pragma once

#include <rocksdb/db.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace atoll::lsm {

class PastDatabase;

enum class Algorithm : uint8_t { kNone = 0, kLz4 = 1, kZstd = 2, kZlib = 3 };

struct Compression {
  Algorithm algorithm = Algorithm::kLz4;
  int level = 0;  // 0: the algorithm's default
  bool operator==(const Compression &) const = default;
};

// Which database a family belongs to. kMain: the main database. kTemp: the database of TEMPORARY tables.
// kPast: a past state of main (past_database.h), to which nobody writes.
enum class Side : uint8_t { kMain, kTemp, kPast };

// A column family. A pointer to it stays valid until the database is closed, even after the family is
// dropped. The reads of this class bypass locks and transactions. A read without a snapshot sees the newest
// committed rows.
class Family {
 public:
  virtual ~Family() = default;
  virtual uint32_t id() const = 0;
  virtual Side side() const = 0;
  virtual rocksdb::ColumnFamilyHandle *handle() const = 0;

  // The reads return RocksDB's status; from_rocksdb() translates it into a Code.
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
  // The sequence number of the newest committed write to the database that has the family.
  uint64_t newest_sequence() const { return base()->GetLatestSequenceNumber(); }

 private:
  friend struct Raw;
  // The RocksDB database that has the family, below its transaction layer.
  virtual rocksdb::DB *base() const = 0;
};

// What DDL needs: makes and drops the families of tables, and removes and copies key ranges in them.
// Threads: any. After kUnavailable and kNoSpace a repeated statement can succeed; after kFenced this server
// cannot write any more.
class Families {
 public:
  virtual ~Families() = default;

  // Makes a family for one table. With the default compression it is taken from a pool. The family is durable
  // when this returns. Errors: kUnavailable, kFenced, kNoSpace.
  virtual Status create_family(const Compression &compression, Family **out) = 0;
  // Makes a family with the rows that `source` has now. Both families share the table files; no file is
  // copied. Later changes of one family do not show in the other. The new family is durable when this
  // returns. `past`: nullptr if `source` is a family of main, whose writers the caller keeps away; else the
  // state of the past that has it, of PastDatabase::open_with_tables(). Blocks: for a flush, and until new
  // files are uploaded. Errors: as create_family(), kInterrupted, and for a past state kInvalid (it has table
  // files of the database from which this one was cloned).
  virtual Status clone_family(Family *source, PastDatabase *past, const Compression &compression,
                              Family **out) = 0;
  // Writes a copy of each entry of `from` in [begin, end) into `to`, a family of main. In the key of the
  // copy, `start` replaces the first start.size() bytes. The log is not synced. Calls `is_cancelled` now and
  // then; true ends the work with kInterrupted. Errors: kInterrupted, and as a write. After an error, some
  // copies may exist.
  virtual Status copy_entries(Family *from, std::string_view begin, std::string_view end, Family *to,
                              std::string_view start, const std::function<bool()> &is_cancelled) = 0;
  // False: with one more family there would be so many that, after a restart, the memtables of all families
  // but the shared one have no filters (filtered_families_max()).
  virtual bool has_room_for_family() = 0;
  // Drops the family in the background. Requires: no table in the catalog uses it any more.
  virtual void drop_family(uint32_t id) = 0;
  // Called once after open: drops the families in which the catalog has no table (`is_known` returns false).
  // Such families exist after a crash between the creation of a family and the creation of its table. Empty
  // ones with the default compression are not dropped, but are given to later tables.
  virtual void reconcile_families(const std::function<bool(uint32_t id)> &is_known) = 0;

  // Deletes [begin, end) by one range tombstone; its disk space is freed in the background. Requires for the
  // main database: no statement ever uses the range again. The background task deletes each table file that
  // lies wholly in the range, even one that was written after this call. Errors: as a write.
  virtual Status delete_range(Family *family, std::string_view begin, std::string_view end) = 0;
};

// Translates a RocksDB status into a Status of Atoll with the same message.
Status from_rocksdb(const rocksdb::Status &status);

}  // namespace atoll::lsm
