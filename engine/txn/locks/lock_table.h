// Row locks and range locks of all transactions, in memory. Atoll has its own locks, because RocksDB is
// opened without its own concurrency control (docs/isolation.md).
//
// A row lock is on one key, which need not exist. A range lock is on the keys between two bounds of one
// index: while an owner holds it, no other transaction may insert there. Range locks conflict with no other
// range lock and with no row lock. So a range lock does not lock the rows in the range; each row is locked by
// a row lock.
//
// An owner of very many row locks exchanges them for a few "row ranges" (set_row_locks_max). A row range
// stands for a row lock on each key in it on which no other owner has a row lock. It may include keys that
// the owner never locked, so it locks too much, never too little.
//
// Invariants
//   LOCK-1  A lock is granted only if it is compatible with every lock that is held, and with every request
//           that waits before it in the queue. An upgrade by a holder goes first.
//   LOCK-2  A cycle of waiters is broken at once. The victim is the owner that the victim preference chooses;
//           without a preference, the owner with the fewest locks; if several have equally few, the owner
//           whose request closed the cycle. The victim's request fails with kDeadlock.
//   LOCK-3  A wait ends only by grant, timeout, kill() or deadlock.
//   LOCK-4  When lock_insert() calls `write`, its key lies in no range that another owner has locked. A range
//           is granted only up to the first key that another owner has written and not committed.
//   LOCK-5  An owner's row ranges lock at least what its row locks would lock if they were kept one by one.
//   LOCK-6  release_rest() releases no lock on a key for which keep_written() was called.
// Tests: lock_table_test.cc (compatibility, order, kill), range_lock_test.cc (LOCK-4), row_range_test.cc
//        (LOCK-5), lock_stress_test.cc (LOCK-1 to LOCK-3 and LOCK-5 against a model), range_test.cc (LOCK-4
//        with threads).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "txn/locks/key_ranges.h"

namespace atoll::txn {

enum class LockMode : uint8_t { kShared, kExclusive };

// Why a transaction locks a row. kRead: it reads the row, perhaps in order to change it. kClaim: it wants to
// write a new row or entry under the key, and looks whether the key is free.
enum class LockUse : uint8_t { kRead, kClaim };

// Which locks a transaction keeps when it is prepared. In each case it keeps the row locks on the keys that
// it has written.
enum class KeptLocks : uint8_t {
  kAll,        // all locks
  kExclusive,  // and the exclusive row locks and row ranges of its reads
  kWritten,    // no others
};

// The key that a lock is on.
struct LockKey {
  uint32_t family_id = 0;  // lsm::Family::id(); the key carries the table prefix
  std::string_view key;    // full data key; copied when a lock is made
};

// A key in a range that is to be locked together with the range (LockTable::lock_range()).
struct RowInRange {
  LockMode mode = LockMode::kExclusive;
  std::string_view key;
};

// All keys of one index begin with the same bytes: table prefix and index number. This is how many bytes
// these are.
inline constexpr size_t kIndexStartBytes = 6;

// How long a request waits when the lock is not free.
struct LockWait {
  uint64_t timeout_ms = 50000;  // 0: fail at once with kLockTimeout (NOWAIT, SKIP LOCKED)
};

class LockTable;

// One per transaction; keeps the list of locks that the transaction holds. One thread at a time uses it.
// Other threads are allowed to call LockTable::kill() and the functions that say so.
class LockOwner {
 public:
  explicit LockOwner(uint64_t transaction_id, void *user = nullptr);
  ~LockOwner();  // Requires: the owner holds no lock.
  uint64_t transaction_id() const;
  void *user() const;  // the handler's THD*, opaque here
  // Replaces the user pointer; returns when no BeforeWait callback can still see the old one.
  void set_user(void *user);
  size_t locks_held() const;  // row locks, exchanged ones included; any thread
  // Exchanges the whole content of two owners, including their locks. Requires: neither owner waits, and no
  // other thread has a pointer to one of them.
  void swap(LockOwner &other);

  struct State;  // lock_table_impl.h

 private:
  friend class LockTable;
  std::unique_ptr<State> state_;
};

// kRow: a row lock or a row range. kRange: a range lock. kInsert: an insert that waits for owners of ranges.
enum class LockKind : uint8_t { kRow, kRange, kInsert };

struct LockInfo {  // one lock or one wait, for INFORMATION_SCHEMA and SHOW ENGINE STATUS
  uint64_t transaction_id;
  uint32_t family_id;
  LockKind kind;
  std::string key;
  std::string key_end;  // of a range or a row range: the first key that is not in it; otherwise empty
  LockMode mode;        // of a row lock
  bool waiting;         // true: the lock is not granted yet
  uint64_t waited_ms;   // so far; 0 when granted
  uint64_t blocking_transaction_id;  // one of those for which the request waits; 0 when granted

  const char *mode_name() const;  // "shared", "exclusive", "range", "insert"
};

// How many requests wait now, and for how long.
struct WaitingNow {
  uint64_t count = 0;
  uint64_t longest_ms = 0;  // 0 if no request waits
};

// A cycle of waiting transactions that was broken, for SHOW ENGINE STATUS.
struct Deadlock {
  struct Member {
    LockInfo wait;  // blocking_transaction_id: the next member's id; for the last member, the first one's
    uint64_t locks = 0;
    bool upgrade = false;  // true: the member waits to upgrade a shared lock that it holds
    std::string user;      // the text from DescribeUser
  };
  std::vector<Member> members;  // empty: no deadlock so far
  uint64_t victim_id = 0;
  uint64_t found_us = 0;  // since 1970
};

// The locks of all transactions of one database. The Manager owns it, and it outlives all LockOwners.
// Threads: any; each function that gets a LockOwner, except kill(), is called by the one thread that
// uses that owner.
class LockTable {
 public:
  LockTable();
  ~LockTable();

  // Called before `waiter` starts to wait for `holder`, once per holder, with no internal mutex held. The
  // handler tells parallel replication of the wait (thd_rpl_deadlock_check).
  // THREADS: the waiter's.
  using BeforeWait = std::function<void(LockOwner *waiter, void *holder_user)>;
  void set_before_wait(BeforeWait callback);

  // Describes the user of an owner in a cycle. The owner keeps waiting during the call, so its user can be
  // read. The lock table holds internal mutexes during the call, so the callback must not call the lock
  // table, and must not wait for a mutex that a thread can hold while it calls the lock table. Set before the
  // first lock.
  using DescribeUser = std::function<std::string(void *user)>;
  void set_describe_user(DescribeUser callback);

  // Chooses the victim among two owners in a cycle: below 0, `user`; above 0, `other_user`; 0, no preference.
  // Both owners keep waiting during the call. THREADS: a waiter's, with internal mutexes held.
  using VictimPreference = std::function<int(void *user, void *other_user)>;
  void set_victim_preference(VictimPreference callback);

  // Takes or upgrades a lock. Sets *waited (may be nullptr) to true if the call waited: then other
  // transactions may have changed the row since the caller last read it.
  // Errors: kLockTimeout, kDeadlock (the caller rolls the whole transaction back), kInterrupted (kill()).
  Status lock(LockOwner *owner, const LockKey &key, LockMode mode, const LockWait &wait, bool *waited,
              LockUse use = LockUse::kRead);

  // An owner with more than `count` row locks exchanges them for row ranges, at most `ranges_max` for each
  // index and mode. Row locks for which another owner waits are not exchanged. count = 0: no owner exchanges
  // row locks. Can be called at any time.
  void set_row_locks_max(size_t count, size_t ranges_max = KeyRanges::kRangesMax);

  // Takes an exclusive lock on a key that was written by a transaction found prepared at open. Two such
  // transactions never wrote the same key, so this call ignores row ranges. Errors: kLockTimeout: another
  // owner has a row lock on the key.
  Status lock_recovered(LockOwner *owner, const LockKey &key);

  // True if `owner` has a row lock on `key` in `mode` or a stronger one. Does not find row locks that have
  // been exchanged for row ranges.
  bool holds(LockOwner *owner, const LockKey &key, LockMode mode) const;

  // Takes back one lock() of a row. The server asks for this (unlock_row) when a row did not match the
  // condition. The lock is released when every lock() of the row has been taken back. So a row stays locked
  // if another part of the statement, or an earlier statement, has locked it too. No effect on locks taken
  // before the last mark().
  void unlock(LockOwner *owner, const LockKey &key);
  // Makes all locks that the owner holds now immune to unlock(). Returns how many there are.
  size_t mark(LockOwner *owner) const;
  // True when any owner, the caller included, holds a range in the index of `key`, or in an index that shares
  // its slot. One atomic read, in one total order with lock_range(); Transaction::insert() needs this order.
  bool has_ranges(const LockKey &key) const;
  // Lets `narrow` cut [*lower, *upper) down to a range in which other owners have no uncommitted writes, then
  // locks that range. Never waits. Requires: both bounds in one index. `row`: the only key in the range that
  // has a row. The range also becomes a row range of this mode, and lock() then grants the key without a row
  // lock. It does not if an owner has a row lock on the key, or another owner a conflicting row range.
  using Narrow = std::function<void(std::string *lower, std::string *upper)>;
  void lock_range(LockOwner *owner, uint32_t family_id, std::string *lower, std::string *upper,
                  const Narrow &narrow, std::optional<RowInRange> row = {});
  // Waits until no other owner's range contains `key`, then calls `write` before any such range can be
  // granted. `narrow` and `write` run under a mutex of the index, so they must not call the lock table.
  // Errors: as lock(), and what `write` returns.
  Status lock_insert(LockOwner *owner, const LockKey &key, const LockWait &wait,
                     const std::function<Status()> &write);

  // Called when the owner is prepared, which takes no more locks: keep_written() for each key that it has
  // written, then release_rest() once, which releases all that `kept` does not name. For KeptLocks::kWritten,
  // keep_written() makes a row lock of a lock that has become part of a row range. Returns false if another
  // owner has a lock on the key; then the row ranges must stay (KeptLocks::kExclusive).
  bool keep_written(LockOwner *owner, const LockKey &key, KeptLocks kept);
  void release_rest(LockOwner *owner, KeptLocks kept);

  // Releases all locks and ranges of the owner. Returns when no other thread uses `owner` any more.
  void unlock_all(LockOwner *owner);

  // Makes the owner's current or next wait fail with kInterrupted. Any thread.
  void kill(LockOwner *owner);
  void clear_kill(LockOwner *owner);  // takes kill() back

  std::vector<LockInfo> list() const;  // all locks and waits of this moment
  uint64_t deadlocks() const;          // how many were broken since the start
  uint64_t waits() const;              // how many requests had to wait since the start
  uint64_t wait_us() const;            // how long all waits that have ended took together
  WaitingNow waiting_now() const;
  Deadlock last_deadlock() const;

  struct Impl;  // lock_table_impl.h

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace atoll::txn
