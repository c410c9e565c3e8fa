// See clauses.h.
#include "handler/server.h"

#include "handler/foreign/clauses.h"

#include <algorithm>

#include "engine/running.h"
#include "handler/ddl/table_name.h"
#include "handler/foreign/clause_text.h"
#include "handler/foreign/latest_error.h"
#include "handler/server/compat/names.h"
#include "table/foreign/constraint_fit.h"

namespace atoll::handler {
namespace {

using catalog::ForeignKeyDef;
using catalog::ReferenceAction;
using catalog::TableDescription;
using table::Misfit;

std::string text_of(const LEX_CSTRING &text) { return std::string(text.str, text.length); }

// The name of the file of a database or table of which SQL gives the name.
std::string stored_name(const LEX_CSTRING &sql_name) {
  std::string name = text_of(sql_name);
  if (lower_case_table_names != 0) name = in_lower_case(files_charset_info, std::move(name));
  return file_name_of(name.c_str());
}

std::vector<std::string> names_of(const List<Key_part_spec> &columns) {
  std::vector<std::string> names;
  List_iterator_fast<Key_part_spec> each(const_cast<List<Key_part_spec> &>(columns));
  while (const Key_part_spec *column = each++) names.push_back(text_of(column->field_name));
  return names;
}

ReferenceAction action_of(enum_fk_option option) {
  switch (option) {
    case FK_OPTION_CASCADE:
      return ReferenceAction::kCascade;
    case FK_OPTION_SET_NULL:
      return ReferenceAction::kSetNull;
    case FK_OPTION_NO_ACTION:
      return ReferenceAction::kNoAction;
    case FK_OPTION_SET_DEFAULT:
      return ReferenceAction::kSetDefault;
    case FK_OPTION_RESTRICT:
    case FK_OPTION_UNDEF:
      break;
  }
  return ReferenceAction::kRestrict;
}

// How messages name a clause: by the name in it, or by its columns, cut after some 48 characters.
std::string shown_clause(const Foreign_key &clause) {
  constexpr size_t kBytesMax = 48;
  if (clause.name.str != nullptr) return "`" + text_of(clause.name).substr(0, kBytesMax - 2) + "`";
  const std::vector<std::string> columns = names_of(clause.columns);
  std::string text = "(";
  for (size_t i = 0; i < columns.size(); i++) {
    const bool is_last = i + 1 == columns.size();
    if (text.size() + columns[i].size() + (is_last ? 4 : 6) > kBytesMax) return text + "...)";
    text += columns[i] + (is_last ? "" : ", ");
  }
  return text + ")";
}

// Writes each name as the table has it. Returns the position of the first name that no column has; the number
// of names: each is the name of a column.
size_t find_columns(const TableDescription &table, std::vector<std::string> *names) {
  for (size_t i = 0; i < names->size(); i++) {
    const int column = table.find_column((*names)[i]);
    if (column < 0) return i;
    (*names)[i] = table.columns[static_cast<size_t>(column)].name;
  }
  return names->size();
}

// Whether a cascade may change the columns of a row that stays.
bool changes_rows(const ForeignKeyDef &key) {
  return key.on_delete == ReferenceAction::kSetNull || key.on_update == ReferenceAction::kSetNull ||
         key.on_update == ReferenceAction::kCascade;
}

// The numbers of the columns from which stored generated columns are computed.
std::vector<bool> bases_of_stored_columns(TABLE *form) {
  MY_BITMAP *const read_set = form->read_set;
  form->read_set = &form->tmp_set;
  bitmap_clear_all(form->read_set);
  for (uint i = 0; i < form->s->fields; i++) {
    const Field *field = form->field[i];
    if (field->vcol_info != nullptr && field->stored_in_db())
      field->vcol_info->expr->walk(&Item::register_field_in_read_map, true, nullptr);
  }
  std::vector<bool> bases(form->s->fields);
  for (uint i = 0; i < form->s->fields; i++) bases[i] = bitmap_is_set(form->read_set, i);
  form->read_set = read_set;
  return bases;
}

}  // namespace

std::string source_text(const Foreign_key &clause) {
  const auto list = [](const List<Key_part_spec> &columns) {
    std::string text;
    for (const std::string &name : names_of(columns)) text += (text.empty() ? "" : ", ") + name;
    return "(" + text + ")";
  };
  const LEX_CSTRING &name = clause.constraint_name.str != nullptr ? clause.constraint_name : clause.name;
  std::string text = "FOREIGN KEY ";
  if (name.str != nullptr) text += text_of(name) + " ";
  text += list(clause.columns) + " REFERENCES ";
  if (clause.ref_db.str != nullptr) text += text_of(clause.ref_db) + ".";
  text += text_of(clause.ref_table);
  return text + (clause.ref_columns.elements == 0 ? "" : " " + list(clause.ref_columns));
}

const Foreign_key *first_new_clause(const Alter_info &info) {
  List_iterator_fast<Key> keys(const_cast<List<Key> &>(info.key_list));
  while (const Key *key = keys++)
    if (key->type == Key::FOREIGN_KEY && !key->old) return static_cast<const Foreign_key *>(key);
  return nullptr;
}

std::string generated_prefix(const std::string &table) { return sql_name(table) + "_ibfk_"; }

// The highest N of the constraints TABLE_ibfk_N.
static uint64_t highest_generated_number(const std::string &table,
                                         const std::vector<ForeignKeyDef> &foreign_keys) {
  const std::string prefix = generated_prefix(table);
  uint64_t highest = 0;
  for (const ForeignKeyDef &key : foreign_keys) {
    if (!key.name.starts_with(prefix)) continue;
    const std::string digits = key.name.substr(prefix.size());
    if (digits.empty() || digits[0] == '0' || digits.find_first_not_of("0123456789") != std::string::npos)
      continue;
    highest = std::max<uint64_t>(highest, std::strtoull(digits.c_str(), nullptr, 10));
  }
  return highest;
}

int ForeignKeyClauses::read(const Alter_info &info) {
  // If the statement renames the table, generated names of present constraints follow, with their numbers.
  for (const std::string &name : {context_.table.name, context_.former_name})
    next_number_ = std::max(next_number_, highest_generated_number(name, context_.table.foreign_keys) + 1);
  List_iterator_fast<Key> keys(const_cast<List<Key> &>(info.key_list));
  while (const Key *key = keys++) {
    if (key->type != Key::FOREIGN_KEY || key->old) continue;
    clause_ = static_cast<const Foreign_key *>(key);
    if (const int error = read_clause(); error != 0) return error;
  }
  return added_.empty() ? 0 : check_stored_columns();
}

int ForeignKeyClauses::read_clause() {
  if (context_.table.description.columns.empty()) return refuse(ClauseError::kOther, "");
  ForeignKeyDef key;
  key.columns = names_of(clause_->columns);
  key.parent_columns = names_of(clause_->ref_columns);
  key.parent_database =
      clause_->ref_db.str == nullptr ? context_.table.database : stored_name(clause_->ref_db);
  key.parent_table = stored_name(clause_->ref_table);
  key.on_delete = action_of(clause_->delete_opt);
  key.on_update = action_of(clause_->update_opt);
  if (const int error = check_child(&key); error != 0) return error;
  if (const int error = choose_name(&key); error != 0) return error;
  if (const int error = check_parent(&key); error != 0) return error;
  added_.push_back(std::move(key));
  return 0;
}

int ForeignKeyClauses::check_child(ForeignKeyDef *key) {
  const TableDescription &child = context_.table.description;
  if (const size_t missing = find_columns(child, &key->columns); missing < key->columns.size())
    return refuse(ClauseError::kOther, " foreign key " + shown_clause(*clause_) +
                                           " constraint failed. Column " + key->columns[missing] +
                                           " was not found.");
  const table::FoundIndex found = table::find_index(child, key->columns, {});
  if (found.index >= 0) return 0;
  return refuse_index(static_cast<int>(found.misfit), key->columns.front(), "");
}

int ForeignKeyClauses::choose_name(ForeignKeyDef *key) {
  const LEX_CSTRING &given = clause_->constraint_name;
  key->name = given.str != nullptr ? text_of(given)
                                   : generated_prefix(context_.table.name) + std::to_string(next_number_++);
  name_ = key->name;
  if (system_charset_info->numchars(key->name.data(), key->name.data() + key->name.size()) > NAME_CHAR_LEN) {
    my_error(ER_TOO_LONG_IDENT, MYF(0), key->name.c_str());
    return HA_ERR_INTERNAL_ERROR;
  }
  const auto has_name = [key](const ForeignKeyDef &other) {
    return catalog::same_name(other.name, key->name);
  };
  const auto same = std::find_if(added_.begin(), added_.end(), has_name);
  if (same == added_.end() &&
      !engine::running()->catalog()->with_foreign_key(context_.table.database, key->name))
    return 0;
  error_ = ClauseError::kName;
  // InnoDB finds the same name at once, and another case only when it stores the constraints, in the order of
  // their names.
  if (same != added_.end() && same->name == key->name) return HA_ERR_CANNOT_ADD_FOREIGN;
  if (same != added_.end() && same->name > key->name) *key = *same;
  warn(HA_ERR_FOUND_DUPP_KEY,
       "CREATE or ALTER TABLE " + quoted_table(context_.thd, context_.table.database, context_.table.name) +
           " failed: duplicate name, " + clause_text(context_.thd, context_.table, *key));
  return HA_ERR_FOUND_DUPP_KEY;
}

int ForeignKeyClauses::check_parent(ForeignKeyDef *key) {
  const catalog::TableDef &child = context_.table;
  const bool is_self = key->parent_database == child.database && key->parent_table == child.name;
  const catalog::TablePtr other =
      is_self ? nullptr : engine::running()->catalog()->find(key->parent_database, key->parent_table);
  const std::string clause = shown_clause(*clause_);
  if (!is_self && (!other || other->logical_only)) {
    if ((context_.thd->variables.option_bits & OPTION_NO_FOREIGN_KEY_CHECKS) != 0) return check_actions(*key);
    return refuse(ClauseError::kOther,
                  " with foreign key " + clause + " constraint failed. Referenced table " +
                      quoted_table(context_.thd, key->parent_database, key->parent_table) +
                      " not found in the data dictionary.");
  }
  const TableDescription &parent = is_self ? child.description : other->description;
  if (!parent.is_known())
    return refuse(ClauseError::kOther, " with foreign key " + clause +
                                           " constraint failed. An earlier version of Atoll has made the "
                                           "referenced table; open it once, for example by a SELECT.");
  if (const size_t missing = find_columns(parent, &key->parent_columns); missing < key->parent_columns.size())
    return refuse(ClauseError::kOther, " foreign key " + clause + " constraint failed. Column " +
                                           key->parent_columns[missing] + " was not found.");
  const table::FoundIndex found = table::find_parent_index(child.description, *key, parent);
  if (found.index >= 0) {
    const int error = check_actions(*key);
    return error != 0 ? error : check_null_cascade(*key, parent);
  }
  return refuse_index(static_cast<int>(found.misfit), key->columns[found.column],
                      key->parent_columns[found.column]);
}

int ForeignKeyClauses::check_actions(const ForeignKeyDef &key) {
  if (key.on_delete != ReferenceAction::kSetNull && key.on_update != ReferenceAction::kSetNull) return 0;
  for (const catalog::ColumnDescription *column :
       table::columns_of(context_.table.description, key.columns)) {
    if (column->nullable) continue;
    return refuse(ClauseError::kSetNull, " with foreign key " + shown_clause(*clause_) +
                                             " constraint failed. You have defined a SET NULL condition but "
                                             "column '" +
                                             column->name + "' is defined as NOT NULL.");
  }
  return 0;
}

// In a strict sql_mode, refuses ON UPDATE CASCADE from a column that may become NULL to one that may not.
// Like InnoDB, gives no reason beside the error, and accepts the clause with ON DELETE CASCADE or NO ACTION.
int ForeignKeyClauses::check_null_cascade(const ForeignKeyDef &key, const TableDescription &parent) {
  if (key.on_update != ReferenceAction::kCascade || !context_.thd->is_strict_mode()) return 0;
  if (key.on_delete == ReferenceAction::kCascade || key.on_delete == ReferenceAction::kNoAction) return 0;
  const auto own = table::columns_of(context_.table.description, key.columns);
  const auto others = table::columns_of(parent, key.parent_columns);
  for (size_t i = 0; i < own.size(); i++) {
    if (own[i]->nullable || !others[i]->nullable) continue;
    error_ = ClauseError::kOther;
    return HA_ERR_CANNOT_ADD_FOREIGN;
  }
  return 0;
}

// A cascade cannot compute a stored generated column anew.
int ForeignKeyClauses::check_stored_columns() const {
  const std::vector<bool> bases = bases_of_stored_columns(context_.form);
  const TableDescription &child = context_.table.description;
  for (const ForeignKeyDef &key : added_) {
    if (!changes_rows(key)) continue;
    for (const std::string &column : key.columns) {
      if (!bases[static_cast<size_t>(child.find_column(column))]) continue;
      warn(HA_ERR_CANNOT_ADD_FOREIGN,
           "Create table '" + context_.table.database + "/" + context_.table.name +
               "' with foreign key constraint failed. Cannot add foreign key constraint placed on the base "
               "column of stored column. ");
      return HA_ERR_CANNOT_ADD_FOREIGN;
    }
  }
  return 0;
}

int ForeignKeyClauses::refuse_index(int misfit, const std::string &column, const std::string &other) {
  std::string reason = " with foreign key " + shown_clause(*clause_) + " constraint failed. ";
  switch (static_cast<Misfit>(misfit)) {
    case Misfit::kNone:
    case Misfit::kNoIndex:
      reason +=
          "There is no index in the referenced table where the referenced columns appear as the first "
          "columns.";
      break;
    case Misfit::kPrefixIndex:
      reason +=
          "There is only prefix index in the referenced table where the referenced columns appear as the "
          "first columns.";
      break;
    case Misfit::kTypes:
      reason += "Field type or character set for column '" + column + "' does not match referenced column '" +
                other + "'.";
      break;
  }
  return refuse(ClauseError::kParentIndex, reason);
}

int ForeignKeyClauses::refuse(ClauseError error, const std::string &reason) {
  error_ = error;
  warn(HA_ERR_CANNOT_ADD_FOREIGN,
       std::string(context_.is_alter ? "Alter " : "Create ") + " table " +
           quoted_table(context_.thd, context_.table.database, context_.table.name) + reason);
  return HA_ERR_CANNOT_ADD_FOREIGN;
}

void ForeignKeyClauses::warn(uint code, const std::string &text) const {
  note_foreign_key_error(text);
  if (context_.warns) push_warning(context_.thd, Sql_condition::WARN_LEVEL_WARN, code, text.c_str());
}

}  // namespace atoll::handler
