// A column family, and the ones there are.
#pragma once

#include <rocksdb/db.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace atoll::lsm {

enum class Algorithm : uint8_t { kNone = 0, kLz4 = 1, kZstd = 2, kZlib = 3 };

struct Compression {
  Algorithm algorithm = Algorithm::kLz4;
  int level = 0;  // 0: the algorithm's default
  bool operator==(const Compression &) const = default;
};

// kPast: a state of the past (past_database.h). It does not change, and nothing writes to it.
enum class Side : uint8_t { kMain, kTemp, kPast };

// A column family. Pointers stay valid until the database is closed, also after a drop. The reads of this
// class bypass locks and transactions: one without a snapshot sees the newest committed rows.
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
  // The sequence number of the newest committed write to the database that has the family.
  uint64_t newest_sequence() const { return base()->GetLatestSequenceNumber(); }

 private:
  friend struct Raw;
  // The RocksDB database that has the family, below its transaction layer.
  virtual rocksdb::DB *base() const = 0;
};

// Makes and drops the families of tables, and removes and copies ranges of them: what DDL needs.
// Threads: any. After kUnavailable and kNoSpace the statement may be tried again; kFenced: this server writes
// no more.
class Families {
 public:
  virtual ~Families() = default;

  // Makes a family for one table. With the default compression it is taken from a pool. The family is durable
  // when this returns. Errors: kUnavailable, kFenced, kNoSpace.
  virtual Status create_family(const Compression &compression, Family **out) = 0;
  // Makes a family with the rows that `source`, of main, has now: it shares the table files, none is copied.
  // Later changes of one do not show in the other. Durable when this returns. The caller keeps writers away.
  // Blocks: for a flush, and until files that are new are uploaded. Errors: as create_family(), kInterrupted.
  virtual Status clone_family(Family *source, const Compression &compression, Family **out) = 0;
  // Writes a copy of each entry in [begin, end), in which `start` replaces the first start.size() bytes of
  // the key. Not synced. Asks `is_cancelled` now and then. Errors: kInterrupted, and those of a write; after
  // an error some copies are written.
  virtual Status copy_entries(Family *family, std::string_view begin, std::string_view end,
                              std::string_view start, const std::function<bool()> &is_cancelled) = 0;
  // Whether all memtables keep their filters after a restart with one family more (filtered_families_max()).
  virtual bool has_room_for_family() = 0;
  // Drops the family in the background. Requires: no table in the catalog uses it any more.
  virtual void drop_family(uint32_t id) = 0;
  // Drops the families that the catalog does not know, as a crash between making a family and making its
  // table leaves them.
  virtual void reconcile_families(const std::function<bool(uint32_t id)> &is_known) = 0;

  // Removes [begin, end) by one range tombstone; the space is reclaimed in the background. Requires for the
  // main database: the range is never used again. The reclaiming drops each table file that lies in the
  // range, also one that was written after this call. Errors: those of a write.
  virtual Status delete_range(Family *family, std::string_view begin, std::string_view end) = 0;
};

// Maps a RocksDB status; adds nothing to its message.
Status from_rocksdb(const rocksdb::Status &status);

}  // namespace atoll::lsm
