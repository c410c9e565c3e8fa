// See virtual_columns.h.
#include "handler/write/virtual_columns.h"

#include <cstring>
#include <string>

namespace atoll::handler {
namespace {

bool is_virtual_text(const Field *field) { return !field->stored_in_db() && (field->flags & BLOB_FLAG); }

// The server can compute text only into a field's `value` buffer. So the buffers of all virtual text columns
// are swapped, because the expression of one column may name another one.
void swap_virtual_text(TABLE *table) {
  for (Field **field = table->vfield; field != nullptr && *field != nullptr; field++)
    if (is_virtual_text(*field)) static_cast<Field_blob *>(*field)->swap_value_and_read_value();
}

}  // namespace

bool indexes_virtual_column(const TABLE *table, size_t index) {
  const KEY &key = table->key_info[index];
  for (uint i = 0; i < key.user_defined_key_parts; i++)
    if (!table->s->field[key.key_part[i].fieldnr - 1]->stored_in_db()) return true;
  return false;
}

bool indexes_virtual_text(const TABLE *table) {
  for (uint number = 0; number < table->s->keys; number++) {
    const KEY &key = table->key_info[number];
    for (uint i = 0; i < key.user_defined_key_parts; i++)
      if (is_virtual_text(table->s->field[key.key_part[i].fieldnr - 1])) return true;
  }
  return false;
}

// The server's function, update_virtual_field(), overwrites TABLE::tmp_set, in which a sort around this read
// keeps its read set. So the set is saved and restored.
void compute_virtual_columns(TABLE *table, size_t index) {
  const KEY &key = table->key_info[index];
  const size_t bytes = my_bitmap_buffer_size(&table->tmp_set);
  const std::string kept(reinterpret_cast<const char *>(table->tmp_set.bitmap), bytes);
  for (uint i = 0; i < key.user_defined_key_parts; i++) {
    Field *field = table->field[key.key_part[i].fieldnr - 1];
    if (!field->stored_in_db()) table->update_virtual_field(field, true);
  }
  std::memcpy(table->tmp_set.bitmap, kept.data(), bytes);
}

void compute_virtual_columns_of(TABLE *table, uchar *record, size_t first, size_t end) {
  swap_virtual_text(table);
  table->move_fields(table->field, record, table->record[0]);
  for (size_t i = first; i < end; i++) compute_virtual_columns(table, i);
  table->move_fields(table->field, table->record[0], record);
  swap_virtual_text(table);
}

// Computes record[0] last, because each virtual text is computed into the buffer of its field, which may hold
// the text of record[0].
void compute_virtual_text(TABLE *table, const uchar *record, const uchar *other) {
  const size_t indexes = table->s->keys;
  for (const uchar *row : {record, other}) {
    if (row == nullptr || row == table->record[0]) continue;
    compute_virtual_columns_of(table, const_cast<uchar *>(row), 0, indexes);
  }
  for (size_t i = 0; i < indexes; i++) compute_virtual_columns(table, i);
}

}  // namespace atoll::handler
