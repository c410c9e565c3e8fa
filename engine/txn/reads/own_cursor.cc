// See own_cursor.h.

#include "txn/reads/own_cursor.h"

#include <utility>

namespace atoll::txn {

OwnCursor::OwnCursor(std::shared_ptr<WriteSet> set, WriteSet::FamilyWrites *writes,
                     std::shared_ptr<const Runs> runs, const lsm::Family *family, const ScanOptions &bounds)
    : kept_(std::move(runs)) {
  if (writes != nullptr) memory_.emplace(std::move(set), writes);
  if (kept_ == nullptr) return;
  for (auto run = kept_->rbegin(); run != kept_->rend(); ++run) {
    const SpilledRun::Part *part = (*run)->part_of(family);
    if (part == nullptr || part->last_key < bounds.lower) continue;
    if (!bounds.upper.empty() && part->first_key >= bounds.upper) continue;
    if (bounds.unique_start && !part->filter->may_have(bounds.lower)) continue;
    runs_.push_back(part->file->cursor());
  }
}

bool OwnCursor::valid_at(size_t source) const {
  return source == kMemory ? memory_.has_value() && memory_->valid() : runs_[source - 1]->valid();
}

Status OwnCursor::status() const {
  for (const auto &run : runs_) {
    if (!run->valid()) ATOLL_RETURN_IF_ERROR(run->status());
  }
  return Status::Ok();
}

// Makes the source current whose key comes first in the direction of the scan. If several sources have that
// key, takes the newest.
void OwnCursor::settle(bool forward) {
  current_ = valid_at(kMemory) ? kMemory : kNone;
  for (size_t source = 1; source < sources(); ++source) {
    if (!valid_at(source)) {
      if (!runs_[source - 1]->status().ok()) {
        current_ = kNone;
        return;
      }
      continue;
    }
    if (current_ == kNone) {
      current_ = source;
      continue;
    }
    const int order = key_of(source).compare(key_of(current_));
    if (forward ? order < 0 : order > 0) current_ = source;
  }
}

void OwnCursor::step_source(size_t source, bool forward) {
  if (source == kMemory)
    forward ? memory_->next() : memory_->prev();
  else
    forward ? runs_[source - 1]->next() : runs_[source - 1]->prev();
}

void OwnCursor::step(bool forward) {
  const std::string_view key = key_of(current_);
  for (size_t source = 0; source < sources(); ++source) {
    if (source != current_ && valid_at(source) && key_of(source) == key) step_source(source, forward);
  }
  step_source(current_, forward);
  settle(forward);
}

template <typename Move>
void OwnCursor::move_all(const Move &move, bool forward) {
  if (memory_.has_value()) move(&*memory_);
  for (const auto &run : runs_) move(run.get());
  settle(forward);
}

void OwnCursor::seek(std::string_view key) {
  move_all([key](auto *source) { source->seek(key); }, true);
}

void OwnCursor::seek_last(std::string_view key) {
  move_all([key](auto *source) { source->seek_last(key); }, false);
}

void OwnCursor::seek_before(std::string_view key) {
  move_all([key](auto *source) { source->seek_before(key); }, false);
}

void OwnCursor::to_first() {
  move_all([](auto *source) { source->to_first(); }, true);
}

void OwnCursor::to_last() {
  move_all([](auto *source) { source->to_last(); }, false);
}

}  // namespace atoll::txn
