// See online_move.h.
#include "table/online/online_move.h"

#include <map>

namespace atoll::table {

Status OnlineMove::log_change(txn::Transaction *transaction, const RowImage &before, const RowImage &after) {
  const bool stays =
      before.record != nullptr && after.record != nullptr && *before.primary_key == *after.primary_key;
  if (before.record != nullptr && !stays)
    ATOLL_RETURN_IF_ERROR(
        append(transaction, {.put = false, .key = layout_->moved_key(*before.primary_key)}));
  if (after.record == nullptr) return Status::Ok();
  Change added{.put = true, .key = layout_->moved_key(*after.primary_key)};
  layout_->row().pack(after.record, &added.value);
  return append(transaction, added);
}

// Applies only the last change of each row, because it holds the whole row.
Status OnlineMove::apply(const std::vector<Change> &changes) {
  std::map<std::string_view, const Change *> last;  // by key
  for (const Change &change : changes) last[change.key] = &change;
  rocksdb::WriteBatch batch;
  for (const auto &[key, change] : last) ATOLL_RETURN_IF_ERROR(settle(change->key, change->value, &batch));
  return write_entries(&batch);
}

}  // namespace atoll::table
