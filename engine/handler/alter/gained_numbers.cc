// See gained_numbers.h.
#include "handler/alter/gained_numbers.h"

#include "handler/alter/alter_definition.h"
#include "handler/ddl/table_name.h"
#include "handler/write/next_number.h"

namespace atoll::handler {

bool becomes_auto_increment(const Field &field, const Column_definition &changed) {
  if ((field.flags & AUTO_INCREMENT_FLAG) != 0 || (changed.flags & AUTO_INCREMENT_FLAG) == 0) return false;
  Column_definition otherwise(changed);
  otherwise.flags &= ~AUTO_INCREMENT_FLAG;
  return field.is_equal(otherwise);
}

const Field *gained_numbers(const TABLE *altered, const Alter_inplace_info *info) {
  const Field *numbers = altered->found_next_number_field;
  if (numbers == nullptr) return nullptr;
  const Field *before = fields_before(altered, info)[numbers->field_index];
  const bool had_numbers = before == nullptr || (before->flags & AUTO_INCREMENT_FLAG) != 0;
  return had_numbers ? nullptr : before;
}

Status numbers_may_stay(const Layout &layout, TABLE *table, const Field *field, bool *may_stay) {
  *may_stay = (table->in_use->variables.sql_mode & MODE_NO_AUTO_VALUE_ON_ZERO) != 0;
  // When the partitions of a table give different answers, the server takes one of them and not the worst.
  if (*may_stay || is_partition(layout.def().name)) return Status::Ok();
  for (uint i = 0; i < table->s->keys; i++)
    if (table->key_info[i].key_part[0].fieldnr == field->field_index + 1)
      return is_above_zero(layout, table, i, may_stay);
  return Status::Ok();
}

}  // namespace atoll::handler
