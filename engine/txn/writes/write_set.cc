// See write_set.h.

#include "txn/writes/write_set.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>

namespace atoll::txn {

namespace {

// The C library caches freed blocks of up to 1,032 bytes. Allocating and freeing such a block takes about a
// hundred instructions, a larger one hundreds. A transaction of one or two rows needs no larger block.
constexpr size_t kFirstBlockBytes = 1032;
constexpr size_t kLargestBlockBytes = 1 << 20;
constexpr size_t kRecordOverheadBytes = 16;  // of a WriteBatch record: tag, family, two lengths

}  // namespace

void *Arena::do_allocate(size_t bytes, size_t alignment) {
  size_t start = (used_ + alignment - 1) & ~(alignment - 1);
  if (blocks_.empty() || start + bytes > blocks_.back().size) {
    const size_t grown = blocks_.empty() ? kFirstBlockBytes : std::min(bytes_, kLargestBlockBytes);
    const size_t size = std::max(bytes, grown);
    blocks_.push_back({std::unique_ptr<char[]>(new char[size]), size});
    bytes_ += size;
    start = 0;  // new char[] is aligned for every type
  }
  used_ = start + bytes;
  return blocks_.back().memory.get() + start;
}

std::string_view Arena::copy(std::string_view bytes) {
  if (bytes.empty()) return "";  // not {}, so that the pointer is not null
  char *to = static_cast<char *>(allocate(bytes.size(), 1));
  std::memcpy(to, bytes.data(), bytes.size());
  return {to, bytes.size()};
}

void Arena::rewind(Mark mark) {
  while (blocks_.size() > mark.blocks) {
    bytes_ -= blocks_.back().size;
    blocks_.pop_back();
  }
  used_ = mark.used;
}

WriteSet::FamilyWrites *WriteSet::find_family(const lsm::Family *family) const {
  for (auto it = families_.rbegin(); it != families_.rend(); ++it) {
    if ((*it)->family == family) return it->get();
  }
  return nullptr;
}

WriteSet::FamilyWrites *WriteSet::family_writes(lsm::Family *family) {
  if (FamilyWrites *found = find_family(family); found != nullptr) return found;
  families_.push_back(std::make_unique<FamilyWrites>(family));
  return families_.back().get();
}

// True if a new write of the key can replace the newest version in place, because no savepoint and no cursor
// needs this version.
bool WriteSet::may_overwrite(const OwnWrite &newest) const {
  if (open_cursors_ > 0) return false;
  return savepoints_.empty() || newest.sequence >= savepoints_.back().sequence;
}

void WriteSet::set_value(OwnWrite *to, const NewWrite &write) {
  to->sequence = next_sequence_++;
  to->removed = write.removed;
  to->unique_length = static_cast<uint32_t>(write.unique_length);
  if (!write.removed && write.value.size() <= to->value_size && !write.value.empty()) {
    // Reuse the memory of the old value. value_size is above 0 here only if a version is overwritten.
    std::memmove(const_cast<char *>(to->value_bytes), write.value.data(), write.value.size());
  } else if (!write.removed) {
    to->value_bytes = arena_.copy(write.value).data();
  }
  to->value_size = write.removed ? 0 : static_cast<uint32_t>(write.value.size());
}

void WriteSet::write(lsm::Family *family, std::string_view key, const NewWrite &write) {
  FamilyWrites *writes = family_writes(family);
  const KeyIndex::Iterator place = writes->index.lower_bound(key);
  OwnKey *entry = place != writes->index.end() && place->key == key ? &*place : nullptr;
  ++write_count_;
  if (entry != nullptr && entry->newest != nullptr && may_overwrite(*entry->newest)) {
    set_value(entry->newest, write);
    return;
  }
  OwnWrite *version = new (arena_.allocate(sizeof(OwnWrite), alignof(OwnWrite))) OwnWrite;
  set_value(version, write);
  if (entry == nullptr) {
    entry = new (arena_.allocate(sizeof(OwnKey), alignof(OwnKey))) OwnKey{arena_.copy(key)};
    writes->index.insert(place, entry);
  }
  version->older = entry->newest;
  if (entry->newest == nullptr) ++keys_[family->side() == lsm::Side::kTemp];
  entry->newest = version;
  if (!savepoints_.empty()) log_.push_back({writes, entry});
}

const OwnWrite *WriteSet::find(const lsm::Family *family, std::string_view key) const {
  const FamilyWrites *writes = find_family(family);
  const OwnKey *entry = writes == nullptr ? nullptr : writes->index.find(key);
  return entry == nullptr ? nullptr : entry->newest;
}

size_t WriteSet::memory_bytes() const {
  size_t bytes = arena_.bytes() + log_.size() * sizeof(LogEntry);
  for (const auto &writes : families_) bytes += writes->index.memory_bytes();
  return bytes;
}

void WriteSet::forget(lsm::Side side) {
  std::erase_if(families_, [side](const auto &writes) { return writes->family->side() == side; });
  keys_[side == lsm::Side::kTemp] = 0;
  log_.clear();
  savepoints_.clear();
}

size_t WriteSet::batch_bytes(lsm::Side side) const {
  size_t bytes = kRecordOverheadBytes;
  each(side, [&](const lsm::Family *, std::string_view key, const OwnWrite &write) {
    bytes += key.size() + write.value_size + kRecordOverheadBytes;
  });
  return bytes;
}

void WriteSet::set_savepoint() {
  savepoints_.push_back({log_.size(), write_count_, next_sequence_, arena_.mark(), false});
}

void WriteSet::undo(const LogEntry &entry) {
  OwnWrite *&newest = entry.key->newest;
  newest = newest->older;
  if (newest != nullptr) return;
  --keys_[entry.family->family->side() == lsm::Side::kTemp];
  if (open_cursors_ == 0) entry.family->index.erase(entry.key->key);
}

void WriteSet::rollback_to_savepoint(size_t number) {
  if (number >= savepoints_.size()) return;
  savepoints_.resize(number + 1);
  Savepoint &savepoint = savepoints_.back();
  if (log_.size() == savepoint.log_size && write_count_ == savepoint.write_count) return;
  while (log_.size() > savepoint.log_size) {
    undo(log_.back());
    log_.pop_back();
  }
  write_count_ = savepoint.write_count;
  if (open_cursors_ == 0) {
    arena_.rewind(savepoint.arena);
    return;
  }
  // A cursor is open, so the keys that have no version any more stay in the index. A later rollback to one of
  // these savepoints must not free the memory of these keys. So all savepoints get a mark after this memory.
  for (Savepoint &kept : savepoints_) kept.arena = arena_.mark();
}

void WriteSet::release_savepoint(size_t number) {
  if (number >= savepoints_.size()) return;
  savepoints_.resize(number);
  drop_forgotten();
}

void WriteSet::forget_savepoint(size_t number) {
  if (number >= savepoints_.size()) return;
  savepoints_[number].forgotten = true;
  drop_forgotten();
}

void WriteSet::drop_forgotten() {
  while (!savepoints_.empty() && savepoints_.back().forgotten) savepoints_.pop_back();
  if (savepoints_.empty()) log_.clear();
}

std::shared_ptr<WriteSet> WriteSet::successor() const {
  auto next = std::make_shared<WriteSet>();
  for (const auto &writes : families_) next->add_family(writes->family);
  for (const Savepoint &savepoint : savepoints_) {
    next->savepoints_.push_back(
        {0, savepoint.write_count, savepoint.sequence, Arena::Mark(), savepoint.forgotten});
  }
  next->write_count_ = write_count_;
  next->first_sequence_ = next_sequence_;
  next->next_sequence_ = next_sequence_;
  return next;
}

std::vector<uint64_t> WriteSet::interval_ends() const {
  std::vector<uint64_t> ends;
  for (const Savepoint &savepoint : savepoints_) {
    if (savepoint.forgotten) continue;
    if (ends.empty() || ends.back() != savepoint.sequence) ends.push_back(savepoint.sequence);
  }
  ends.push_back(std::numeric_limits<uint64_t>::max());
  return ends;
}

WriteCursor::WriteCursor(std::shared_ptr<WriteSet> set, WriteSet::FamilyWrites *writes)
    : set_(std::move(set)),
      writes_(writes),
      before_sequence_(set_->open_cursor()),
      place_(writes->index.end()) {}

WriteCursor::~WriteCursor() {
  if (set_ != nullptr) set_->close_cursor();
}

const OwnWrite *WriteCursor::visible() const {
  const OwnWrite *write = place_->newest;
  while (write != nullptr && write->sequence >= before_sequence_) write = write->older;
  return write;
}

void WriteCursor::move_to(KeyIndex::Iterator place) {
  place_ = place;
  version_ = writes_->index.version();
}

void WriteCursor::settle_forward() {
  for (current_ = nullptr; place_ != writes_->index.end(); ++place_) {
    current_ = visible();
    if (current_ == nullptr) continue;
    entry_ = &*place_;
    return;
  }
}

void WriteCursor::step_back() {
  for (current_ = nullptr; place_ != writes_->index.begin();) {
    --place_;
    current_ = visible();
    if (current_ == nullptr) continue;
    entry_ = &*place_;
    return;
  }
}

void WriteCursor::seek(std::string_view key) {
  move_to(writes_->index.lower_bound(key));
  settle_forward();
}

void WriteCursor::seek_last(std::string_view key) {
  move_to(writes_->index.upper_bound(key));
  step_back();
}

void WriteCursor::seek_before(std::string_view key) {
  move_to(writes_->index.lower_bound(key));
  step_back();
}

void WriteCursor::to_first() {
  move_to(writes_->index.begin());
  settle_forward();
}

void WriteCursor::to_last() {
  move_to(writes_->index.end());
  step_back();
}

// Keys stay in the index while a cursor is open. So when the index has changed, the cursor finds its current
// key again by a search.
void WriteCursor::next() {
  if (version_ == writes_->index.version())
    ++place_;
  else
    move_to(writes_->index.upper_bound(entry_->key));
  settle_forward();
}

void WriteCursor::prev() {
  if (version_ != writes_->index.version()) move_to(writes_->index.lower_bound(entry_->key));
  step_back();
}

}  // namespace atoll::txn
