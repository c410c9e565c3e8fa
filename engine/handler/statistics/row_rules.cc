// See row_rules.h.
#include "handler/statistics/row_rules.h"

#include <cstring>

#include <ha_partition.h>
#include <partition_info.h>
#include <sql_error.h>

#include "handler/server/compat/names.h"

namespace atoll::handler {
namespace {

// Keeps all errors and warnings of an expression away from the statement, and remembers the first error.
class Silence final : public Internal_error_handler {
 public:
  explicit Silence(THD *thd)
      : thd_(*thd), level_(thd, CHECK_FIELD_IGNORE), was_strict_(thd->abort_on_warning) {
    thd_.abort_on_warning = false;
    thd_.push_internal_handler(this);
  }
  ~Silence() override {
    thd_.pop_internal_handler();
    thd_.abort_on_warning = was_strict_;
  }
  Silence(const Silence &) = delete;
  Silence &operator=(const Silence &) = delete;

  bool handle_condition(THD *, uint, const char *, Sql_condition::enum_warning_level *level,
                        const char *message, Sql_condition **) override {
    if (*level == Sql_condition::WARN_LEVEL_ERROR && error_.empty()) error_ = message;
    return true;
  }
  // The message of the first error; empty: there was none.
  const std::string &error() const { return error_; }

 private:
  THD &thd_;
  const Check_level_instant_set level_;
  const bool was_strict_;
  std::string error_;
};

std::string shown_name(const Field *field) {
  return "column `" + std::string(field->field_name.str, field->field_name.length) + "`";
}

// The bytes of a VARCHAR, VARBINARY, TEXT or BLOB in the record.
std::string_view stored_bytes(const Field *field) {
  if (field->flags & BLOB_FLAG) {
    const auto *blob = static_cast<const Field_blob *>(field);
    return {reinterpret_cast<const char *>(blob->get_ptr()), blob->get_length()};
  }
  const uint length_bytes = static_cast<const Field_varstring *>(field)->length_bytes;
  const size_t length = length_bytes == 1 ? *field->ptr : uint2korr(field->ptr);
  return {reinterpret_cast<const char *>(field->ptr) + length_bytes, length};
}

// The value of the field in the record that is `offset` bytes behind the field's own, as messages show it.
std::string text_of(Field *field, my_ptrdiff_t offset) {
  if (field->is_null(offset)) return "NULL";
  StringBuffer<MAX_FIELD_WIDTH> text;
  field->move_field_offset(offset);
  const String *const value = field->val_str(&text);
  const std::string shown = "'" + std::string(ErrConvString(value).ptr()) + "'";
  field->move_field_offset(-offset);
  return shown;
}

// The uncompressed bytes of the field in the record that is `offset` bytes behind the field's own.
std::string bytes_of(Field *field, my_ptrdiff_t offset) {
  StringBuffer<MAX_FIELD_WIDTH> text;
  field->move_field_offset(offset);
  const String *const value = field->val_str(&text);
  std::string bytes(value->ptr(), value->length());
  field->move_field_offset(-offset);
  return bytes;
}

// Whether the field's value is the same in the record that is `offset` bytes behind the field's own.
bool is_same(Field *field, my_ptrdiff_t offset) {
  if (field->is_null() || field->is_null(offset)) return field->is_null() == field->is_null(offset);
  // Equal values may be compressed to different bytes, because the level is a setting.
  if (field->compression_method() != nullptr) return bytes_of(field, 0) == bytes_of(field, offset);
  // Some bits of a BIT column are among the NULL bits; only cmp_offset() finds them.
  if (field->real_type() == MYSQL_TYPE_BIT) return field->cmp_offset(offset) == 0;
  return field->cmp_binary(field->ptr, field->ptr + offset) == 0;
}

// The number of the partition whose handler is `part`; -1 if the table has no partitions, or is partitioned
// by SYSTEM_TIME: then a row stays in the partition into which it came.
int number_of(const TABLE *table, const ::handler *part) {
  partition_info *const info = table->part_info;
  if (info == nullptr || info->part_type == VERSIONING_PARTITION) return -1;
  ::handler **const parts = static_cast<ha_partition *>(table->file)->get_child_handlers();
  for (uint i = 0; i < info->get_tot_partitions(); i++)
    if (parts[i] == part) return static_cast<int>(i);
  return -1;
}

// The name of the partition or subpartition with this number.
std::string name_of_part(partition_info *info, uint32 number) {
  const uint subs = info->is_sub_partitioned() ? info->num_subparts : 1;
  const auto name_of = [](const partition_element *part) {
    return part == nullptr ? std::string() : std::string(view_of(part->partition_name));
  };
  List_iterator<partition_element> parts(info->partitions);
  partition_element *found = parts++;
  for (uint32 i = 0; i < number / subs && found != nullptr; i++) found = parts++;
  if (found == nullptr || !info->is_sub_partitioned()) return name_of(found);
  List_iterator<partition_element> sub_parts(found->subpartitions);
  partition_element *sub = sub_parts++;
  for (uint32 i = 0; i < number % subs && sub != nullptr; i++) sub = sub_parts++;
  return name_of(sub);
}

}  // namespace

// The server of this version allows no expression here that depends on the session, the time or chance. One
// that a later version allows is left out, because it need not give what it gave when the row was written,
// and because the server prepares an expression on the session only for statements that write.
RowRules::RowRules(THD *thd, TABLE *table, const ::handler *part)
    : thd_(thd), table_(*table), part_(number_of(table, part)) {
  for (Field **field = table->vfield; field != nullptr && *field != nullptr; field++)
    if ((*field)->stored_in_db() && !((*field)->vcol_info->flags & VCOL_NOT_STRICTLY_DETERMINISTIC))
      stored_.push_back(*field);
  for (Field **field = table->field; *field != nullptr; field++)
    if ((*field)->stored_in_db() && (*field)->compression_method() != nullptr) compressed_.push_back(*field);
  if (thd->variables.option_bits & OPTION_NO_CHECK_CONSTRAINT_CHECKS) return;
  for (Virtual_column_info **next = table->check_constraints; next != nullptr && *next != nullptr; next++)
    if (!((*next)->flags & VCOL_NOT_STRICTLY_DETERMINISTIC)) constraints_.push_back(*next);
}

void RowRules::test(Verdict *verdict) {
  verdict->damage.clear();
  verdict->warnings.clear();
  for (Field *field : compressed_) test_compressed(field, verdict);
  if (stored_.empty() && constraints_.empty() && part_ < 0) return note_found(*verdict);
  uchar *const record = table_.record[0];
  saved_.assign(record, record + table_.s->reclength);
  if (part_ >= 0) test_place(verdict);
  for (Field *field : stored_) test_stored(field, verdict);
  if (!is_history())
    for (const Virtual_column_info *constraint : constraints_) test_constraint(*constraint, verdict);
  std::memcpy(record, saved_.data(), saved_.size());
  note_found(*verdict);
}

void RowRules::note_found(const Verdict &verdict) {
  if (!verdict.warnings.empty()) warned_rows_++;
}

// The server tests constraints only on present rows of a system-versioned table.
bool RowRules::is_history() const { return table_.versioned() && !table_.vers_end_field()->is_max(); }

// Finds bytes that are no compressed value. The server reads them as the empty string, mostly without an
// error.
void RowRules::test_compressed(Field *field, Verdict *verdict) {
  if (field->is_null()) return;
  const std::string_view stored = stored_bytes(field);
  constexpr uint8_t kMethod =
      0xF0;  // in the first byte; 0: the rest of the bytes is the value, not compressed
  if (stored.empty() || (static_cast<uint8_t>(stored[0]) & kMethod) == 0) return;
  Silence silence(thd_);
  if (bytes_of(field, 0).empty())
    verdict->damage.push_back(shown_name(field) +
                              " holds bytes that are no compressed value, and reads as ''");
}

// Finds the partition by the stored values of the row; virtual columns must be computed for it.
void RowRules::test_place(Verdict *verdict) {
  partition_info *const info = table_.part_info;
  Silence silence(thd_);
  for (Field **field = info->full_part_field_array; *field != nullptr; field++)
    if (!(*field)->stored_in_db()) table_.update_virtual_field(*field, true);
  uint32 number = 0;
  longlong value = 0;
  const int error = info->get_partition_id(info, &number, &value);
  if (error == 0 && number == static_cast<uint32>(part_)) return;
  const std::string place = " is in partition `" + name_of_part(info, static_cast<uint32>(part_)) + "`";
  has_misplaced_ = true;
  verdict->damage.push_back(error != 0
                                ? "it" + place + " and belongs to no partition"
                                : "it" + place + " and belongs to `" + name_of_part(info, number) + "`");
}

// The server's function computes the field in record[0], and before it the generated columns that its
// expression names.
void RowRules::test_stored(Field *field, Verdict *verdict) {
  const std::string column = shown_name(field);
  Silence silence(thd_);
  table_.update_virtual_field(field, true);
  if (!silence.error().empty()) {
    verdict->warnings.push_back(column + " cannot be computed: " + silence.error());
    return;
  }
  const my_ptrdiff_t offset = saved_.data() - table_.record[0];
  if (is_same(field, offset) || (is_history() && is_same_as_present(field))) return;
  has_stale_ = true;
  verdict->damage.push_back(column + " holds " + text_of(field, offset) + ", but its expression gives " +
                            text_of(field, 0));
}

// Whether the field has the value that it had while the row was a present one. The server sets the end of a
// row's time when it deletes the row, and does not compute stored columns again then. Changes the field in
// record[0].
bool RowRules::is_same_as_present(Field *field) {
  Field *const end = table_.vers_end_field();
  end->set_max();
  table_.update_virtual_field(field, true);
  const my_ptrdiff_t offset = saved_.data() - table_.record[0];
  const bool is_present = is_same(field, offset);
  std::memcpy(end->ptr, end->ptr + offset, end->pack_length());
  return is_present;
}

// A constraint is satisfied if its expression is true or NULL.
void RowRules::test_constraint(const Virtual_column_info &constraint, Verdict *verdict) {
  const bool of_column = constraint.get_vcol_type() == VCOL_CHECK_FIELD;
  const std::string name = std::string(of_column ? "the CHECK of column `" : "CONSTRAINT `") +
                           std::string(constraint.name.str, constraint.name.length) + "`";
  Silence silence(thd_);
  bitmap_clear_all(&table_.tmp_set);
  constraint.expr->walk(&Item::update_vcol_processor, false, &table_.tmp_set);
  const bool holds = constraint.expr->val_bool() || constraint.expr->null_value;
  if (!silence.error().empty())
    verdict->warnings.push_back(name + " cannot be computed: " + silence.error());
  else if (!holds)
    verdict->warnings.push_back("violates " + name);
}

}  // namespace atoll::handler
