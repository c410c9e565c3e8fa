// See server_view.h.
#include "handler/ha_atoll.h"

#include "handler/write/virtual_columns.h"

namespace atoll::handler {

using table::Verdict;

txn::Transaction *ServerView::transaction() { return h_.transaction(); }

bool ServerView::keeps_snapshot() const { return h_.session()->snapshot_is_shared_by_statements(); }

uint64_t ServerView::lock_wait_ms() const { return h_.session()->settings().lock_wait_timeout_s * 1000; }

bool ServerView::refuses_changed_rows() const { return h_.session()->settings().snapshot_isolation; }

bool ServerView::is_killed() const { return is_statement_killed(h_.thd()); }

uint8_t *ServerView::record() { return h_.get_table()->record[0]; }

// ---- Conditions ----------------------------------------------------------------------------------

Verdict ServerView::verdict_of(check_result_t result) {
  switch (result) {
    case CHECK_POS:
      return Verdict::kPasses;
    case CHECK_NEG:
      return Verdict::kRefused;
    case CHECK_OUT_OF_RANGE:
      return Verdict::kBehindRange;
    case CHECK_ABORTED_BY_USER:
      error_ = HA_ERR_ABORTED_BY_USER;
      return Verdict::kStop;
    default:
      error_ = HA_ERR_INTERNAL_ERROR;
      return Verdict::kStop;
  }
}

bool ServerView::has_entry_condition() const { return h_.pushed_idx_cond != nullptr; }

Verdict ServerView::check_entry() { return verdict_of(handler_index_cond_check(&h_)); }

bool ServerView::has_row_filter() const {
  return h_.pushed_rowid_filter != nullptr && h_.rowid_filter_is_active;
}

// The server's filter calls position() of the handler to get the reference of the row.
Verdict ServerView::check_row_filter() { return verdict_of(handler_rowid_filter_check(&h_)); }

void ServerView::set_condition(const COND *condition) {
  predicate_.reset();
  condition_ = condition;
}

const codec::Predicate *ServerView::predicate() {
  if (condition_ != nullptr && predicate_ == nullptr) {
    predicate_ = compile_condition(h_.get_table(), *h_.layout(), condition_);
    if (predicate_ == nullptr) condition_ = nullptr;
  }
  return predicate_.get();
}

// The row number in a warning ("at row N") also counts rows that a pushed condition has refused before the
// server saw them.
void ServerView::note_refused_row() { h_.thd()->get_stmt_da()->inc_current_row_for_warning(); }

// ---- Computing virtual columns in records --------------------------------------------------------

// Computes the virtual columns of the active index in two cases in which the server does not. When the server
// merges partitions by the columns of an index, it uses records other than record[0], in which it computes no
// virtual columns. In an index-only read, it expects that the entry has their values.
void ServerView::complete(uint8_t *record) {
  TABLE *table = h_.get_table();
  const bool is_other = record != table->record[0];
  if (!is_other && (!keyread_ || h_.locking())) return;
  const uint index = h_.active_index;
  if (index == MAX_KEY || !indexes_virtual_column(table, index)) return;
  if (is_other)
    compute_virtual_columns_of(table, record, index, index + 1);
  else
    handler::compute_virtual_columns(table, index);
}

bool ServerView::compute_virtual_columns(size_t index, uint8_t *record) {
  TABLE *table = h_.get_table();
  if (!indexes_virtual_column(table, index)) return true;
  if (record != table->record[0]) return false;
  handler::compute_virtual_columns(table, index);
  return true;
}

// Virtual columns can be computed only in record[0], so its content is saved and put back. The text of
// virtual columns is in buffers of the fields and not in the record, so it is computed again at the end.
Status ServerView::each_index_of(std::string_view packed, const Use &use) {
  TABLE *table = h_.get_table();
  const table::Layout &layout = *h_.layout();
  uchar *const record = table->record[0];
  const std::vector<uchar> saved(record, record + table->s->reclength);
  Status status = layout.row().unpack(packed, nullptr, record);
  for (size_t i = 0; status.ok() && i < layout.index_count(); i++) {
    if (layout.is_primary(i)) continue;
    handler::compute_virtual_columns(table, i);
    status = use(i, record);
  }
  memcpy(record, saved.data(), saved.size());
  for (size_t i = 0; i < layout.index_count(); i++) handler::compute_virtual_columns(table, i);
  return status;
}

}  // namespace atoll::handler
