// Iterates over the entries of one index of a table in one state, without decoding them.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/status.h"
#include "catalog/catalog.h"
#include "catalog/record.h"
#include "lsm/past/past_database.h"

namespace atoll::visitor {

using Range = catalog::Doomed::Range;

// Finds the column family that has the table's rows. Errors: kCorruption: the state has no such family.
Status find_family(lsm::PastDatabase *state, const catalog::TableDef &table, lsm::Family **out);

// Returns the range of the keys under which the table's rows are stored.
Range rows_of(const catalog::TableDef &table);

// Checks whether this thread should stop. Errors: kInterrupted (base/interrupt.h).
Status check_interrupt();
// A loop over keys calls check_interrupt() once for this number of keys.
inline constexpr uint64_t kKeysPerQuestion = 1024;

// Threads: one.
class StoredEntries {
 public:
  // Opens the entries whose keys are in `keys`, and moves to the first. Before this call there are no
  // entries. Errors: kCorruption.
  Status open(lsm::PastDatabase *state, const catalog::TableDef &table, const Range &keys);

  bool valid() const { return entries_ != nullptr && entries_->Valid(); }
  // Requires: valid().
  std::string_view whole_key() const { return entries_->key().ToStringView(); }
  // The key without the bytes with which all keys of the index begin.
  std::string_view key() const { return whole_key().substr(keys_.begin.size()); }
  std::string_view value() const { return entries_->value().ToStringView(); }
  void next() { entries_->Next(); }

  // Why valid() is false: Ok at the end of the range, else the error of a read.
  Status status() const { return entries_ == nullptr ? Status::Ok() : lsm::from_rocksdb(entries_->status()); }

 private:
  Range keys_;
  rocksdb::Slice end_;  // points into keys_; RocksDB reads it while the iterator lives
  std::unique_ptr<rocksdb::Iterator> entries_;
};

}  // namespace atoll::visitor
