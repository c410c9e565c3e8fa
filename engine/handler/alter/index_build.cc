// See index_build.h.
#include "handler/alter/index_build.h"

#include <algorithm>

#include "base/interrupt.h"
#include "engine/running.h"
#include "table/write/large_rows.h"

namespace atoll::handler {
namespace {

// Each thread of the scan sorts entries of each index: no more threads than can do so in the memory there is.
constexpr uint64_t kSortBytesMin = 1 << 20;

}  // namespace

bool is_build_unwanted(const THD *thd) { return is_statement_killed(thd) || is_interrupted(); }

IndexBuild::IndexBuild(THD *thd, std::shared_ptr<const Layout> source, std::shared_ptr<const Layout> layout,
                       std::vector<size_t> indexes, TABLE *altered, const rocksdb::Snapshot *snapshot,
                       const RekeySource *rekey)
    : thd_(thd),
      source_(std::move(source)),
      layout_ptr_(std::move(layout)),
      layout_(*layout_ptr_),
      altered_(altered),
      snapshot_(snapshot),
      rekey_(rekey),
      database_(engine::running()->database()),
      indexes_(std::move(indexes)),
      sources_(layout_, altered, indexes_) {}

// Numbers are given in the order of the scan, which is that of the old keys, and rows that move keep their
// order.
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
  for (const size_t i : indexes_) {
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

// The row under its new key, and the claim to that key.
Status IndexBuild::add_rekeyed(Encoder *encoder, const uint8_t *record, std::string_view old_key) {
  const bool numbered = layout_.hidden_primary();
  std::string &key = encoder->primary_key;
  layout_.primary_key(record, numbered ? ++numbered_rows_ : 0, &key);
  encoder->entry_value.clear();
  layout_.row().pack(record, &encoder->entry_value);
  ATOLL_RETURN_IF_ERROR(load_->add(rows_stream_, key, encoder->entry_value));
  if (!numbered) return load_->add(claims_stream_, rekey_->claim(key, old_key), {});
  const std::string_view number = std::string_view(key).substr(codec::kKeyStartLength);
  return load_->add(claims_stream_, rekey_->claim_to_number(old_key), number);
}

// A server may have another order of a collation than the one that made the keys: then they would have to be
// made anew, and so the rows sorted again.
Status IndexBuild::add_moved(Encoder *encoder, const uint8_t *record, std::string_view old_key) {
  std::string &key = encoder->primary_key;
  if (layout_.hidden_primary())
    key = layout_.moved_key(old_key);
  else
    layout_.primary_key(record, 0, &key);
  if (std::string_view(key).substr(codec::kKeyPrefixLength) != old_key.substr(codec::kKeyPrefixLength))
    return Status(Code::kInvalid, "the key of a row is not what this server makes of it; use ALGORITHM=COPY");
  if (!table::CutRow::is_needed(layout_.row(), record)) {
    encoder->entry_value.clear();
    layout_.row().pack(record, &encoder->entry_value);
    return load_->add(rows_stream_, key, encoder->entry_value);
  }
  const table::CutRow row(layout_.row(), record);
  ATOLL_RETURN_IF_ERROR(load_->add(rows_stream_, key, codec::encode(row.reference())));
  return row.each_piece(key, [this](std::string_view piece_key, std::string_view piece) {
    return load_->add(pieces_stream_, piece_key, piece);
  });
}

Status IndexBuild::add_stored(Encoder *encoder, std::string_view key, std::string_view stored) {
  if (!codec::is_large_row(stored)) return add_row(encoder, key, stored);
  MutexLock guard(large_row_mutex_);
  std::string_view row;
  ATOLL_RETURN_IF_ERROR(table::whole_row_at(*source_, snapshot_, key, stored, &large_row_, &row));
  return add_row(encoder, key, row);
}

Status IndexBuild::add_row(Encoder *encoder, std::string_view key, std::string_view row) {
  uint8_t *record = sources_.has_virtual() ? altered_->record[0] : encoder->record.data();
  ATOLL_RETURN_IF_ERROR(layout_.row().unpack(row, nullptr, record));
  ATOLL_RETURN_IF_ERROR(sources_.compute());
  encoder->primary_key.assign(key);
  if (rekey_ != nullptr) ATOLL_RETURN_IF_ERROR(add_rekeyed(encoder, record, key));
  if (moves()) ATOLL_RETURN_IF_ERROR(add_moved(encoder, record, key));
  for (size_t i = 0; i < indexes_.size(); i++) {
    if (is_primary(indexes_[i])) continue;
    bool has_null = false;
    layout_.secondary_entry(indexes_[i], record, encoder->primary_key, &encoder->entry_key,
                            &encoder->entry_value, &has_null);
    ATOLL_RETURN_IF_ERROR(load_->add(streams_[i], encoder->entry_key, encoder->entry_value, encoder->adder));
  }
  return Status::Ok();
}

ParallelScan::Request IndexBuild::all_rows() const {
  ParallelScan::Request request;
  request.family = source_->family();
  request.snapshot = snapshot_;
  request.begin = source_->primary_index().start;
  request.end = source_->primary_index().end;
  const uint64_t sorts_max = engine::running()->settings().sort_memory_bytes() / kSortBytesMin;
  request.threads = std::clamp<size_t>(sorts_max / std::max<size_t>(1, indexes_.size()), 1,
                                       engine::running()->statement_settings(thd_).scan_threads);
  request.splits = database_->split(source_->family(), request.begin, request.end, request.threads * 8);
  request.row = &layout_.row();
  return request;
}

Status IndexBuild::scan_by_threads(ParallelScan *rows) {
  for (bool end = false; !end;) {
    ATOLL_RETURN_IF_ERROR(rows->wait(&end));
    if (!end && is_build_unwanted(thd_)) return Status(Code::kInterrupted, "");
  }
  return Status::Ok();
}

Status IndexBuild::scan_here(ParallelScan *rows) {
  for (uint64_t count = 1;; count++) {
    std::string_view key, row;
    bool end = false, waiting = false;
    ATOLL_RETURN_IF_ERROR(rows->next(&key, &row, &end, &waiting));
    if (end) return Status::Ok();
    if ((waiting || (count & 0xFFF) == 0) && is_build_unwanted(thd_)) return Status(Code::kInterrupted, "");
    if (!waiting) ATOLL_RETURN_IF_ERROR(add_stored(encoders_.data(), key, row));
  }
}

Status IndexBuild::scan() {
  ParallelScan::Request request = all_rows();
  const bool by_threads = !sources_.has_virtual() && !writes_rows();
  if (by_threads)
    request.take = [this](size_t thread, std::string_view key, std::string_view stored) {
      return add_stored(&encoders_[thread], key, stored);
    };
  encoders_ = std::vector<Encoder>(by_threads ? ParallelScan::thread_count(request) : 1);
  for (size_t i = 0; i < encoders_.size(); i++) {
    encoders_[i].adder = i;
    encoders_[i].record.resize(altered_->s->reclength);
  }
  open_streams();
  ParallelScan rows(std::move(request));
  return by_threads ? scan_by_threads(&rows) : scan_here(&rows);
}

Status IndexBuild::run() {
  load_ = database_->bulk_load(layout_.family(), layout_.def().compression,
                               database_->sort_budget(engine::running()->settings().sort_memory_bytes()));
  Status status = scan();
  if (status.ok()) {
    THD *thd = thd_;
    status = load_->finish([thd](double) { return !is_build_unwanted(thd); });
  }
  if (status.code() == Code::kDuplicate) show_duplicate();
  return status;
}

// The row that clashes goes into the record that the message is made from. If the primary key changes, rows
// are not under their new keys yet: then it is what the entry says of the row.
void IndexBuild::show_duplicate() {
  for (size_t i = 0; i < streams_.size(); i++)
    if (streams_[i] == load_->duplicate_stream()) duplicate_index_ = indexes_[i];
  const std::string_view key = load_->duplicate_key();
  if (duplicate_index_ == MAX_KEY || key.size() <= codec::kKeyStartLength) return;
  uint8_t *record = altered_->record[0];
  restore_record(altered_, s->default_values);
  std::string row_key, scratch;
  if (is_primary(duplicate_index_))
    (void)layout_.row().unpack(load_->duplicate_value(), nullptr, record);
  else if (rekey_ != nullptr)
    (void)layout_.index(duplicate_index_)
        .codec->decode(key.substr(codec::kKeyStartLength), load_->duplicate_value(), record, &scratch);
  else if (layout_.primary_of_entry(duplicate_index_, key, &row_key).ok())
    sources_.show_row(row_key, snapshot_, &large_row_);
}

}  // namespace atoll::handler
