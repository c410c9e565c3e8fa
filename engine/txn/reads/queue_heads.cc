// See queue_heads.h.
#include "txn/reads/queue_heads.h"

#include <algorithm>
#include <functional>

#include "base/mutant.h"
#include "txn/reads/cursor.h"
#include "txn/transaction_impl.h"

namespace atoll::txn {

namespace {

uint64_t hash_of(std::string_view key) {
  return std::hash<std::string_view>{}(key)*0x9E3779B97F4A7C15ull >> 32;
}

uint64_t target_bit(std::string_view target) { return uint64_t{1} << hash_of(target) % 64; }

}  // namespace

void QueueHeads::Place::note_targets() {
  uint64_t bits = 0;
  for (const Head &head : heads) bits |= target_bit(head.target);
  targets.store(bits);
}

bool QueueHeads::find(const lsm::Family *family, std::string_view target, uint64_t sequence,
                      std::string *from) {
  Place &place = place_of(family->id());
  const uint64_t targets = place.targets.load();
  if (targets == 0 || (targets & target_bit(target)) == 0) return false;
  MutexLock guard(place.mutex);
  for (Head &head : place.heads) {
    if (!head.is_confirmed || head.family != family || head.sequence > sequence || head.target != target)
      continue;
    head.unused_commits = 0;
    from->assign(head.key);
    return true;
  }
  return false;
}

bool QueueHeads::has_moved(const lsm::Family *family, std::string_view target, std::string_view found) {
  const uint64_t searched = hash_of(target) ^ family->id();
  const uint64_t now = searched << 32 | hash_of(found);
  std::atomic<uint64_t> &last = searches_[searched % searches_.size()];
  const uint64_t before = last.load(std::memory_order_relaxed);
  if (before != now) last.store(now, std::memory_order_relaxed);
  return before != now && before >> 32 == now >> 32;
}

uint64_t QueueHeads::enter(const lsm::Family *family, std::string_view target, std::string_view key,
                           uint64_t sequence) {
  Place &place = place_of(family->id());
  MutexLock guard(place.mutex);
  if (place.heads.size() >= kHeadsOfPlaceMax) place.heads.erase(place.heads.begin());
  const uint64_t id = place.next_id++;
  place.heads.push_back({id, family, std::string(target), std::string(key), sequence, false, 0});
  place.note_targets();
  return id;
}

void QueueHeads::confirm(const lsm::Family *family, uint64_t id, bool is_right) {
  Place &place = place_of(family->id());
  MutexLock guard(place.mutex);
  std::string target;
  for (Head &head : place.heads) {
    if (head.id != id) continue;
    head.is_confirmed = is_right;
    target = head.target;
  }
  std::erase_if(place.heads, [&](const Head &head) {
    if (head.id == id) return !is_right;
    return is_right && head.id < id && head.family == family && head.target == target;
  });
  place.note_targets();
}

void QueueHeads::note_commit(const TransactionImpl &transaction, uint32_t family_id) {
  Place &place = place_of(family_id);
  if (place.targets.load() == 0) return;
  MutexLock guard(place.mutex);
  FoundWrite found;
  std::erase_if(place.heads, [&](Head &head) {
    if (head.family->id() != family_id) return false;
    if (++head.unused_commits > kUnusedCommitsMax) return true;
    if (!transaction.find_write(head.family, head.target, head.key, true, &found)) return false;
    head.key = found.bound;
    return head.key == head.target;
  });
  place.note_targets();
}

void HeadSearch::note_view() {
  ended_ = manager_->activity()->of(family_->id()).ended.load();
  sequence_ = snapshot_ == nullptr ? family_->newest_sequence() : snapshot_->GetSequenceNumber();
}

void HeadSearch::seek(rocksdb::Iterator *entries, const rocksdb::Slice &target, const CursorBounds &bounds) {
  const std::string_view wanted = target.ToStringView();
  if (bounds.upper.empty() || wanted < bounds.lower || wanted >= bounds.upper ||
      is_mutant(Mutant::queue_heads))
    return entries->Seek(target);
  QueueHeads *const heads = manager_->queue_heads();
  const bool is_known = heads->find(family_, wanted, sequence_, &from_);
  entries->Seek(is_known ? rocksdb::Slice(from_) : target);
  if (!entries->Valid() && !entries->status().ok()) return;
  const std::string_view found = entries->Valid() ? entries->key().ToStringView() : bounds.upper;
  if (is_known ? found > from_ : heads->has_moved(family_, wanted, found)) enter_head(wanted, found);
}

// Enters a head, then looks whether a commit can have missed it (see the head of queue_heads.h). The order of
// these steps matters.
void HeadSearch::enter_head(std::string_view target, std::string_view key) {
  if (key <= target) return;
  QueueHeads *const heads = manager_->queue_heads();
  const uint64_t id = heads->enter(family_, target, key, family_->newest_sequence());
  std::string lower(target), upper(key), entry;
  const bool is_written = manager_->find_foreign_write(nullptr, family_, &lower, &upper, true, &entry);
  const bool none_ended =
      family_->newest_sequence() == sequence_ ||
      (snapshot_ == nullptr && manager_->activity()->of(family_->id()).ended.load() == ended_);
  heads->confirm(family_, id, none_ended && !is_written);
}

}  // namespace atoll::txn
