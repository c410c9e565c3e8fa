// See index_build.h.
#include "table/build/index_build.h"

#include <algorithm>

#include "table/write/large_rows.h"

namespace atoll::table {
namespace {

// Each thread of the scan sorts entries of each index, and needs at least this much memory for each index. So
// the memory for sorting limits the number of threads.
constexpr uint64_t kSortBytesMin = 1 << 20;

}  // namespace

IndexBuild::IndexBuild(Plan plan, Resources resources, BuildView *view)
    : plan_(std::move(plan)),
      resources_(std::move(resources)),
      view_(*view),
      layout_(*plan_.layout),
      has_virtual_(view->has_virtual()) {}

// Opens the load's streams of rows, of pieces of large rows, and of claims (rekey_source.h). `true` means
// that the keys come in ascending order, so that the load need not sort them. Rows that move to another
// family keep their order. Rows that get hidden ids come in the order of these ids, and their claims in the
// order of the old keys, which is the scan's order. Rows under a new primary key must be sorted.
void IndexBuild::open_row_streams() {
  if (moves()) {
    const bool numbered = layout_.hidden_primary();
    rows_stream_ =
        load_->add_stream(true, nullptr, numbered ? lsm::StreamKind::kKnown : lsm::StreamKind::kSought);
    pieces_stream_ = load_->add_stream(true, nullptr, lsm::StreamKind::kKnown);
  } else if (layout_.hidden_primary()) {
    rows_stream_ = load_->add_stream(true, nullptr, lsm::StreamKind::kKnown);
    claims_stream_ = load_->add_stream(true, nullptr, lsm::StreamKind::kSought);
  } else {
    rows_stream_ = load_->add_stream(false, [](std::string_view key) { return key.size(); });
    claims_stream_ = load_->add_stream(false, nullptr, lsm::StreamKind::kKnown);
  }
}

void IndexBuild::open_streams() {
  const size_t adders = encoders_.size();
  if (writes_rows()) open_row_streams();
  for (const size_t i : plan_.indexes) {
    if (is_primary(i)) {
      streams_.push_back(rows_stream_);
      continue;
    }
    lsm::BulkLoad::UniqueLength length;
    if (layout_.index(i).unique)
      length = [this, i](std::string_view key) { return layout_.unique_length(i, key); };
    streams_.push_back(load_->add_stream(false, length, lsm::StreamKind::kKnown, adders));
  }
}

// Adds the row under its new key, and the claim, which says that the row under `old_key` has that new key
// (rekey_source.h).
Status IndexBuild::add_rekeyed(Encoder *encoder, const uint8_t *record, std::string_view old_key) {
  const bool numbered = layout_.hidden_primary();
  std::string &key = encoder->primary_key;
  layout_.primary_key(record, numbered ? ++numbered_rows_ : 0, &key);
  encoder->entry_value.clear();
  layout_.row().pack(record, &encoder->entry_value);
  ATOLL_RETURN_IF_ERROR(load_->add(rows_stream_, key, encoder->entry_value));
  if (!numbered) return load_->add(claims_stream_, plan_.rekey->claim(key, old_key), {});
  const std::string_view number = std::string_view(key).substr(codec::kKeyStartLength);
  return load_->add(claims_stream_, plan_.rekey->claim_to_number(old_key), number);
}

// Adds a row that moves to another family. Refuses it if its values give another key than the one it is
// stored under. This happens when the order of a collation differs from the order of the server that wrote
// the row. Such rows would have to be sorted again, which ALGORITHM=COPY does.
Status IndexBuild::add_moved(Encoder *encoder, const uint8_t *record, std::string_view old_key) {
  std::string &key = encoder->primary_key;
  if (layout_.hidden_primary())
    key = layout_.moved_key(old_key);
  else
    layout_.primary_key(record, 0, &key);
  if (std::string_view(key).substr(codec::kKeyPrefixLength) != old_key.substr(codec::kKeyPrefixLength))
    return Status(Code::kInvalid,
                  "a stored row has another key than this server computes for it; use ALGORITHM=COPY");
  if (!CutRow::is_needed(layout_.row(), record)) {
    encoder->entry_value.clear();
    layout_.row().pack(record, &encoder->entry_value);
    return load_->add(rows_stream_, key, encoder->entry_value);
  }
  const CutRow row(layout_.row(), record);
  ATOLL_RETURN_IF_ERROR(load_->add(rows_stream_, key, codec::encode(row.reference())));
  return row.each_piece(key, [this](std::string_view piece_key, std::string_view piece) {
    return load_->add(pieces_stream_, piece_key, piece);
  });
}

Status IndexBuild::add_stored(Encoder *encoder, std::string_view key, std::string_view stored) {
  if (!codec::is_large_row(stored)) return add_row(encoder, key, stored);
  MutexLock guard(large_row_mutex_);
  std::string_view row;
  ATOLL_RETURN_IF_ERROR(whole_row_at(*plan_.source, plan_.snapshot, key, stored, &large_row_, &row));
  return add_row(encoder, key, row);
}

Status IndexBuild::add_row(Encoder *encoder, std::string_view key, std::string_view row) {
  uint8_t *record = has_virtual_ ? view_.record() : encoder->record.data();
  ATOLL_RETURN_IF_ERROR(layout_.row().unpack(row, nullptr, record));
  if (has_virtual_) ATOLL_RETURN_IF_ERROR(view_.compute());
  encoder->primary_key.assign(key);
  if (plan_.rekey != nullptr) ATOLL_RETURN_IF_ERROR(add_rekeyed(encoder, record, key));
  if (moves()) ATOLL_RETURN_IF_ERROR(add_moved(encoder, record, key));
  for (size_t i = 0; i < plan_.indexes.size(); i++) {
    if (is_primary(plan_.indexes[i])) continue;
    bool has_null = false;
    layout_.secondary_entry(plan_.indexes[i], record, encoder->primary_key, &encoder->entry_key,
                            &encoder->entry_value, &has_null);
    ATOLL_RETURN_IF_ERROR(load_->add(streams_[i], encoder->entry_key, encoder->entry_value, encoder->adder));
  }
  return Status::Ok();
}

ParallelScan::Request IndexBuild::all_rows() const {
  ParallelScan::Request request;
  request.family = plan_.source->family();
  request.snapshot = plan_.snapshot;
  request.begin = plan_.source->primary_index().start;
  request.end = plan_.source->primary_index().end;
  const uint64_t sorts_max = resources_.sort_memory_bytes / kSortBytesMin;
  request.threads =
      std::clamp<size_t>(sorts_max / std::max<size_t>(1, plan_.indexes.size()), 1, resources_.scan_threads);
  request.splits =
      resources_.figures->split(plan_.source->family(), request.begin, request.end, request.threads * 8);
  request.row = &layout_.row();
  return request;
}

Status IndexBuild::scan_by_threads(ParallelScan *rows) {
  for (bool end = false; !end;) {
    ATOLL_RETURN_IF_ERROR(rows->wait(&end));
    if (!end && view_.is_unwanted()) return Status(Code::kInterrupted, "");
  }
  return Status::Ok();
}

Status IndexBuild::scan_here(ParallelScan *rows) {
  for (uint64_t count = 1;; count++) {
    std::string_view key, row;
    bool end = false, waiting = false;
    ATOLL_RETURN_IF_ERROR(rows->next(&key, &row, &end, &waiting));
    if (end) return Status::Ok();
    if ((waiting || (count & 0xFFF) == 0) && view_.is_unwanted()) return Status(Code::kInterrupted, "");
    if (!waiting) ATOLL_RETURN_IF_ERROR(add_stored(encoders_.data(), key, row));
  }
}

Status IndexBuild::scan() {
  ParallelScan::Request request = all_rows();
  const bool by_threads = !has_virtual_ && !writes_rows();
  if (by_threads)
    request.take = [this](size_t thread, std::string_view key, std::string_view stored) {
      return add_stored(&encoders_[thread], key, stored);
    };
  encoders_ = std::vector<Encoder>(by_threads ? ParallelScan::thread_count(request) : 1);
  for (size_t i = 0; i < encoders_.size(); i++) {
    encoders_[i].adder = i;
    encoders_[i].record.resize(view_.record_bytes());
  }
  open_streams();
  ParallelScan rows(std::move(request));
  return by_threads ? scan_by_threads(&rows) : scan_here(&rows);
}

Status IndexBuild::run() {
  load_ = resources_.loads->bulk_load(layout_.family(), layout_.def().compression,
                                      resources_.loads->sort_budget(resources_.sort_memory_bytes));
  // Rows that are written anew must be files: they have no place in snapshots that are older than the ALTER.
  if (!writes_rows()) load_->write_few_to_log();
  Status status = scan();
  if (status.ok() && !load_->is_for_log()) status = resources_.before_files();
  if (status.ok()) status = load_->ingest([this](double) { return !view_.is_unwanted(); });
  if (status.code() == Code::kDuplicate) show_duplicate();
  return status;
}

Status IndexBuild::wait_for_bucket() {
  return load_->wait_for_bucket([this](double) { return !view_.is_unwanted(); });
}

// Puts the row that clashes into the record from which the error message is made. If the primary key changes
// and a secondary index has the duplicate, the row cannot be read under its new key yet. Then the record gets
// only the columns that the index entry holds.
void IndexBuild::show_duplicate() {
  for (size_t i = 0; i < streams_.size(); i++)
    if (streams_[i] == load_->duplicate_stream()) duplicate_index_ = plan_.indexes[i];
  const std::string_view key = load_->duplicate_key();
  if (duplicate_index_ == kNoIndex || key.size() <= codec::kKeyStartLength) return;
  uint8_t *record = view_.record();
  view_.clear_record();
  std::string row_key;
  if (is_primary(duplicate_index_))
    (void)layout_.row().unpack(load_->duplicate_value(), nullptr, record);
  else if (plan_.rekey != nullptr)
    (void)layout_.index(duplicate_index_)
        .codec->decode(key.substr(codec::kKeyStartLength), load_->duplicate_value(), record);
  else if (layout_.primary_of_entry(duplicate_index_, key, &row_key).ok())
    view_.show_row(row_key, plan_.snapshot, &large_row_);
}

}  // namespace atoll::table
