// See online_index_build.h.
#include "table/online/online_index_build.h"

#include <algorithm>
#include <utility>

#include "base/bytes.h"

namespace atoll::table {
namespace {

// The versions by which the codec of the altered table tells logged rows from its own. They are not stored
// anywhere else.
constexpr uint32_t kLogged = 1, kAltered = 2;

// Returns the columns of `row` from which entries of the new indexes are made.
std::vector<codec::Column> columns_of(const codec::RowCodec &row, const ColumnBytes &sources) {
  std::vector<codec::Column> columns;
  for (size_t i = 0; i < row.column_count(); i++)
    if (sources.contains(row.column(i).id)) columns.push_back(row.column(i));
  return columns;
}

}  // namespace

OnlineIndexBuild::OnlineIndexBuild(Plan plan, Writers writers, Resources resources, BuildView *view)
    : OnlineBuild(std::move(plan), std::move(resources), view),
      record_bytes_(writers.record_bytes),
      logged_(kLogged, columns_of(writers.layout.row(), view->sources())),
      altered_row_(kAltered, columns_of(layout_->row(), view->sources()), layout_->def().defaults) {
  altered_row_.add_past_version(kLogged, Layout::past_columns(logged_));
  for (size_t i = 0; i < logged_.column_count(); i++) {
    const codec::Column &column = logged_.column(i);
    const uint32_t bytes = view->sources().at(column.id);
    if (column.kind == codec::ColumnKind::kBlob && bytes != kWholeColumn)
      cuts_.push_back({column.record_offset, column.length_bytes, bytes});
  }
}

// Packs the columns that the new entries need. If entries need only a prefix of a BLOB, its length is cut in
// a copy of the record, so the log holds no more than the prefix.
void OnlineIndexBuild::pack(const uint8_t *record, std::string *out) const {
  if (cuts_.empty()) return logged_.pack(record, out);
  std::vector<uint8_t> copy(record, record + record_bytes_);
  for (const Cut &cut : cuts_) {
    uint8_t *length = copy.data() + cut.record_offset;
    const uint64_t bytes = std::min<uint64_t>(load_le_bytes(length, cut.length_bytes), cut.bytes_max);
    store_le_bytes(length, bytes, cut.length_bytes);
  }
  logged_.pack(copy.data(), out);
}

Status OnlineIndexBuild::log_change(txn::Transaction *transaction, const RowImage &before,
                                    const RowImage &after) {
  Change removed, added{true};
  if (before.record != nullptr) {
    removed.key = *before.primary_key;
    pack(before.record, &removed.value);
  }
  if (after.record != nullptr) {
    added.key = *after.primary_key;
    pack(after.record, &added.value);
  }
  if (before.record != nullptr && after.record != nullptr && removed.key == added.key &&
      removed.value == added.value)
    return Status::Ok();
  if (before.record != nullptr) ATOLL_RETURN_IF_ERROR(append(transaction, removed));
  return after.record != nullptr ? append(transaction, added) : Status::Ok();
}

Status OnlineIndexBuild::apply(const std::vector<Change> &changes) {
  rocksdb::WriteBatch batch;
  for (const Change &change : changes)
    ATOLL_RETURN_IF_ERROR(change_entries(altered_row_, change.value, change.key, change.put, &batch));
  return write_entries(&batch);
}

}  // namespace atoll::table
