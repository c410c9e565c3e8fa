// The row locks of a statement that reads a table. Rows are locked one by one, and the lock of a row that
// does not match the statement's condition is released again.
//
// An UPDATE under READ COMMITTED does not wait for a row that another transaction has locked. The scan
// returns the committed version of the row (a semi-consistent read). Only if this version matches the
// condition, the server asks for the row again, and then the scan waits for its lock.
#pragma once

#include <cstdint>
#include <string_view>

#include "table/open_table.h"

namespace atoll::table {

class RowLocks {
 public:
  explicit RowLocks(const OpenTable &table) : table_(table) {}

  // Requires: not kNone.
  static txn::LockMode mode_of(RowLock lock) {
    return lock == RowLock::kShared ? txn::LockMode::kShared : txn::LockMode::kExclusive;
  }

  // Locks a key, which need not exist. *waited (may be nullptr): whether the call waited for the lock of
  // another transaction. Does nothing for TEMPORARY tables. Errors: as LockTable::lock().
  Status lock(std::string_view key, RowLock mode, bool *waited) {
    return lock(key, mode, table_.lock_wait(), waited);
  }
  // Locks a new key that the statement is about to write, in order to see whether it is free.
  Status claim(std::string_view key) {
    return lock(key, RowLock::kExclusive, table_.lock_wait(), nullptr, txn::LockUse::kClaim);
  }
  // Locks the row that a scan has reached. A semi-consistent read does not wait for the lock: if it is not
  // free, the row stays unlocked and returned_unlocked() is true.
  Status lock_or_peek(std::string_view key, bool *waited);
  // Releases the lock of the row read last, which has the key `primary_key`. Keeps the lock if an earlier
  // statement took it, or if the isolation level keeps all locks.
  void give_back(std::string_view primary_key);
  // Releases the lock of a key that has no row, at any isolation level.
  void release(std::string_view key);
  // Called when the scan moves to another row. Until that row is locked, give_back() must release nothing,
  // because the newest lock belongs to the row before.
  void forget_newest() { newest_is_new_ = false; }

  // ---- semi-consistent reads ----
  void allow_semi_consistent(bool allowed);
  // Called when a search begins. Forgets a row that was returned unlocked and for which the server has not
  // asked again. (When the server reads backward, it drops rows outside of the range without a call.)
  // `for_one_row`: the search is by a unique key. The server never asks again for such a row, so the row is
  // locked at once.
  void begin_search(bool for_one_row);
  // Whether the row returned last was returned without a lock.
  bool returned_unlocked() const { return semi_consistent_ == SemiConsistent::kReturned; }
  // The server asks for the row that was returned unlocked once more, and the scan must lock it now.
  void ask_again() { semi_consistent_ = SemiConsistent::kAgain; }
  // Called before the scan locks, after all, a row that it would have returned unlocked.
  void lock_returned() { semi_consistent_ = SemiConsistent::kAllowed; }

 private:
  // The state of semi-consistent reads. kOff: the scan waits for the lock of each row. kAllowed: it returns a
  // row that another transaction has locked without waiting. kReturned: the row returned last is such a row.
  // kAgain: the scan waits for the lock of the next row.
  enum class SemiConsistent : uint8_t { kOff, kAllowed, kReturned, kAgain };

  Status lock(std::string_view key, RowLock mode, const txn::LockWait &wait, bool *waited,
              txn::LockUse use = txn::LockUse::kRead);

  const OpenTable &table_;
  SemiConsistent semi_consistent_ = SemiConsistent::kOff;
  bool newest_is_new_ = false;  // the last lock() took a lock that its transaction did not hold before
};

}  // namespace atoll::table
