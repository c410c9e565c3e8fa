// ha_atoll: virtual columns of indexes. The server computes them where it thinks of it; an entry needs them
// always, of the right row.
//
// A column is computed in record[0]. Text does not stand in the record: it is in a buffer of the field, which
// has two, the value for record[0] and the read_value for a row in another record.
#include "handler/ha_atoll.h"

bool ha_atoll::indexes_virtual_column(size_t number) const {
  const KEY &key = table->key_info[number];
  for (uint i = 0; i < key.user_defined_key_parts; i++)
    if (!table_share->field[key.key_part[i].fieldnr - 1]->stored_in_db()) return true;
  return false;
}

// Computes the virtual columns of an index in record[0]. The server's function for it uses TABLE::tmp_set as
// scratch, where a sort around this read keeps its read set.
void ha_atoll::compute_virtual_columns(size_t index) {
  const KEY &key = table->key_info[index];
  const size_t bytes = my_bitmap_buffer_size(&table->tmp_set);
  const std::string kept(reinterpret_cast<const char *>(table->tmp_set.bitmap), bytes);
  for (uint i = 0; i < key.user_defined_key_parts; i++) {
    Field *field = table->field[key.key_part[i].fieldnr - 1];
    if (!field->stored_in_db()) table->update_virtual_field(field, true);
  }
  std::memcpy(table->tmp_set.bitmap, kept.data(), bytes);
}

// Partitions read by an index are merged by the columns of that index, in records of their own, where the
// server computes no virtual columns; neither does it where it believes that they come from entries.
void ha_atoll::complete_for_merge(uchar *record) {
  if (active_index == MAX_KEY || !indexes_virtual_column(active_index)) return;
  if (record == table->record[0])
    compute_virtual_columns(active_index);
  else
    compute_virtual_columns_of(record, active_index, active_index + 1);
}

// Those of a row that is not in record[0], for the indexes from `first` on until before `end`.
void ha_atoll::compute_virtual_columns_of(uchar *record, size_t first, size_t end) {
  swap_virtual_text();
  table->move_fields(table->field, record, table->record[0]);
  for (size_t i = first; i < end; i++) compute_virtual_columns(i);
  table->move_fields(table->field, table->record[0], record);
  swap_virtual_text();
}

bool ha_atoll::is_virtual_text(const Field *field) {
  return !field->stored_in_db() && (field->flags & BLOB_FLAG);
}

bool ha_atoll::indexes_virtual_text(size_t number) const {
  const KEY &key = table->key_info[number];
  for (uint i = 0; i < key.user_defined_key_parts; i++)
    if (is_virtual_text(table_share->field[key.key_part[i].fieldnr - 1])) return true;
  return false;
}

// Only the value of a field can be computed: that of all virtual text, as one expression may name another
// column.
void ha_atoll::swap_virtual_text() {
  for (Field **field = table->vfield; field != nullptr && *field != nullptr; field++)
    if (is_virtual_text(*field)) static_cast<Field_blob *>(*field)->swap_value_and_read_value();
}

// The server leaves the text of a row in record[1] to the next computation in some of its ways (REPLACE,
// system versioning). So it is computed again for both rows of a change; last for record[0], in whose buffer
// it may be.
void ha_atoll::compute_virtual_text(const uchar *record, const uchar *other) {
  if (!indexes_virtual_text_) return;
  for (const uchar *row : {record, other}) {
    if (row == nullptr || row == table->record[0]) continue;
    compute_virtual_columns_of(const_cast<uchar *>(row), 0, layout_->index_count());
  }
  for (size_t i = 0; i < layout_->index_count(); i++) compute_virtual_columns(i);
}
