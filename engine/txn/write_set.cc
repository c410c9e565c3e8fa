// See write_set.h.

#include "txn/write_set.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>

namespace atoll::txn {

namespace {

constexpr size_t kFirstBlockBytes = 4 << 10;
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
  if (bytes.empty()) return "";  // not a null pointer
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
  families_.push_back(std::make_unique<FamilyWrites>(family, &arena_));
  return families_.back().get();
}

// The first entry >= key.
WriteSet::Index::iterator WriteSet::position(FamilyWrites *writes, std::string_view key) {
  if (writes->last != writes->index.end() && writes->last->first < key) {
    auto after = std::next(writes->last);
    if (after == writes->index.end() || key <= after->first) return after;
  }
  return writes->index.lower_bound(key);
}

// Without an older version that a savepoint or a cursor needs, the newest one is simply replaced.
bool WriteSet::may_overwrite(const OwnWrite &newest) const {
  if (open_cursors_ > 0) return false;
  return savepoints_.empty() || newest.sequence >= savepoints_.back().sequence;
}

void WriteSet::set_value(OwnWrite *to, const NewWrite &write) {
  to->sequence = next_sequence_++;
  to->removed = write.removed;
  to->unique_length = static_cast<uint16_t>(std::min<size_t>(write.unique_length, UINT16_MAX));
  if (!write.removed && write.value.size() <= to->value_size && !write.value.empty()) {
    // Reuses the place; only overwriting gets here with a size.
    std::memmove(const_cast<char *>(to->value_bytes), write.value.data(), write.value.size());
  } else if (!write.removed) {
    to->value_bytes = arena_.copy(write.value).data();
  }
  to->value_size = write.removed ? 0 : static_cast<uint32_t>(write.value.size());
}

void WriteSet::write(lsm::Family *family, std::string_view key, const NewWrite &write) {
  FamilyWrites *writes = family_writes(family);
  auto place = position(writes, key);
  const bool known = place != writes->index.end() && place->first == key;
  ++write_count_;
  if (known && place->second != nullptr && may_overwrite(*place->second)) {
    set_value(place->second, write);
    return;
  }
  OwnWrite *version = new (arena_.allocate(sizeof(OwnWrite), alignof(OwnWrite))) OwnWrite;
  set_value(version, write);
  if (!known) place = writes->index.emplace_hint(place, arena_.copy(key), nullptr);
  version->older = place->second;
  if (place->second == nullptr) ++keys_[family->side() == lsm::Side::kTemp];
  place->second = version;
  writes->last = place;
  if (!savepoints_.empty()) log_.push_back({writes, place});
}

const OwnWrite *WriteSet::find(const lsm::Family *family, std::string_view key) const {
  const FamilyWrites *writes = find_family(family);
  if (writes == nullptr) return nullptr;
  const auto it = writes->index.find(key);
  return it == writes->index.end() ? nullptr : it->second;
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
  savepoints_.push_back({log_.size(), write_count_, next_sequence_, arena_.mark()});
}

void WriteSet::undo(const LogEntry &entry) {
  OwnWrite *&newest = entry.place->second;
  newest = newest->older;
  if (newest != nullptr) return;
  --keys_[entry.family->family->side() == lsm::Side::kTemp];
  if (open_cursors_ > 0) return;
  if (entry.family->last == entry.place) entry.family->last = entry.family->index.end();
  entry.family->index.erase(entry.place);
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
  // Emptied entries stay in the index: no savepoint may cut their memory off.
  for (Savepoint &kept : savepoints_) kept.arena = arena_.mark();
}

void WriteSet::release_savepoint(size_t number) {
  if (number >= savepoints_.size()) return;
  savepoints_.resize(number);
  if (savepoints_.empty()) log_.clear();
}

std::shared_ptr<WriteSet> WriteSet::successor() const {
  auto next = std::make_shared<WriteSet>();
  for (const auto &writes : families_) next->add_family(writes->family);
  for (const Savepoint &savepoint : savepoints_) {
    next->savepoints_.push_back({0, savepoint.write_count, savepoint.sequence, Arena::Mark()});
  }
  next->write_count_ = write_count_;
  next->next_sequence_ = next_sequence_;
  return next;
}

std::vector<uint64_t> WriteSet::interval_ends() const {
  std::vector<uint64_t> ends;
  for (const Savepoint &savepoint : savepoints_) {
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
  const OwnWrite *write = place_->second;
  while (write != nullptr && write->sequence >= before_sequence_) write = write->older;
  return write;
}

void WriteCursor::settle_forward() {
  for (; place_ != writes_->index.end(); ++place_) {
    current_ = visible();
    if (current_ != nullptr) return;
  }
  current_ = nullptr;
}

void WriteCursor::step_back() {
  while (place_ != writes_->index.begin()) {
    --place_;
    current_ = visible();
    if (current_ != nullptr) return;
  }
  current_ = nullptr;
}

void WriteCursor::seek(std::string_view key) {
  place_ = writes_->index.lower_bound(key);
  settle_forward();
}

void WriteCursor::seek_last(std::string_view key) {
  place_ = writes_->index.upper_bound(key);
  step_back();
}

void WriteCursor::seek_before(std::string_view key) {
  place_ = writes_->index.lower_bound(key);
  step_back();
}

void WriteCursor::to_first() {
  place_ = writes_->index.begin();
  settle_forward();
}

void WriteCursor::to_last() {
  place_ = writes_->index.end();
  step_back();
}

void WriteCursor::next() {
  ++place_;
  settle_forward();
}

void WriteCursor::prev() { step_back(); }

}  // namespace atoll::txn
