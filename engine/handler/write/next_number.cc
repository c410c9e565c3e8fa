// See next_number.h.
#include "handler/write/next_number.h"

#include <cmath>
#include <string>
#include <vector>

namespace atoll::handler {

uint64_t number_in(Field *field, ptrdiff_t offset) {
  const uint64_t largest = field->get_max_int_value();
  uint64_t number = 0;
  field->move_field_offset(offset);
  if (field->result_type() == REAL_RESULT) {
    // val_int() would report an error for a DOUBLE beyond the integers.
    const double value = std::rint(field->val_real());
    if (value > 0 && value <= static_cast<double>(largest)) number = static_cast<uint64_t>(value);
  } else {
    const longlong value = field->val_int();
    if (value > 0 || (field->flags & UNSIGNED_FLAG)) number = static_cast<uint64_t>(value);
  }
  field->move_field_offset(-offset);
  return number;
}

namespace {

// Finds the row with the largest (`largest`) or the smallest value in the first column of the index, and
// decodes its key into *record, which stays empty if there is no row.
Status outermost_record(const Layout &layout, const TABLE *table, uint number, bool largest,
                        std::vector<uchar> *record) {
  const IndexLayout &index = layout.index(number);
  std::string key;
  ATOLL_RETURN_IF_ERROR(outermost_taken_key(layout, index, largest != index.parts[0].descending, &key));
  if (key.empty()) return Status::Ok();
  record->resize(table->s->reclength);
  return index.codec->decode(std::string_view(key).substr(codec::kKeyStartLength), {}, record->data());
}

}  // namespace

Status largest_number(const Layout &layout, TABLE *table, uint64_t *largest) {
  *largest = 0;
  std::vector<uchar> record;
  ATOLL_RETURN_IF_ERROR(outermost_record(layout, table, table->s->next_number_index, true, &record));
  if (!record.empty()) *largest = number_in(table->found_next_number_field, record.data() - table->record[0]);
  return Status::Ok();
}

Status is_above_zero(const Layout &layout, TABLE *table, uint index, bool *above) {
  *above = true;
  std::vector<uchar> record;
  ATOLL_RETURN_IF_ERROR(outermost_record(layout, table, index, false, &record));
  if (record.empty()) return Status::Ok();
  Field *field = table->field[table->key_info[index].key_part[0].fieldnr - 1];
  *above = number_in(field, record.data() - table->record[0]) != 0;
  return Status::Ok();
}

}  // namespace atoll::handler
