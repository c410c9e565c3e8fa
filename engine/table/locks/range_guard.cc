// See range_guard.h.
#include "table/locks/range_guard.h"

#include <optional>

namespace atoll::table {

static_assert(txn::kIndexStartBytes == codec::kKeyStartLength);

std::string next_key(std::string_view key) {
  std::string next(key);
  next.push_back('\0');
  return next;
}

void RangeGuard::start(std::string_view from, bool forward, bool at_once) {
  reached_.assign(from);
  calls_ = 0;
  is_forward_ = forward;
  is_at_once_ = at_once;
  kind_ = Kind::kRange;
}

void RangeGuard::resume_at(const std::string &last, bool forward) {
  start(forward ? next_key(last) : last, forward);
}

Status RangeGuard::protect_point(const IndexLayout &index, const std::string &key) {
  if (!(table_.protects_ranges() && index.unique) && !checks_long_unique(index)) return Status::Ok();
  const Status status = locks_.lock(key, table_.mode().lock, nullptr);
  // With SKIP LOCKED the scan does not wait for the lock of the key. It locks a range, as other scans do.
  if (status.code() == Code::kLockTimeout && table_.mode().skip_locked) return Status::Ok();
  kind_ = Kind::kPoint;
  return status;
}

// The range cannot be locked if another transaction may have written into it, for example a big prepared
// transaction, of whose writes only the bounds are known. This function does not wait for that transaction.
// It keeps the row lock instead.
void RangeGuard::leave_absent(const IndexLayout &index, const std::string &key) {
  if (table_.is_temporary() || checks_long_unique(index)) return;
  if (table_.protects_ranges()) {
    const std::string end = codec::key_after_prefix(key);
    if (!table_.transaction()->lock_range(table_.family(), key, end, true).entry.empty()) return;
  }
  locks_.release(key);
}

namespace {

// Returns the key up to which the scan must lock the range before it uses the entry under the cursor, or, if
// there is no such entry, before it ends.
std::string goal_of(const EntryCursor &entries, const RangeGuard::Scan &scan) {
  if (!entries.valid()) return scan.forward ? scan.bounds.upper : scan.bounds.lower;
  return scan.forward ? next_key(entries.key()) : std::string(entries.key());
}

}  // namespace

Status RangeGuard::protect_to(EntryCursor *entries, const Scan &scan) {
  if (is_point() || !table_.protects_ranges()) return Status::Ok();
  if (is_at_once_ && reached_ == scan.bounds.upper) return Status::Ok();
  txn::Transaction *transaction = table_.transaction();
  const std::string start = reached_;
  const bool with_rows = ++calls_ > kRowLocksMax && scan.secondary < 0 && !table_.mode().skip_locked;
  std::string last_obstacle;
  for (;;) {
    const std::string goal = is_at_once_ ? scan.bounds.upper : goal_of(*entries, scan);
    if (scan.forward ? goal <= reached_ : goal >= reached_) return Status::Ok();
    std::optional<txn::RowInRange> row;
    if (with_rows && entries->valid()) row = {RowLocks::mode_of(table_.mode().lock), entries->key()};
    const txn::Transaction::Obstacle obstacle =
        scan.forward ? transaction->lock_range(table_.family(), reached_, goal, true, row)
                     : transaction->lock_range(table_.family(), goal, reached_, false, row);
    reached_ = obstacle.reached;
    if (!obstacle.entry.empty()) {
      bool waited = false;
      ATOLL_RETURN_IF_ERROR(wait_for(obstacle.entry, goal, scan, &waited));
      if (!waited && obstacle.entry == last_obstacle)
        return Status(Code::kBug, "a row was written by a transaction that has not locked it");
      last_obstacle = obstacle.entry;
    }
    if (obstacle.entry.empty() && entries->has_seen_all_commits()) return Status::Ok();
    // Other transactions may have committed entries since the cursor was opened, so the search is
    // repeated from the point where this call began.
    entries->open(scan.bounds, scan.is_whole_table);
    entries->seek_start(start, scan.forward);
  }
}

// Waits for the transaction that wrote `entry`, by locking the row of the entry. With SKIP LOCKED the scan
// skips the entry instead.
Status RangeGuard::wait_for(const std::string &entry, const std::string &goal, const Scan &scan,
                            bool *waited) {
  std::string row = entry;
  if (scan.secondary >= 0)
    ATOLL_RETURN_IF_ERROR(table_.layout().primary_of_entry(static_cast<size_t>(scan.secondary), entry, &row));
  const Status status = locks_.lock(row, table_.mode().lock, waited);
  if (status.code() != Code::kLockTimeout || !table_.mode().skip_locked) return status;
  *waited = true;
  const std::string behind = scan.forward ? next_key(entry) : entry;
  // Of a big prepared transaction only the bounds of its writes are known, so `entry` is not exact. Then the
  // scan skips all keys up to `goal` without a lock on them.
  const bool is_exact = reached_ == (scan.forward ? entry : next_key(entry));
  reached_ = is_exact ? behind : goal;
  return Status::Ok();
}

}  // namespace atoll::table
