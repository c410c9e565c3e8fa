// Ranges read with locks, under REPEATABLE READ and SERIALIZABLE (docs/isolation.md).
//
// Each time its cursor moves, a scan locks the keys between one entry and the next before it trusts what the
// cursor shows there, so that no other transaction can insert a key that the scan has passed. Another
// transaction may have written an entry between the two and not committed it; the cursor does not show this
// entry. That transaction holds the lock of the entry's row, so the scan waits for the row's lock, as it does
// for every row, and looks again.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "table/entry_cursor.h"
#include "table/locks/row_locks.h"

namespace atoll::table {

// The smallest key greater than `key`.
std::string next_key(std::string_view key);

class RangeGuard {
 public:
  RangeGuard(const OpenTable &table, RowLocks *locks) : table_(table), locks_(*locks) {}

  // A scan begins at `from`: forward the first key it may return, backward the first that it may not.
  void start(std::string_view from, bool forward);
  // The scan goes on behind the row with key `last`, which was read in another way or in the other direction.
  void resume_at(const std::string &last, bool forward);
  bool is_forward() const { return is_forward_; }

  // Locks `key` instead of a range, if ranges are protected or the server checks a long unique key. Inserts
  // lock the same key, so a scan that gets the lock has waited for them. Requires: `key` has all parts of
  // unique index `index`, and none of them is NULL. Errors: those of the lock.
  Status protect_point(const IndexLayout &index, const std::string &key);
  // Whether protect_point() has locked the key.
  bool is_point() const { return kind_ == Kind::kPoint; }
  // Called when the locked `key` has no row. Replaces the row lock by a lock on the range of this key, which
  // keeps only inserts away: other transactions may look for the key as well. Where ranges are not protected,
  // no lock stays. The lock of a long unique key stays as it is.
  void leave_absent(const IndexLayout &index, const std::string &key);

  // What a scan reads: rows, or the entries of a secondary index, which name rows.
  struct Scan {
    const Bounds &bounds;
    int secondary;  // number of the secondary index; -1: rows
    bool is_whole_table;
    bool forward;
  };
  // Protects the keys up to the entry under the cursor, or up to the end of the scan. The cursor may stand on
  // another entry afterwards. Errors: of waiting for other transactions.
  Status protect_to(EntryCursor *entries, const Scan &scan);

 private:
  enum class Kind : uint8_t {
    kRange,
    kPoint,  // a row lock on the whole unique key serves
  };

  bool checks_long_unique(const IndexLayout &index) const { return table_.locking() && index.is_long_hash; }
  Status wait_for(const std::string &entry, const std::string &goal, const Scan &scan, bool *waited);

  const OpenTable &table_;
  RowLocks &locks_;
  std::string reached_;  // how far the range lock goes
  bool is_forward_ = true;
  Kind kind_ = Kind::kRange;
};

}  // namespace atoll::table
