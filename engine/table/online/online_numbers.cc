// See online_numbers.h.
#include "table/online/online_numbers.h"

#include <map>
#include <string_view>
#include <utility>

namespace atoll::table {
namespace {

// *id: the highest hidden id among the table's committed rows; 0: the table has no rows.
Status last_hidden_id(const Layout &layout, uint64_t *id) {
  std::string key;
  const Status status = outermost_key(layout, layout.primary_index(), true, &key);
  *id = key.empty() ? 0 : hidden_id_of(std::string_view(key).substr(codec::kKeyStartLength));
  return status;
}

}  // namespace

Status OnlineNumbers::log_change(txn::Transaction *transaction, const RowImage &before,
                                 const RowImage &after) {
  const bool stays =
      before.record != nullptr && after.record != nullptr && *before.primary_key == *after.primary_key;
  if (before.record != nullptr && !stays)
    ATOLL_RETURN_IF_ERROR(append(transaction, {.put = false, .key = *before.primary_key}));
  if (after.record == nullptr) return Status::Ok();
  Change added{.put = true, .key = *after.primary_key};
  layout_->row().pack(after.record, &added.value);
  return append(transaction, added);
}

// Applies only the last change of each row, because it holds the whole row. The first call also reads the
// highest number that the scan gave. It must do so before a row is removed, because later rows must not get a
// number to which another row has a claim.
Status OnlineNumbers::apply(const std::vector<Change> &changes) {
  if (!std::exchange(knows_last_number_, true))
    ATOLL_RETURN_IF_ERROR(last_hidden_id(*layout_, &last_number_));
  std::map<std::string_view, const Change *> last;  // by old key
  for (const Change &change : changes) last[change.key] = &change;
  rocksdb::WriteBatch batch;
  for (const auto &[old_key, change] : last) ATOLL_RETURN_IF_ERROR(apply_last(*change, &batch));
  return write_entries(&batch);
}

// The claim of a removed row is kept, because a row that is inserted later with the same old key takes its
// number.
Status OnlineNumbers::apply_last(const Change &change, rocksdb::WriteBatch *batch) {
  const std::string claim = source_.claim_to_number(change.key);
  std::string number;
  ATOLL_RETURN_IF_ERROR(get(claim, &number));
  if (number.empty()) {
    if (!change.put) return Status::Ok();
    append_hidden_id(++last_number_, &number);
    ATOLL_RETURN_IF_ERROR(lsm::from_rocksdb(batch->Put(layout_->family()->handle(), claim, number)));
  }
  return settle(layout_->primary_index().start + number, change.value, batch);
}

}  // namespace atoll::table
