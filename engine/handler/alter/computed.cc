// See computed.h.
#include "handler/server.h"

#include "handler/alter/computed.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "handler/alter/alter_definition.h"
#include "handler/server/compat/names.h"
#include "handler/server/description.h"
#include "handler/server/field_map.h"

namespace atoll::handler {
namespace {

constexpr const char *kGenerated = "the values of a generated column must be computed";
constexpr const char *kConstraint = "the rows must be checked against a constraint";
constexpr const char *kPartition = "rows may belong to another partition";

using Fields = std::vector<bool>;  // by number in the altered table

// Adds the fields of `altered` that the expression names, and those that the generated columns among them are
// computed from, through any number of steps. The server marks them in the read set of the TABLE.
void add_named(TABLE *altered, const Virtual_column_info &expression, Fields *fields) {
  MY_BITMAP *const read_set = altered->read_set;
  altered->read_set = &altered->tmp_set;
  bitmap_clear_all(altered->read_set);
  expression.expr->walk(&Item::register_field_in_read_map, true, nullptr);
  for (uint i = 0; i < altered->s->fields; i++)
    if (bitmap_is_set(altered->read_set, i)) (*fields)[i] = true;
  altered->read_set = read_set;
}

// Whether the expression has DEFAULT(column), whose value no row holds.
bool uses_default(const Virtual_column_info &expression) {
  return expression.expr->walk(&Item::check_func_default_processor, false, nullptr);
}

std::string text_of(Virtual_column_info *expression) {
  StringBuffer<MAX_FIELD_WIDTH> text;
  expression->print(&text);
  return std::string(text.ptr(), text.length());
}

// Whether the result of the expression may depend on the maximum length of a column, and not only on the
// column's value. Of the server's functions, only WEIGHT_STRING() uses this length.
bool uses_length_of_column(Virtual_column_info *expression) {
  return text_of(expression).find("weight_string") != std::string::npos;
}

// Whether the result of the expression may depend on the default character set and collation of the table,
// which the server gives to literals and to numbers that become text. False only for what surely does not:
// names of columns, numbers and operators, and the constraint of a JSON column.
bool uses_charset_of_table(Virtual_column_info *expression) {
  const std::string text = text_of(expression);
  bool is_name = false, has_words = false;
  for (const char c : text) {
    if (c == '`') is_name = !is_name;
    has_words = has_words || (!is_name && (c == '\'' || std::isalpha(static_cast<unsigned char>(c)) != 0));
  }
  const bool is_json = text.starts_with("json_valid(`") && text.find('`', 12) == text.size() - 2;
  return has_words && !is_json;
}

// Whether this is the constraint that each column of type JSON has.
bool is_json_constraint(Virtual_column_info *check, const Field *column) {
  return text_of(check) == "json_valid(`" + std::string(column->field_name.str) + "`)";
}

bool is_rebuilt(const KEY &key, const Alter_inplace_info *info) {
  return std::any_of(info->index_add_buffer, info->index_add_buffer + info->index_add_count,
                     [&](uint number) { return same_name(info->key_info_buffer[number], key); });
}

bool has_field(const TABLE *table, const LEX_CSTRING &name) {
  return std::any_of(table->field, table->field + table->s->fields,
                     [&](const Field *field) { return is_same_name(field->field_name, name); });
}

// What an ALTER changes among the values of the columns, and what is computed from them.
class Computed {
 public:
  Computed(const TABLE *table, TABLE *altered, const Alter_inplace_info *info)
      : table_(table),
        altered_(altered),
        info_(info),
        before_(fields_before(altered, info)),
        definitions_(altered->s->fields, nullptr),
        changes_(altered->s->fields, ValueChange::kNone) {
    List_iterator_fast<Create_field> definitions(info->alter_info->create_list);
    for (const Create_field *&definition : definitions_)
      if ((definition = definitions++) == nullptr) break;
    for (uint i = 0; i < altered->s->fields; i++) changes_[i] = change_of(i);
  }

  const char *reason() const {
    if (const char *rounded = refuse_rounding()) return rounded;
    if (const char *partition = refuse_partition()) return partition;
    if (const char *generated = refuse_generated()) return generated;
    return refuse_constraints();
  }

 private:
  // A new column counts as changed, because it may have the name of a dropped column that is computed with.
  ValueChange change_of(uint number) const {
    const Field *field = altered_->field[number], *before = before_[number];
    if (field->flags & LONG_UNIQUE_HASH_FIELD) return ValueChange::kNone;
    if (before == nullptr || has_new_expression(number)) return ValueChange::kValues;
    return value_change(*before, *field);
  }

  bool has_new_expression(uint number) const {
    return !is_same(before_[number]->vcol_info, definitions_[number]->vcol_info);
  }

  // Whether an expression that the ALTER may repeat is the one that the table has. If columns are renamed, a
  // name of the repeated expression may be that of another column.
  bool is_same(const Virtual_column_info *before, const Virtual_column_info *after) const {
    if (before == after) return true;
    if (before == nullptr || after == nullptr) return false;
    return (info_->handler_flags & ALTER_COLUMN_NAME) == 0 && before->is_equal(after, true);
  }

  // Whether the result may be another one for the same values of columns.
  bool may_differ(Virtual_column_info *expression) const {
    if ((info_->handler_flags & ALTER_COLUMN_DEFAULT) != 0 && uses_default(*expression)) return true;
    return table_->s->table_charset != altered_->s->table_charset && uses_charset_of_table(expression);
  }

  // Whether the result of the expression may be another one for an existing row.
  bool changes(Virtual_column_info *expression) const {
    Fields named(changes_.size());
    add_named(altered_, *expression, &named);
    if (may_differ(expression)) return true;
    bool longer = false, looks_at_length = uses_length_of_column(expression);
    for (uint i = 0; i < changes_.size(); i++) {
      if (!named[i]) continue;
      if (changes_[i] == ValueChange::kValues) return true;
      longer = longer || changes_[i] == ValueChange::kLength;
      Virtual_column_info *step = altered_->field[i]->vcol_info;
      if (step == nullptr) continue;
      if (may_differ(step)) return true;
      looks_at_length = looks_at_length || uses_length_of_column(step);
    }
    return longer && looks_at_length;
  }

  bool changes(const Field &generated) const {
    return changes_[generated.field_index] == ValueChange::kValues || changes(generated.vcol_info);
  }

  // FLOAT(10,5) to FLOAT(10,2): the server believes that both are the same type. A copy rounds the values.
  const char *refuse_rounding() const {
    for (uint i = 0; i < changes_.size(); i++)
      if (before_[i] != nullptr && altered_->field[i]->stored_in_db() &&
          rounds_values(*before_[i], *altered_->field[i]))
        return "values are rounded to fewer decimals";
    return nullptr;
  }

  const char *refuse_partition() const {
    for (uint i = 0; i < table_->s->fields; i++) {
      const Field *field = table_->field[i];
      if ((field->flags & FIELD_IN_PART_FUNC_FLAG) == 0) continue;
      const auto after = std::find(before_.begin(), before_.end(), field);
      if (after == before_.end()) return kPartition;  // it is dropped; a new one may have its name
      const size_t number = static_cast<size_t>(after - before_.begin());
      if (exchanges_names(*field, *altered_->field[number]) ||
          !keeps_partition(*field, *altered_->field[number]))
        return kPartition;
    }
    return nullptr;
  }

  // Whether the column gets the name of another one, or another one gets its name. If two columns exchange
  // their names, the server leaves the names in PARTITION BY KEY and COLUMNS as they are.
  bool exchanges_names(const Field &before, const Field &after) const {
    if (is_same_name(before.field_name, after.field_name)) return false;
    return has_field(altered_, before.field_name) || has_field(table_, after.field_name);
  }

  bool keeps_partition(const Field &before, const Field &after) const {
    if (after.vcol_info != nullptr && changes(after)) return false;
    switch (changes_[after.field_index]) {
      case ValueChange::kNone:
        return true;
      case ValueChange::kLength:
        return keeps_partition_hash(before, after);
      case ValueChange::kValues:
        return false;
    }
    return false;
  }

  const char *refuse_generated() const {
    for (uint i = 0; i < changes_.size(); i++) {
      const Field *field = altered_->field[i];
      if (before_[i] != nullptr && field->vcol_info != nullptr && field->stored_in_db() && changes(*field))
        return kGenerated;
    }
    for (uint i = 0; i < altered_->s->keys; i++) {
      const KEY &key = altered_->key_info[i];
      if (!is_rebuilt(key, info_) && indexes_changed_values(key)) return kGenerated;
    }
    return nullptr;
  }

  // Only virtual columns can have other values in entries that stay: ha_atoll::compare_key_parts() has the
  // indexes on other columns rebuilt.
  bool indexes_changed_values(const KEY &key) const {
    for (uint part = 0; part < key.user_defined_key_parts; part++) {
      const Field *field = altered_->field[key.key_part[part].fieldnr - 1];
      if (field->vcol_info != nullptr && !field->stored_in_db() && changes(*field)) return true;
    }
    return false;
  }

  // A new constraint of the whole table has a flag of its own, see alter_support.cc. For a column's new
  // constraint the server sets no flag.
  const char *refuse_constraints() const {
    if (altered_->in_use->variables.option_bits & OPTION_NO_CHECK_CONSTRAINT_CHECKS) return nullptr;
    for (Virtual_column_info **check = altered_->check_constraints; check != nullptr && *check != nullptr;
         check++) {
      const Field *column = column_of_new(*check);
      if (column != nullptr ? !holds_for_all_rows(*check) : changes(*check)) return kConstraint;
    }
    return nullptr;
  }

  // Returns the column whose new constraint this is; nullptr: the constraint existed before.
  const Field *column_of_new(Virtual_column_info *check) const {
    for (uint i = 0; i < changes_.size(); i++)
      if (altered_->field[i]->check_constraint == check)
        return had_constraint(i, check) ? nullptr : altered_->field[i];
    return nullptr;
  }

  bool had_constraint(uint number, Virtual_column_info *check) const {
    const Field *before = before_[number], *after = altered_->field[number];
    if (before == nullptr || before->check_constraint == nullptr) return false;
    const Create_field *definition = definitions_[number];
    if (is_same(before->check_constraint, definition == nullptr ? check : definition->check_constraint))
      return true;
    // A JSON column that is renamed has the same constraint, with the new name.
    return is_json_constraint(check, after) && (is_json_constraint(before->check_constraint, before) ||
                                                is_json_constraint(before->check_constraint, after));
  }

  // Whether a new constraint is true for all existing rows. That is known if it names only new columns, which
  // have the same value in all these rows.
  bool holds_for_all_rows(Virtual_column_info *check) const {
    Fields named(changes_.size());
    add_named(altered_, *check, &named);
    for (uint i = 0; i < changes_.size(); i++) {
      const Field *field = altered_->field[i];
      const bool one_value = before_[i] == nullptr && field->vcol_info == nullptr &&
                             (field->default_value == nullptr || field->default_value->expr->const_item());
      if (named[i] && !one_value) return false;
    }
    const bool is_true = check->expr->val_bool();
    return is_true || check->expr->null_value;
  }

  const TABLE *table_;
  TABLE *altered_;
  const Alter_inplace_info *info_;
  const std::vector<const Field *> before_;        // by field of the altered table; nullptr: a new column
  std::vector<const Create_field *> definitions_;  // by field of the altered table; nullptr: a hidden one
  std::vector<ValueChange> changes_;               // by field of the altered table
};

std::vector<std::string> constraints_of(const TABLE *table) {
  std::vector<std::string> texts;
  for (Virtual_column_info **check = table->check_constraints; check != nullptr && *check != nullptr; check++)
    texts.push_back(text_of(*check));
  std::sort(texts.begin(), texts.end());
  return texts;
}

}  // namespace

bool can_exchange_rows(const TABLE *table, const TABLE *other) {
  if (table->s->fields != other->s->fields) return false;
  for (uint i = 0; i < table->s->fields; i++) {
    const ValueChange change = value_change(*table->field[i], *other->field[i]);
    const bool only_width = change == ValueChange::kLength && is_integer(table->field[i]);
    if (change != ValueChange::kNone && !only_width) return false;
  }
  const bool has_expressions = table->vfield != nullptr || table->check_constraints != nullptr;
  if (has_expressions && table->s->table_charset != other->s->table_charset) return false;
  return constraints_of(table) == constraints_of(other);
}

const char *refuse_stale_computed(const TABLE *table, TABLE *altered, const Alter_inplace_info *info) {
  return Computed(table, altered, info).reason();
}

}  // namespace atoll::handler
