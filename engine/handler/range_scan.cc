// ha_atoll: ranges read with locks, under REPEATABLE READ and SERIALIZABLE (docs/isolation.md).
//
// A scan locks the keys between one entry and the next before it trusts what its cursor shows there, and goes
// on doing so as it moves: nobody can insert behind it. In its way may be an entry that another transaction
// has written and not committed; the cursor does not show it. Its row is locked, so the scan waits for the
// row's lock as it does for every row, and looks again.
#include "handler/ha_atoll.h"

#include "handler/error_map.h"
#include "plugin/instance.h"

using atoll::Code;
using atoll::Status;
namespace ah = atoll::handler;
namespace txn = atoll::txn;

static_assert(txn::kIndexStartBytes == atoll::codec::kKeyStartLength);

namespace {

std::string after(std::string_view key) {
  std::string next(key);
  next.push_back('\0');
  return next;
}

}  // namespace

bool ha_atoll::protects_ranges() const {
  return locking() && !is_temporary() && session_->snapshot_is_shared_by_statements();
}

const ah::IndexLayout &ha_atoll::scanned_index() const {
  return active_index == MAX_KEY ? layout_->primary_index() : layout_->index(active_index);
}

// A scan begins at `from`: forward the first key it may return, backward the first that it may not.
void ha_atoll::start_protection(std::string_view from, bool forward) {
  protected_to_.assign(from);
  protect_forward_ = forward;
  protected_as_point_ = false;
}

// The scan goes on behind the row it returned last, which was read in another way or in the other direction.
void ha_atoll::resume_protection(bool forward) {
  if (cursor_positioned_ && forward == protect_forward_) return;
  start_protection(forward ? after(current_key_) : current_key_, forward);
}

// Only the server reads by the hash of a UNIQUE key of unlimited length, before it writes a row: to see
// whether there is another. Nobody may insert one until this transaction ends, whatever its isolation level.
bool ha_atoll::checks_long_unique() const {
  return locking() && active_index != MAX_KEY &&
         table->key_info[active_index].algorithm == HA_KEY_ALG_LONG_HASH;
}

// All parts of the active index, none of them NULL: a unique one has one row of that key at most.
bool ha_atoll::is_whole_key(const std::string &key, size_t parts) const {
  return parts == layout_->index(active_index).user_parts && !layout_->entry_has_null(active_index, key);
}

// All parts of a unique index, none of them NULL: there is one key to protect. Inserts lock the same key
// (check_unique_entry, or this for a hash), so who gets it has waited for them.
Status ha_atoll::protect_unique_key(const std::string &key, size_t parts) {
  const ah::IndexLayout &index = layout_->index(active_index);
  const bool is_unique = (protects_ranges() && index.unique) || checks_long_unique();
  if (!is_unique || !is_whole_key(key, parts)) return Status::Ok();
  const Status status = lock_row(key, lock_, nullptr);
  // SKIP LOCKED: the range is protected as any other.
  if (status.code() == Code::kLockTimeout && skip_locked_) return Status::Ok();
  protected_as_point_ = true;
  return status;
}

// The whole key of a unique index was locked and there is no row. Others may look for it as well: the lock
// becomes one on the range of this key, which keeps inserts away only. Where ranges are not protected nothing
// stays. A range that is not free (of big prepared transactions only the bounds are known) is not waited for.
void ha_atoll::leave_absent_key(const std::string &key) {
  if (is_temporary() || checks_long_unique()) return;
  if (protects_ranges()) {
    const std::string end = atoll::codec::key_after_prefix(key);
    if (!transaction()->lock_range(layout_->family(), key, end, true).entry.empty()) return;
  }
  atoll::plugin::instance()->transactions->locks()->unlock(transaction()->lock_owner(),
                                                           txn::LockKey{layout_->family()->id(), key});
  current_lock_is_new_ = false;
}

// The bounds of the next search, whatever it searches for.
void ha_atoll::give_bounds(const key_range *start, const key_range *end) {
  size_t parts = 0;
  range_bounds(active_index, start, end, &next_bounds_.lower, &next_bounds_.upper, &parts);
  has_next_bounds_ = true;
  range_end_ = next_bounds_.upper;
}

// The server tells both ends of a range here and in prepare_range_scan(). The cursor does not leave them:
// neither the server nor a pushed condition need compare rows with them.
int ha_atoll::read_range_first(const key_range *start, const key_range *end, bool is_equality, bool) {
  give_bounds(start, end);
  eq_range = is_equality;
  set_end_range(nullptr);
  range_key_part =
      table->key_info[active_index].key_part;  // a loose scan compares with the range's end itself
  const int error = start == nullptr
                        ? ha_index_first(table->record[0])
                        : ha_index_read_map(table->record[0], start->key, start->keypart_map, start->flag);
  return error == HA_ERR_KEY_NOT_FOUND ? HA_ERR_END_OF_FILE : error;
}

int ha_atoll::read_range_next() {
  return eq_range ? ha_index_next_same(table->record[0], nullptr, 0) : ha_index_next(table->record[0]);
}

// Before a range is read backwards.
int ha_atoll::prepare_range_scan(const key_range *start, const key_range *end) {
  give_bounds(start, end);
  return 0;
}

// How far keys must be protected before the cursor's next entry, or the end of the scan, can be trusted.
std::string ha_atoll::protection_goal(bool forward) const {
  if (cursor_->Valid()) {
    const std::string key = cursor_->key().ToString();
    return forward ? after(key) : key;
  }
  return forward ? bounds_.upper : bounds_.lower;
}

// Protects the keys up to the entry under the cursor, or up to the end of the scan. The cursor may stand on
// another entry afterwards. Returns 0 or the error of a wait.
int ha_atoll::protect_to_cursor(bool forward) {
  if (!protects_ranges() || protected_as_point_) return 0;
  const std::string start = protected_to_;
  std::string last_obstacle;
  for (;;) {
    const std::string goal = protection_goal(forward);
    if (forward ? goal <= protected_to_ : goal >= protected_to_) return 0;
    const txn::Transaction::Obstacle obstacle =
        forward ? transaction()->lock_range(layout_->family(), protected_to_, goal, true)
                : transaction()->lock_range(layout_->family(), goal, protected_to_, false);
    protected_to_ = obstacle.reached;
    if (!obstacle.entry.empty()) {
      bool waited = false;
      if (int error = wait_for_obstacle(obstacle.entry, goal, forward, &waited)) return error;
      if (!waited && obstacle.entry == last_obstacle)
        return fail(Status(Code::kBug, "a row was written by a transaction that has not locked it"));
      last_obstacle = obstacle.entry;
    }
    if (obstacle.entry.empty() && transaction()->commits_seen(layout_->family()) == cursor_commits_) return 0;
    // Entries may have come since the cursor was opened: look again from where this began.
    open_cursor(active_index == MAX_KEY);
    forward ? cursor_->Seek(start) : cursor_->SeekForPrev(start);
    if (!forward && cursor_->Valid() && cursor_->key() == rocksdb::Slice(start)) cursor_->Prev();
  }
}

// Waits for the transaction that wrote `entry` by locking the row. SKIP LOCKED goes past it instead.
int ha_atoll::wait_for_obstacle(const std::string &entry, const std::string &goal, bool forward,
                                bool *waited) {
  std::string row = entry;
  if (active_index != MAX_KEY && !layout_->is_primary(active_index))
    if (Status status = layout_->primary_of_entry(active_index, entry, &row); !status.ok())
      return fail(status);
  const Status status = lock_row(row, lock_, waited);
  if (status.ok()) return 0;
  if (status.code() != Code::kLockTimeout || !skip_locked_) return fail(status);
  *waited = true;
  const std::string behind = forward ? after(entry) : entry;
  // Of a big transaction only the bounds are known: the rest of this step stays open to it.
  const bool exact = protected_to_ == (forward ? entry : after(entry));
  protected_to_ = exact ? behind : goal;
  return 0;
}
