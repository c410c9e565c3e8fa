// See merged_iterator.h.

#include "txn/reads/merged_iterator.h"

#include <utility>

namespace atoll::txn {

namespace {

std::string_view view(const rocksdb::Slice &slice) { return {slice.data(), slice.size()}; }

}  // namespace

MergedIterator::MergedIterator(std::unique_ptr<rocksdb::Iterator> base, OwnCursor own,
                               const CursorBounds *bounds, HeadSearch *heads)
    : base_(std::move(base)), own_(std::move(own)), bounds_(bounds), heads_(heads) {}

rocksdb::Status MergedIterator::status() const {
  if (!base_->status().ok()) return base_->status();
  const Status own = own_.status();
  if (own.code() == Code::kCorruption) return rocksdb::Status::Corruption(own.message());
  return own.ok() ? rocksdb::Status::OK() : rocksdb::Status::IOError(own.message());
}

bool MergedIterator::own_valid() const {
  return own_.valid() && own_.key() >= bounds_->lower &&
         (bounds_->upper.empty() || own_.key() < bounds_->upper);
}

std::string_view MergedIterator::base_key() const { return view(base_->key()); }

rocksdb::Slice MergedIterator::key() const {
  if (current_ == Current::kBase) return base_->key();
  const std::string_view key = own_.key();
  return {key.data(), key.size()};
}

rocksdb::Slice MergedIterator::value() const {
  if (current_ == Current::kBase) return base_->value();
  const std::string_view value = own_.value();
  return {value.data(), value.size()};
}

void MergedIterator::step_base() { forward_ ? base_->Next() : base_->Prev(); }

void MergedIterator::step_own() { forward_ ? own_.next() : own_.prev(); }

// Makes the side current whose key comes first in the direction of the scan. If both have the same key, the
// own write replaces the row of the database.
void MergedIterator::settle() {
  current_ = Current::kNone;
  equal_ = false;
  for (;;) {
    if (!base_->Valid() && !base_->status().ok()) return;
    if (!own_valid()) {
      if (!own_.valid() && !own_.status().ok()) return;
      if (base_->Valid()) current_ = Current::kBase;
      return;
    }
    const int order = base_->Valid() ? own_.key().compare(base_key()) : (forward_ ? -1 : 1);
    if (forward_ ? order > 0 : order < 0) {
      current_ = Current::kBase;
      return;
    }
    equal_ = order == 0;
    if (!own_.removed()) {
      current_ = Current::kOwn;
      return;
    }
    if (equal_) step_base();
    step_own();
    equal_ = false;
  }
}

void MergedIterator::SeekToFirst() {
  forward_ = true;
  base_->SeekToFirst();
  own_.seek(bounds_->lower);
  settle();
}

void MergedIterator::SeekToLast() {
  forward_ = false;
  base_->SeekToLast();
  if (bounds_->upper.empty())
    own_.to_last();
  else
    own_.seek_before(bounds_->upper);
  settle();
}

void MergedIterator::Seek(const rocksdb::Slice &target) {
  forward_ = true;
  heads_ == nullptr ? base_->Seek(target) : heads_->seek(base_.get(), target, *bounds_);
  own_.seek(view(target) < bounds_->lower ? std::string_view(bounds_->lower) : view(target));
  settle();
}

void MergedIterator::SeekForPrev(const rocksdb::Slice &target) {
  forward_ = false;
  base_->SeekForPrev(target);
  if (!bounds_->upper.empty() && view(target) >= bounds_->upper)
    own_.seek_before(bounds_->upper);
  else
    own_.seek_last(view(target));
  settle();
}

void MergedIterator::turn_forward() {
  const std::string at(view(key()));
  forward_ = true;
  base_->Seek(at);
  if (base_->Valid() && base_key() == at) base_->Next();
  own_.seek(at);
  if (own_.valid() && own_.key() == at) own_.next();
}

void MergedIterator::turn_backward() {
  const std::string at(view(key()));
  forward_ = false;
  base_->SeekForPrev(at);
  if (base_->Valid() && base_key() == at) base_->Prev();
  own_.seek_before(at);
}

void MergedIterator::Next() {
  if (!forward_) {
    turn_forward();
  } else {
    if (current_ == Current::kBase || equal_) step_base();
    if (current_ == Current::kOwn) step_own();
  }
  settle();
}

void MergedIterator::Prev() {
  if (forward_) {
    turn_backward();
  } else {
    if (current_ == Current::kBase || equal_) step_base();
    if (current_ == Current::kOwn) step_own();
  }
  settle();
}

}  // namespace atoll::txn
