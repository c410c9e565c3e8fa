// See row_diff.h.

#include "visitor/row_diff.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "lsm/past/changed_keys.h"
#include "visitor/stored_entries.h"

namespace atoll::visitor {
namespace {

constexpr size_t kBatchKeys = 32;  // a value has at most 4 MiB, so a batch of both states at most 256 MiB

Status compare_all(StoredEntries *before, StoredEntries *after, RowCounts *counts) {
  while (before->valid() || after->valid()) {
    if (counts->keys_read++ % kKeysPerQuestion == 0) ATOLL_RETURN_IF_ERROR(check_interrupt());
    int order = before->valid() ? -1 : 1;
    if (before->valid() && after->valid()) order = before->key().compare(after->key());
    if (order < 0) counts->deleted++;
    if (order > 0) counts->inserted++;
    if (order == 0 && before->value() != after->value()) counts->changed++;
    if (order <= 0) before->next();
    if (order >= 0) after->next();
  }
  ATOLL_RETURN_IF_ERROR(before->status());
  return after->status();
}

// The values of up to kBatchKeys keys in one state.
class Values {
 public:
  // Requires: `keys` are ascending. Errors: as a read. A key that has no value is not an error.
  Status read(const lsm::Family *family, const std::vector<std::string> &keys) {
    std::array<rocksdb::Slice, kBatchKeys> slices;
    std::copy(keys.begin(), keys.end(), slices.begin());
    for (rocksdb::PinnableSlice &value : values_) value.Reset();
    rocksdb::ReadOptions options;
    options.total_order_seek = true;
    family->multi_get(options, keys.size(), slices.data(), values_.data(), statuses_.data());
    for (size_t i = 0; i < keys.size(); i++)
      if (!statuses_[i].ok() && !statuses_[i].IsNotFound()) return lsm::from_rocksdb(statuses_[i]);
    return Status::Ok();
  }
  bool has(size_t i) const { return statuses_[i].ok(); }
  std::string_view operator[](size_t i) const { return values_[i].ToStringView(); }

 private:
  std::array<rocksdb::PinnableSlice, kBatchKeys> values_;
  std::array<rocksdb::Status, kBatchKeys> statuses_;
};

void count(const Values &before, const Values &after, size_t keys, RowCounts *counts) {
  counts->keys_read += keys;
  for (size_t i = 0; i < keys; i++) {
    if (before.has(i) && !after.has(i)) counts->deleted++;
    if (!before.has(i) && after.has(i)) counts->inserted++;
    if (before.has(i) && after.has(i) && before[i] != after[i]) counts->changed++;
  }
}

Status compare_changed(const lsm::FamilyThen &first, const lsm::FamilyThen &second, const Range &rows,
                       RowCounts *counts) {
  lsm::ChangedKeys changed(first, second, rows.begin, rows.end);
  Values before, after;
  std::vector<std::string> keys;
  std::string key;
  do {
    ATOLL_RETURN_IF_ERROR(changed.next(&key));
    if (!key.empty()) keys.push_back(key);
    if (keys.size() < kBatchKeys && !key.empty()) continue;
    ATOLL_RETURN_IF_ERROR(check_interrupt());
    ATOLL_RETURN_IF_ERROR(before.read(first.family, keys));
    ATOLL_RETURN_IF_ERROR(after.read(second.family, keys));
    count(before, after, keys.size(), counts);
    keys.clear();
  } while (!key.empty());
  return Status::Ok();
}

bool has_same_place(const catalog::TableDef *before, const catalog::TableDef *after) {
  if (before == nullptr || after == nullptr || before->id != after->id) return false;
  const Range one = rows_of(*before), other = rows_of(*after);
  return one == other;
}

}  // namespace

Status RowDiff::compare(const catalog::TableDef *before, const catalog::TableDef *after, RowCounts *out) {
  *out = {};
  if (!has_same_place(before, after)) {
    StoredEntries first, second;
    if (before != nullptr) ATOLL_RETURN_IF_ERROR(first.open(first_, *before, rows_of(*before)));
    if (after != nullptr) ATOLL_RETURN_IF_ERROR(second.open(second_, *after, rows_of(*after)));
    return compare_all(&first, &second, out);
  }
  lsm::FamilyThen first{first_, nullptr}, second{second_, nullptr};
  ATOLL_RETURN_IF_ERROR(find_family(first_, *before, &first.family));
  ATOLL_RETURN_IF_ERROR(find_family(second_, *after, &second.family));
  return compare_changed(first, second, rows_of(*before), out);
}

}  // namespace atoll::visitor
