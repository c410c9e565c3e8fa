// The row locks of a statement that reads a table: taken row by row, given back where a row was not wanted.
//
// READ COMMITTED, UPDATE: a scan does not wait for a row that another transaction has locked. It returns the
// row as last committed (a semi-consistent read), and only if that matches the server asks for it again; then
// the scan waits for the row.
#pragma once

#include <cstdint>
#include <string_view>

#include "table/open_table.h"

namespace atoll::table {

class RowLocks {
 public:
  explicit RowLocks(const OpenTable &table) : table_(table) {}

  // Locks a key, which need not exist. *waited (may be nullptr): whether another transaction had it locked.
  // TEMPORARY tables have no locks. Errors: those of LockTable::lock().
  Status lock(std::string_view key, RowLock mode, bool *waited) {
    return lock(key, mode, table_.lock_wait(), waited);
  }
  // Locks a row that a scan has come to, unless it is read semi-consistently: see returned_unlocked().
  Status lock_or_peek(std::string_view key, bool *waited);
  // Gives back the lock of the row read last, unless an earlier statement took it or the isolation level
  // keeps all. `primary_key`: of that row.
  void give_back(std::string_view primary_key);
  // Gives back the lock of a key that has no row, whatever the isolation level.
  void release(std::string_view key);
  // Called before a row is locked: the newest lock is not that of the row that is read now.
  void forget_newest() { newest_is_new_ = false; }

  // ---- semi-consistent reads ----
  void allow_semi_consistent(bool allowed);
  // A new search. If the server has not asked again for the row that was returned unlocked, it does not want
  // it: reading backwards, it drops rows outside of the range without telling. `for_one_row`: the search is
  // by a unique key; the server never asks again for such a row, so it is locked at once.
  void begin_search(bool for_one_row);
  // The row returned last was not locked.
  bool returned_unlocked() const { return semi_consistent_ == SemiConsistent::kReturned; }
  // The server asks for that row again, now under its lock.
  void ask_again() { semi_consistent_ = SemiConsistent::kAgain; }
  // The row is locked after all.
  void lock_returned() { semi_consistent_ = SemiConsistent::kAllowed; }

 private:
  enum class SemiConsistent : uint8_t { kOff, kAllowed, kReturned, kAgain };

  Status lock(std::string_view key, RowLock mode, const txn::LockWait &wait, bool *waited);

  const OpenTable &table_;
  SemiConsistent semi_consistent_ = SemiConsistent::kOff;
  bool newest_is_new_ = false;  // the last lock() took a lock that its transaction did not have
};

}  // namespace atoll::table
