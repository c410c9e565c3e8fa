// Range locks of locking reads, under REPEATABLE READ and SERIALIZABLE (docs/isolation.md).
//
// Each time the cursor of a scan moves to the next entry, the scan first locks the range of keys up to that
// entry, and only then uses the entry. So no other transaction can insert a key that the scan has passed. The
// cursor does not show an entry that another transaction has written in this range and not committed. That
// transaction holds the lock of the entry's row, so the scan waits for the row's lock, as it does for every
// row, and searches the range again.
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

  // Called when a scan begins at `from`. Forward the scan returns keys from `from` on, backward smaller keys.
  // `at_once`: the first protect_to() locks the range up to the upper bound of the scan. Requires: then the
  // scan goes forward.
  void start(std::string_view from, bool forward, bool at_once = false);
  // Called when a scan continues after the row with the key `last`, which was read without this scan or in
  // the other direction.
  void resume_at(const std::string &last, bool forward);
  bool is_forward() const { return is_forward_; }

  // Locks the single key `key` of a unique index instead of a range, if ranges are protected or the server
  // checks a long unique key. Inserts lock the same key, so a scan that gets the lock has waited for running
  // inserts. Requires: `key` has all parts of the index, and none of them is NULL. Errors: the lock's.
  Status protect_point(const IndexLayout &index, const std::string &key);
  // Whether protect_point() has locked the key of this search.
  bool is_point() const { return kind_ == Kind::kPoint; }
  // Called when the locked `key` has no row. Replaces the row lock by a lock on the range of this key. The
  // range lock keeps other transactions from inserting the key, but not from searching for it with a lock. If
  // ranges are not protected, no lock is kept. The lock of a long unique key is always kept.
  void leave_absent(const IndexLayout &index, const std::string &key);

  // The range that a scan reads, and its index: the rows, or the entries of a secondary index.
  struct Scan {
    const Bounds &bounds;
    int secondary;  // number of the secondary index; -1: the scan reads the rows themselves
    bool is_whole_table;
    bool forward;
  };
  // Locks the range of keys up to the entry under the cursor, or up to the end of the scan. Afterwards the
  // cursor may be on another entry, because other transactions have committed changes meanwhile. Errors:
  // of waiting for other transactions.
  Status protect_to(EntryCursor *entries, const Scan &scan);

 private:
  // From this row of a scan on, the locked ranges include the rows, so that a scan of a million rows does not
  // make a million row locks. The ranges also lock keys that no row has: another transaction waits also when
  // it searches for such a key with a lock. So a shorter scan makes row locks. SKIP LOCKED always does: the
  // rows that it skips stay unlocked.
  static constexpr uint32_t kRowLocksMax = 1000;

  enum class Kind : uint8_t {
    kRange,  // range locks protect the keys that the scan passes
    kPoint,  // a row lock on one key of a unique index protects the search instead of a range lock
  };

  bool checks_long_unique(const IndexLayout &index) const { return table_.locking() && index.is_long_hash; }
  Status wait_for(const std::string &entry, const std::string &goal, const Scan &scan, bool *waited);

  const OpenTable &table_;
  RowLocks &locks_;
  std::string reached_;  // the key up to which the scan has locked the range
  uint32_t calls_ = 0;   // of protect_to() in this scan
  bool is_forward_ = true;
  bool is_at_once_ = false;
  Kind kind_ = Kind::kRange;
};

}  // namespace atoll::table
