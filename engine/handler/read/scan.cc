// ha_atoll: reading the whole table, and rows by position.
#include "handler/ha_atoll.h"

#include "engine/running.h"
#include "handler/read/counted_pages.h"
#include "handler/server/error_map.h"
#include "table/write/large_rows.h"

using atoll::Status;
namespace ah = atoll::handler;
namespace at = atoll::table;
using Found = at::RowCursor::Found;

namespace {

// Below this size, one thread has scanned the table before other threads have started.
constexpr uint64_t kParallelBytesMin = 4 << 20;
constexpr size_t kPiecesPerThread = 8;

}  // namespace

int ha_atoll::rnd_init(bool) {
  active_index = MAX_KEY;
  choose_columns();
  parallel_.reset();
  reader_.begin_table();
  return 0;
}

int ha_atoll::rnd_end() {
  reader_.close();
  parallel_.reset();
  return 0;
}

// Whether several threads can scan the table, and faster than one. They can only in a consistent read of a
// transaction without own writes, because all threads read at one RocksDB snapshot. A statement that ends
// after a number of rows must not read ahead of them.
bool ha_atoll::pays_parallel_scan(size_t threads) {
  if (counts_rows()) return false;
  if (locking() || is_temporary() || transaction()->has_writes(layout()->family()->side())) return false;
  return threads >= 2 && atoll::table::stored_bytes_of_rows(atoll::engine::running()->database(),
                                                            *layout()) >= kParallelBytesMin;
}

void ha_atoll::start_parallel_scan(size_t threads) {
  const ah::IndexLayout &index = layout()->primary_index();
  atoll::lsm::Figures *figures = atoll::engine::running()->database();
  at::ParallelScan::Request request;
  request.family = layout()->family();
  request.snapshot = transaction()->snapshot(layout()->family()->side());
  request.begin = index.start;
  request.end = index.end;
  request.splits = figures->split(layout()->family(), index.start, index.end, threads * kPiecesPerThread);
  request.threads = threads;
  request.predicate = reader_.filter().predicate();
  request.row = &layout()->row();
  request.whole_row = [layout = layout(), snapshot = request.snapshot](
                          std::string_view key, std::string_view stored, std::string *buffer,
                          std::string_view *row) {
    return atoll::table::whole_row_at(*layout, snapshot, key, stored, buffer, row);
  };
  parallel_ = std::make_unique<at::ParallelScan>(std::move(request));
}

int ha_atoll::rnd_next(uchar *record) {
  const ah::CountedPages pages(handler_stats);
  if (reader_.place() == at::Place::kBeforeFirst && !parallel_) {
    if (!reader_.begin_reading()) return HA_ERR_TABLE_DEF_CHANGED;
    const size_t threads = session_->settings().scan_threads;
    if (pays_parallel_scan(threads)) start_parallel_scan(threads);
  }
  if (parallel_) return rnd_next_parallel(record);
  Found found = Found::kNone;
  const Status status = reader_.scan(record, &found);
  return read_result(status, found, HA_ERR_END_OF_FILE);
}

int ha_atoll::rnd_next_parallel(uchar *record) {
  for (;;) {
    std::string_view key, row;
    bool end = false, waiting = false;
    const Status status = parallel_->next(&key, &row, &end, &waiting);
    if (!status.ok()) return fail(status);
    if (end) return HA_ERR_END_OF_FILE;
    if (waiting || reader_.is_killed()) {
      if (atoll::is_statement_killed(ha_thd())) return HA_ERR_ABORTED_BY_USER;
      if (waiting) continue;
    }
    reader_.note_row(key);
    return read_result(reader_.unpack(row, record), Found::kRow, 0);
  }
}

// Stores the reference of the row in `ref`. It is the primary key in the form in which the server writes
// search keys (key_copy). That form has a fixed length, and is shorter than our encoded key of collated text.
// For a table without a primary key the reference is the hidden id.
void ha_atoll::position(const uchar *record) noexcept {
  if (layout()->hidden_primary()) {
    memcpy(ref, open_table_.row_key().data() + atoll::codec::kKeyStartLength, ah::kHiddenIdLength);
    return;
  }
  KEY *key = &table->key_info[table_share->primary_key];
  key_copy(ref, record, key, key->key_length, true);
}

int ha_atoll::rnd_pos(uchar *record, uchar *position) {
  const ah::CountedPages pages(handler_stats);
  // The statement has chosen this row before, so pushed conditions are not evaluated again.
  return read_by_primary_key(record, keys_.primary_key(position), true);
}

// Compares two row references (position()) in the order of their primary keys, because index merge relies on
// this order.
int ha_atoll::cmp_ref(const uchar *a, const uchar *b) noexcept {
  if (layout()->hidden_primary()) return memcmp(a, b, ah::kHiddenIdLength);
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
