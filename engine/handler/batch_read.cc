// ha_atoll: rows found by an index, looked up many at a time (row_batch.h).
#include <algorithm>

#include "handler/error_map.h"
#include "handler/ha_atoll.h"

using atoll::Code;
using atoll::Status;
namespace ah = atoll::handler;

// How many rows the statement wants at first: all that an exact search finds, unless it may stop early, as it
// does in a subquery or with LIMIT. LIMIT says how many if the statement reads this table only.
size_t ha_atoll::rows_wanted(bool is_exact) const {
  SELECT_LEX *select = ha_thd()->lex->current_select;
  if (select == nullptr || select->master_unit()->item != nullptr) return 1;
  if (!select->limit_params.explicit_limit) return is_exact ? ah::RowBatch::kRowsMax : 1;
  if (select->leaf_tables.elements > 1) return 1;
  return std::clamp<ha_rows>(select->master_unit()->lim.get_select_limit(), 1, ah::RowBatch::kRowsMax);
}

// A plain read through a secondary index that must look up rows goes by batches. After a batch the cursor
// stands on the first entry not in it.
bool ha_atoll::batching() const {
  return !locking() && active_index != MAX_KEY && !layout_->is_primary(active_index) && !entries_suffice_;
}

// Adds what the entry under the cursor stands for to the batch, unless a pushed condition or filter refuses
// it.
int ha_atoll::add_to_batch() {
  const std::string_view key(cursor_->key().data(), cursor_->key().size());
  const bool filtered = filters_rowids();
  if (pushed_idx_cond != nullptr || filtered) {
    const std::string_view value(cursor_->value().data(), cursor_->value().size());
    if (int error = decode_entry(key, value, table->record[0])) return error;
  }
  if (pushed_idx_cond != nullptr) {
    const int verdict = check_pushed_index_condition();
    if (verdict == HA_ERR_KEY_NOT_FOUND) return 0;
    if (verdict) return verdict;
  }
  std::string primary_key;
  if (Status status = layout_->primary_of_entry(active_index, key, &primary_key); !status.ok())
    return fail(status);
  if (filtered) {
    const int verdict = check_pushed_rowid_filter(primary_key);
    if (verdict == HA_ERR_KEY_NOT_FOUND) return 0;
    if (verdict) return verdict;
  }
  batch_.entry_keys.emplace_back(key);
  batch_.primary_keys.push_back(std::move(primary_key));
  return 0;
}

int ha_atoll::gather_batch(bool forward) {
  for (; cursor_->Valid() && batch_.entry_keys.size() < batch_.want;
       forward ? cursor_->Next() : cursor_->Prev()) {
    if (killed()) return HA_ERR_ABORTED_BY_USER;
    const int error = add_to_batch();
    batch_.ended = error == HA_ERR_END_OF_FILE;
    if (error) return batch_.ended ? 0 : error;
  }
  if (cursor_->Valid()) return 0;
  if (!cursor_->status().ok()) return fail(atoll::lsm::from_rocksdb(cursor_->status()));
  batch_.ended = true;
  return 0;
}

// Reads the rows of the batch in one go. HA_ERR_END_OF_FILE: it has none.
int ha_atoll::look_up_batch() {
  if (batch_.primary_keys.empty()) return HA_ERR_END_OF_FILE;
  const std::vector<rocksdb::Slice> keys(batch_.primary_keys.begin(), batch_.primary_keys.end());
  batch_.unread =
      transaction()->multi_get(layout_->family(), keys, read_at(), &batch_.rows, &batch_.statuses);
  batch_.grow();
  return 0;
}

// Gathers entries under the cursor, looks up their rows in one go, and delivers the first.
int ha_atoll::read_batch(uchar *record, bool forward) {
  batch_forward_ = forward;
  batch_started_ = true;
  for (;;) {
    batch_.clear();
    if (int error = gather_batch(forward)) return error;
    if (int error = look_up_batch()) return error;
    const int error = next_from_batch(record);
    if (error != HA_ERR_KEY_NOT_FOUND) return error;
    if (batch_.ended) return HA_ERR_END_OF_FILE;
  }
}

// The row at position `i`, read now if it was too much for the batch. Ends the life of the row before it.
Status ha_atoll::batch_row(size_t i) {
  if (i > 0) batch_.rows[i - 1].Reset();
  if (batch_.next_unread == batch_.unread.size() || batch_.unread[batch_.next_unread] != i)
    return batch_.statuses[i];
  ++batch_.next_unread;
  return transaction()->get(layout_->family(), batch_.primary_keys[i], read_at(), &batch_.rows[i]);
}

// The next row of the batch that is there and passes. HA_ERR_KEY_NOT_FOUND: none left in the batch (only seen
// by read_batch, which then gathers more; step() asks the cursor for more as well).
int ha_atoll::next_from_batch(uchar *record) {
  while (!batch_.empty()) {
    const size_t i = batch_.next++;
    const Status status = batch_row(i);
    if (status.code() == Code::kNotFound) continue;
    if (!status.ok()) return fail(status);
    const std::string_view packed(batch_.rows[i].data(), batch_.rows[i].size());
    int error = 0;
    if (may_refuse_row() && !passes_predicate(batch_.primary_keys[i], packed, &error)) {
      if (error) return error;
      continue;
    }
    current_key_ = batch_.entry_keys[i];
    current_primary_key_ = batch_.primary_keys[i];
    return unpack_row(packed, record);
  }
  return HA_ERR_KEY_NOT_FOUND;
}
