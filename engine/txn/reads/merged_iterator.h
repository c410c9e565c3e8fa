// A RocksDB iterator with a transaction's own writes merged in. Both sides, the database and the own writes,
// stay within the same bounds in both directions. Own removals hide rows of the database.
#pragma once

#include <rocksdb/iterator.h>

#include <memory>

#include "txn/reads/cursor.h"
#include "txn/reads/own_cursor.h"

namespace atoll::txn {

class MergedIterator final : public rocksdb::Iterator {
 public:
  // `base` shows only entries within `bounds` by itself. `bounds` must outlive this object, and can change
  // before each search.
  // `heads` searches in `base`; nullptr: no heads are known. It must outlive this object, too.
  MergedIterator(std::unique_ptr<rocksdb::Iterator> base, OwnCursor own, const CursorBounds *bounds,
                 HeadSearch *heads);

  bool Valid() const override { return current_ != Current::kNone; }
  void SeekToFirst() override;
  void SeekToLast() override;
  void Seek(const rocksdb::Slice &target) override;
  void SeekForPrev(const rocksdb::Slice &target) override;
  void Next() override;
  void Prev() override;
  rocksdb::Slice key() const override;
  rocksdb::Slice value() const override;
  rocksdb::Status status() const override;

 private:
  // Which side has the current entry: the database, the own writes, or none (the iterator is not valid).
  enum class Current : uint8_t { kNone, kBase, kOwn };

  bool own_valid() const;  // true: the current write of own_ is within the bounds
  std::string_view base_key() const;
  void step_base();
  void step_own();
  void settle();
  void turn_forward();   // moves each side to its first entry after the current key
  void turn_backward();  // moves each side to its last entry before the current key

  std::unique_ptr<rocksdb::Iterator> base_;
  OwnCursor own_;
  const CursorBounds *const bounds_;
  HeadSearch *const heads_;
  Current current_ = Current::kNone;
  bool equal_ = false;   // true: both sides have the current key
  bool forward_ = true;  // the direction of the last move
};

}  // namespace atoll::txn
