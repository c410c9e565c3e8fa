// ha_atoll: reading by index. Converts the server's search keys to keys of the codec; the RowCursor
// (table/row_cursor.h) reads the rows.
#include "handler/ha_atoll.h"

#include <algorithm>
#include <utility>

#include "base/mutant.h"
#include "handler/read/counted_pages.h"

using atoll::is_mutant;
using atoll::Mutant;
using atoll::Status;
namespace ah = atoll::handler;
namespace at = atoll::table;
using Found = at::RowCursor::Found;
using Reach = at::Seek::Reach;

// Returns the handler error of a read: 0 for a row, `none` if no row was found.
int ha_atoll::read_result(const Status &status, Found found, int none) {
  if (!status.ok()) {
    const int error = view_.take_error();
    return error != 0 ? error : fail(status);
  }
  if (found == Found::kTooNew) return HA_ERR_TABLE_DEF_CHANGED;
  return found == Found::kRow ? 0 : none;
}

int ha_atoll::index_init(uint index, bool) {
  active_index = index;
  choose_columns();
  choose_entries();
  reader_.begin_index(index);
  return 0;
}

int ha_atoll::index_end() {
  reader_.end_index();
  active_index = MAX_KEY;
  in_range_check_pushed_down = false;
  return 0;
}

// Chooses the stored columns that the statement reads. A statement that changes rows needs all columns,
// because the new row is packed from the old one. A locking read needs all columns, because it compares the
// index entry with the locked row.
void ha_atoll::choose_columns() {
  at::WantedColumns &wanted = reader_.wanted();
  wanted.all = open_table_.mode().may_change || locking() || bitmap_is_set_all(table->read_set);
  if (wanted.all) return;
  wanted.stored.clear();
  for (uint i = 0; i < table_share->fields; i++) {
    const int stored = layout()->stored_column(i);
    if (stored >= 0 && bitmap_is_set(table->read_set, i)) wanted.stored.push_back(stored);
  }
}

// Chooses whether index entries suffice without their rows. The server asks for an index-only read only when
// the entries have all that the query needs. But an entry may hold only a prefix of a column, and the server
// still uses that column if it is in the read set: it compares the column with the end of a range, and merges
// partitions by it. In that case rows are read, with all columns from which virtual columns are computed.
void ha_atoll::choose_entries() {
  at::WantedColumns &wanted = reader_.wanted();
  wanted.entries_suffice = view_.is_keyread() && active_index != MAX_KEY;
  if (!wanted.entries_suffice) return;
  for (const uint field : layout()->index(active_index).cut_fields)
    if (bitmap_is_set(table->read_set, field)) wanted.entries_suffice = false;
  if (!wanted.entries_suffice) wanted.all = true;
}

// How many rows the first batch of a search shall have. For an exact search this is the largest batch, for
// any other search one row. It is also one row if the statement may stop early, as in a subquery or a join
// with LIMIT. If a statement with LIMIT reads only this table, the first batch has as many rows as the limit.
size_t ha_atoll::rows_wanted(bool is_exact) const {
  SELECT_LEX *select = ha_thd()->lex->current_select;
  if (select == nullptr || select->master_unit()->item != nullptr) return 1;
  if (!select->limit_params.explicit_limit) return is_exact ? at::RowBatch::kRowsMax : 1;
  if (select->leaf_tables.elements > 1) return 1;
  return std::clamp<ha_rows>(select->master_unit()->lim.get_select_limit(), 1, at::RowBatch::kRowsMax);
}

int ha_atoll::index_read_map(uchar *record, const uchar *key, key_part_map parts, ha_rkey_function find) {
  return show_read_error(search(record, key, parts, find));
}

int ha_atoll::search(uchar *record, const uchar *key, key_part_map parts, ha_rkey_function find) {
  const ah::CountedPages pages(handler_stats);
  at::Seek seek;
  size_t parts_used = 0;
  keys_.start(active_index, key, parts, &seek.key, &parts_used);
  switch (find) {
    case HA_READ_KEY_EXACT:
      if (layout()->is_primary(active_index) && parts_used == layout()->index(active_index).user_parts &&
          !is_mutant(Mutant::point_get))
        return read_by_primary_key(record, seek.key, false);
      seek.prefix = seek.key;
      seek.parts = parts_used;
      break;
    case HA_READ_KEY_OR_NEXT:
      break;
    case HA_READ_AFTER_KEY:
      seek.key = atoll::codec::key_after_prefix(seek.key);
      seek.reach = Reach::kAfterKey;
      break;
    case HA_READ_BEFORE_KEY:
      seek.forward = false;
      break;
    case HA_READ_KEY_OR_PREV:
    case HA_READ_PREFIX_LAST_OR_PREV:
      seek.key = atoll::codec::key_after_prefix(seek.key);
      seek.forward = false;
      break;
    case HA_READ_PREFIX:
      seek.prefix = seek.key;
      break;
    case HA_READ_PREFIX_LAST:
      seek.prefix = seek.key;
      seek.prefix_stays = true;
      seek.key = atoll::codec::key_after_prefix(seek.key);
      seek.forward = false;
      break;
    default:
      return HA_ERR_WRONG_COMMAND;
  }
  return read_from(&seek, record);
}

int ha_atoll::read_from(at::Seek *seek, uchar *record) {
  seek->rows_wanted = is_mutant(Mutant::batch) ? at::RowBatch::kRowsMax : rows_wanted(!seek->prefix.empty());
  Found found = Found::kNone;
  const Status status = reader_.search(*seek, record, &found);
  return read_result(status, found, HA_ERR_KEY_NOT_FOUND);
}

int ha_atoll::read_by_primary_key(uchar *record, const std::string &key, bool is_chosen) {
  Found found = Found::kNone;
  const Status status = reader_.get(key, is_chosen, record, &found);
  return read_result(status, found, HA_ERR_KEY_NOT_FOUND);
}

int ha_atoll::index_read_last_map(uchar *record, const uchar *key, key_part_map parts) {
  return index_read_map(record, key, parts, HA_READ_PREFIX_LAST);
}

int ha_atoll::index_first(uchar *record) {
  at::Seek seek;
  seek.key = layout()->index(active_index).start;
  seek.reach = Reach::kWholeIndex;
  const int error = read_from(&seek, record);
  return error == HA_ERR_KEY_NOT_FOUND ? HA_ERR_END_OF_FILE : error;
}

// The server calls this also when it reads ranges backwards and the last range has no upper end. If that
// range has no row, this function returns the nearest row below the range. The server sees that this row is
// not in the range and goes on with the range below. If the function returned no row, the server would take
// the index for empty and end the read.
int ha_atoll::index_last(uchar *record) {
  const bool is_in_range = reader_.bounds().has_next();
  at::Seek seek;
  seek.key = layout()->index(active_index).end;
  seek.forward = false;
  seek.reach = Reach::kWholeIndex;
  int error = read_from(&seek, record);
  if (error == HA_ERR_KEY_NOT_FOUND && is_in_range) {
    seek.key = reader_.bounds().current().lower;
    seek.reach = Reach::kAnyRow;
    error = read_from(&seek, record);
  }
  return error == HA_ERR_KEY_NOT_FOUND ? HA_ERR_END_OF_FILE : show_read_error(error);
}

int ha_atoll::index_next(uchar *record) {
  const ah::CountedPages pages(handler_stats);
  Found found = Found::kNone;
  const Status status = reader_.next(record, &found);
  return read_result(status, found, HA_ERR_END_OF_FILE);
}

int ha_atoll::index_prev(uchar *record) {
  const ah::CountedPages pages(handler_stats);
  Found found = Found::kNone;
  const Status status = reader_.prev(record, &found);
  return read_result(status, found, HA_ERR_END_OF_FILE);
}

int ha_atoll::index_next_same(uchar *record, const uchar *key, uint length) {
  if (reader_.place() != at::Place::kPoint && !reader_.is_exact())
    return handler::index_next_same(record, key, length);
  const ah::CountedPages pages(handler_stats);
  Found found = Found::kNone;
  const Status status = reader_.next_same(record, &found);
  return read_result(status, found, HA_ERR_END_OF_FILE);
}

// ---- Ranges --------------------------------------------------------------------------------------

// Tells the cursor the bounds of the range for which the server searches next. The cursor stays within them.
void ha_atoll::give_bounds(const key_range *start, const key_range *end) {
  size_t parts = 0;
  reader_.bounds().give(keys_.bounds(active_index, start, end, &parts));
}

// The server gives both ends of a range here and in prepare_range_scan(). The cursor does not leave the
// range, so the server and pushed conditions need not compare rows with its end.
int ha_atoll::read_range_first(const key_range *start, const key_range *end, bool is_equality, bool) {
  give_bounds(start, end);
  eq_range = is_equality;
  set_end_range(nullptr);
  range_key_part =
      table->key_info[active_index].key_part;  // a loose scan itself compares rows with the range's end
  const int error = start == nullptr
                        ? ha_index_first(table->record[0])
                        : ha_index_read_map(table->record[0], start->key, start->keypart_map, start->flag);
  return error == HA_ERR_KEY_NOT_FOUND ? HA_ERR_END_OF_FILE : error;
}

int ha_atoll::read_range_next() {
  return eq_range ? ha_index_next_same(table->record[0], nullptr, 0) : ha_index_next(table->record[0]);
}

// The server calls this before it reads a range backwards.
int ha_atoll::prepare_range_scan(const key_range *start, const key_range *end) {
  give_bounds(start, end);
  return 0;
}
