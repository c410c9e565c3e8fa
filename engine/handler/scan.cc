// ha_atoll: reading the whole table, and rows by position.
#include "handler/ha_atoll.h"

#include "handler/counted_pages.h"
#include "handler/error_map.h"
#include "handler/large_rows.h"
#include "plugin/instance.h"

using atoll::Code;
using atoll::Status;
namespace ah = atoll::handler;

namespace {

// Below this a scan by one thread is done before others have started.
constexpr uint64_t kParallelBytesMin = 4 << 20;
constexpr size_t kPiecesPerThread = 8;

}  // namespace

int ha_atoll::rnd_init(bool scan) {
  active_index = MAX_KEY;
  choose_columns();
  close_cursor();
  parallel_.reset();
  batch_.restart();
  scan_started_ = !scan;
  filters_rows_ = true;
  return 0;
}

int ha_atoll::rnd_end() {
  close_cursor();
  parallel_.reset();
  return 0;
}

// Only for consistent reads of tables without own writes; the range is then one snapshot for all threads.
bool ha_atoll::should_scan_in_parallel() {
  if (locking() || is_temporary() || transaction()->has_writes(layout_->family()->side())) return false;
  const size_t threads = atoll::plugin::scan_threads(ha_thd());
  if (threads < 2) return false;
  const ah::IndexLayout &index = layout_->primary_index();
  atoll::lsm::Database *database = atoll::plugin::instance()->database.get();
  if (ah::stored_bytes_of_rows(*layout_) < kParallelBytesMin) return false;

  ah::ParallelScan::Request request;
  request.db = database->db(layout_->family()->side());
  request.family = layout_->family();
  request.snapshot = transaction()->snapshot(layout_->family()->side());
  request.begin = index.start;
  request.end = index.end;
  request.splits = database->split(layout_->family(), index.start, index.end, threads * kPiecesPerThread);
  request.threads = threads;
  request.predicate = predicate();
  request.row = &layout_->row();
  request.whole_row = [layout = layout_, snapshot = request.snapshot](
                          std::string_view key, std::string_view stored, std::string *buffer,
                          std::string_view *row) {
    return ah::whole_row_at(*layout, snapshot, key, stored, buffer, row);
  };
  parallel_ = std::make_unique<ah::ParallelScan>(std::move(request));
  return true;
}

int ha_atoll::rnd_next(uchar *record) {
  const ah::CountedPages pages(handler_stats);
  if (!scan_started_) {
    scan_started_ = true;
    if (int error = begin_reading()) return error;
    if (!should_scan_in_parallel()) {
      const ah::IndexLayout &index = layout_->primary_index();
      bounds_ = {index.start, index.end};
      open_cursor(true);
      start_protection(index.start, true);
      cursor_->Seek(index.start);
      cursor_positioned_ = true;
    }
  } else if (semi_consistent_ == SemiConsistent::kReturned) {
    semi_consistent_ = SemiConsistent::kAgain;
  } else if (cursor_) {
    cursor_->Next();
  } else if (!parallel_) {
    resume_scan();
  }
  if (parallel_) return rnd_next_parallel(record);
  return accept_current(record, true);
}

// HANDLER ... READ NEXT in a new statement: goes on behind the row that the former one returned.
void ha_atoll::resume_scan() {
  const ah::IndexLayout &index = layout_->primary_index();
  if (!locking()) session_->open_read_view();
  bounds_ = {index.start, index.end};
  open_cursor(false);
  cursor_->Seek(current_primary_key_);
  if (cursor_->Valid() && cursor_->key() == rocksdb::Slice(current_primary_key_)) cursor_->Next();
}

int ha_atoll::rnd_next_parallel(uchar *record) {
  for (;;) {
    std::string_view key, row;
    bool end = false, waiting = false;
    const Status status = parallel_->next(&key, &row, &end, &waiting);
    if (!status.ok()) return fail(status);
    if (end) return HA_ERR_END_OF_FILE;
    if (waiting || killed()) {
      if (atoll::is_statement_killed(ha_thd())) return HA_ERR_ABORTED_BY_USER;
      if (waiting) continue;
    }
    current_primary_key_.assign(key);
    return unpack_row(row, record);
  }
}

// A reference is the primary key as the server writes search keys (key_copy): of fixed length, and shorter
// than the encoded key of collated text. Without a primary key it is the hidden id.
void ha_atoll::position(const uchar *record) {
  if (layout_->hidden_primary()) {
    memcpy(ref, current_primary_key_.data() + atoll::codec::kKeyStartLength, ah::kHiddenIdLength);
    return;
  }
  KEY *key = &table->key_info[table_share->primary_key];
  key_copy(ref, record, key, key->key_length, true);
}

int ha_atoll::rnd_pos(uchar *record, uchar *position) {
  const ah::CountedPages pages(handler_stats);
  std::string key;
  if (layout_->hidden_primary()) {
    key = layout_->primary_index().start;
    key.append(reinterpret_cast<const char *>(position), ah::kHiddenIdLength);
  } else {
    KEY *primary = &table->key_info[table_share->primary_key];
    key_restore(search_record_.data(), position, primary, primary->key_length);
    layout_->primary_key(search_record_.data(), 0, &key);
  }
  // The row was chosen before: pushed conditions do not apply again.
  return read_by_primary_key(record, key, false);
}

// References compare as primary keys do: index merge relies on it.
int ha_atoll::cmp_ref(const uchar *a, const uchar *b) {
  if (layout_->hidden_primary()) return memcmp(a, b, ah::kHiddenIdLength);
  const KEY &key = table->key_info[table_share->primary_key];
  for (uint i = 0; i < key.user_defined_key_parts; i++) {
    const KEY_PART_INFO &part = key.key_part[i];
    const int order = part.field->key_cmp(a, b);
    if (order != 0) return (part.key_part_flag & HA_REVERSE_SORT) ? -order : order;
    a += part.store_length;
    b += part.store_length;
  }
  return 0;
}
