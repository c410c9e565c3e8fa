// See bulk_copy.h.
#include "table/copy/bulk_copy.h"

#include <rocksdb/write_batch.h>

#include <algorithm>

#include "table/write/large_rows.h"

namespace atoll::table {

BulkCopy::BulkCopy(Target target, std::shared_ptr<const Layout> layout,
                   std::shared_ptr<lsm::SortBudget> budget)
    : target_(std::move(target)), layout_(std::move(layout)), budget_(std::move(budget)) {}

BulkCopy::~BulkCopy() { budget_->bytes_used -= small_bytes_; }

bool BulkCopy::is_small() const {
  return small_bytes_ < (budget_->bytes_left() > 0 ? kSmallTableBytes : kSmallTableBytesMin);
}

Status BulkCopy::add(const uint8_t *record) {
  ATOLL_RETURN_IF_ERROR(check_row_size(layout_->row(), record));
  const bool in_pieces = CutRow::is_needed(layout_->row(), record);
  if (in_pieces && !load_) ATOLL_RETURN_IF_ERROR(start_ingestion());
  const Layout &layout = *layout_;
  layout.primary_key(record, layout.hidden_primary() ? next_hidden_id_++ : 0, &primary_key_);
  ATOLL_RETURN_IF_ERROR(in_pieces ? add_pieces(record) : add_row(record));
  for (size_t i = 0; i < layout.index_count(); i++) {
    if (static_cast<int>(i) == layout.primary()) continue;
    bool has_null = false;
    layout.secondary_entry(i, record, primary_key_, &key_, &value_, &has_null);
    ATOLL_RETURN_IF_ERROR(add_entry(1 + i, key_, value_));
  }
  rows_++;
  // Ingestion starts only between two rows, because it changes the table's prefix, and all keys of one row
  // must have the same prefix.
  return load_ || is_small() ? Status::Ok() : start_ingestion();
}

Status BulkCopy::add_row(const uint8_t *record) {
  value_.clear();
  layout_->row().pack(record, &value_);
  return add_entry(0, primary_key_, value_);
}

Status BulkCopy::add_pieces(const uint8_t *record) {
  if (!pieces_stream_)
    pieces_stream_ = load_->add_stream(layout_->hidden_primary(), nullptr, lsm::StreamKind::kKnown);
  const CutRow row(layout_->row(), record);
  ATOLL_RETURN_IF_ERROR(add_entry(0, primary_key_, codec::encode(row.reference())));
  return row.each_piece(primary_key_, [this](std::string_view key, std::string_view piece) {
    return load_->add(*pieces_stream_, key, piece);
  });
}

Status BulkCopy::add_entry(size_t stream, std::string_view key, std::string_view value) {
  if (!load_) {
    small_.push_back({stream, std::string(key), std::string(value)});
    const size_t bytes = key.size() + value.size() + sizeof(Entry);
    small_bytes_ += bytes;
    budget_->bytes_used += bytes;
    return Status::Ok();
  }
  Status status = load_->add(streams_[stream], key, value);
  if (status.code() == Code::kDuplicate) note_duplicate(stream, key, value);
  return status;
}

// Called when the table is not small any more, or when a row in pieces comes. If the table is in the shared
// family, moves it to a family of its own, where each of its keys begins with prefix 0 instead of the table's
// prefix. Starts a bulk load, and gives it the entries that are in memory.
Status BulkCopy::start_ingestion() {
  if (!layout_->def().own_family) ATOLL_RETURN_IF_ERROR(target_.move_to_own_family(&layout_));
  load_ = target_.loads->bulk_load(layout_->family(), layout_->def().compression, budget_);
  open_streams();
  for (Entry &entry : small_) {
    entry.key.replace(0, 4, layout_->primary_index().start, 0, 4);
    Status status = load_->add(streams_[entry.stream], entry.key, entry.value);
    if (status.code() == Code::kDuplicate) note_duplicate(entry.stream, entry.key, entry.value);
    if (!status.ok()) return status;
  }
  std::vector<Entry>().swap(small_);
  budget_->bytes_used -= small_bytes_;
  small_bytes_ = 0;
  return Status::Ok();
}

void BulkCopy::open_streams() {
  streams_.assign(1 + layout_->index_count(), 0);
  // Rows without a primary key get ascending hidden ids, so their keys come in order. Other rows come in the
  // order of the source and must be sorted.
  const bool hidden = layout_->hidden_primary();
  streams_[0] = load_->add_stream(
      hidden, [](std::string_view key) { return key.size(); },
      hidden ? lsm::StreamKind::kKnown : lsm::StreamKind::kSought);
  for (size_t i = 0; i < layout_->index_count(); i++) {
    if (layout_->is_primary(i)) continue;
    lsm::BulkLoad::UniqueLength length;
    if (layout_->index(i).unique)
      length = [this, i](std::string_view key) { return layout_->unique_length(i, key); };
    streams_[1 + i] = load_->add_stream(false, length, lsm::StreamKind::kKnown);
  }
}

void BulkCopy::note_duplicate(size_t stream, std::string_view key, std::string_view value) {
  duplicate_index_ = stream == 0 ? layout_->primary() : static_cast<int>(stream) - 1;
  duplicate_is_row_ = stream == 0;
  duplicate_key_.assign(key);
  duplicate_value_.assign(value);
}

// Fills the record from which the message about a duplicate is made.
void BulkCopy::show_duplicate(uint8_t *record, std::string *value) {
  *value = duplicate_value_;
  const bool in_pieces = duplicate_is_row_ && codec::is_large_row(*value);  // then only its key is shown
  if (duplicate_is_row_ && !in_pieces) {
    (void)layout_->row().unpack(*value, nullptr, record);
  } else if (duplicate_index_ >= 0 && duplicate_key_.size() > codec::kKeyStartLength) {
    const std::string_view parts = std::string_view(duplicate_key_).substr(codec::kKeyStartLength);
    (void)layout_->index(static_cast<size_t>(duplicate_index_))
        .codec->decode(parts, in_pieces ? std::string_view() : *value, record);
  }
}

Status BulkCopy::write_small() {
  std::sort(small_.begin(), small_.end(), [](const Entry &a, const Entry &b) {
    return a.stream != b.stream ? a.stream < b.stream : a.key < b.key;
  });
  rocksdb::WriteBatch batch;
  const Entry *last = nullptr;
  for (const Entry &entry : small_) {
    if (last != nullptr && last->stream == entry.stream) {
      const bool rows = entry.stream == 0;
      const bool unique = rows || layout_->index(entry.stream - 1).unique;
      const size_t length = !unique ? 0
                            : rows  ? entry.key.size()
                                    : layout_->unique_length(entry.stream - 1, entry.key);
      if (length != 0 && last->key.compare(0, length, entry.key, 0, length) == 0 &&
          last->key.size() >= length) {
        note_duplicate(entry.stream, entry.key, entry.value);
        return Status(Code::kDuplicate, "");
      }
    }
    last = &entry;
    rocksdb::Status put = batch.Put(layout_->family()->handle(), entry.key, entry.value);
    if (!put.ok()) return lsm::from_rocksdb(put);
  }
  if (small_.empty()) return Status::Ok();
  rocksdb::WriteOptions options;
  options.sync = target_.is_synced();
  const SharedLock gate(*target_.rows->commit_gate());
  return lsm::from_rocksdb(target_.rows->write(layout_->family()->side(), options, &batch));
}

Status BulkCopy::finish(const std::function<bool(double)> &progress, std::shared_ptr<const Layout> *layout) {
  Status status = load_ ? load_->finish(progress) : write_small();
  if (load_ && status.code() == Code::kDuplicate) {
    for (size_t i = 0; i < streams_.size(); i++)
      if (streams_[i] == load_->duplicate_stream() && (i == 0 || !layout_->is_primary(i - 1)))
        note_duplicate(i, load_->duplicate_key(), load_->duplicate_value());
  }
  load_.reset();
  *layout = layout_;
  return status;
}

}  // namespace atoll::table
