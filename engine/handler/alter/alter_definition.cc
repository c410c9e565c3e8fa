// See alter_definition.h.
#include "handler/server.h"

#include "handler/alter/alter_definition.h"

#include <algorithm>

#include "codec/column_access.h"
#include "handler/server/compat/names.h"
#include "handler/server/description.h"
#include "handler/ddl/outgrown.h"
#include "handler/ddl/table_options.h"

namespace atoll::handler {
namespace {

std::string name_of(const KEY &key) { return std::string(key.name.str, key.name.length); }

bool is_variable(codec::ColumnKind kind) { return kind != codec::ColumnKind::kFixed; }

// Whether rows of both versions are stored in the same bytes. The maximum length of a column of variable
// length does not matter.
bool same_rows(const std::vector<codec::PastColumn> &before, const std::vector<codec::PastColumn> &after) {
  const auto same = [](const codec::PastColumn &a, const codec::PastColumn &b) {
    return a.id == b.id && a.nullable == b.nullable && is_variable(a.kind) == is_variable(b.kind) &&
           (is_variable(a.kind) || a.length == b.length);
  };
  return std::equal(before.begin(), before.end(), after.begin(), after.end(), same);
}

// The value that existing rows get for an added column: the column's default at the time of the ALTER.
codec::ColumnDefault default_of(const TABLE *altered, const codec::Column &column) {
  codec::ColumnDefault value{column.id};
  const uint8_t *record = altered->record[0];
  value.null = codec::is_null(column, record);
  if (!value.null) value.value = codec::column_bytes(column, record);
  return value;
}

Status alter_columns(const Layout &before, const TABLE *altered, const Alter_inplace_info *info,
                     catalog::TableDef *def) {
  const std::vector<uint32_t> old_ids = std::move(def->column_ids);
  def->column_ids.clear();
  std::vector<codec::PastColumn> columns;
  const std::vector<const Field *> old_fields = fields_before(altered, info);
  for (uint i = 0; i < altered->s->fields; i++) {
    const Field *field = altered->s->field[i];
    if (!field->stored_in_db()) continue;
    const int stored = old_fields[i] == nullptr ? -1 : before.stored_column(old_fields[i]->field_index);
    if (old_fields[i] != nullptr && (stored < 0 || static_cast<size_t>(stored) >= old_ids.size()))
      return Status(Code::kInvalid,
                    std::string("column ") + field->field_name.str + " was not stored before");
    const uint32_t id = stored >= 0 ? old_ids[static_cast<size_t>(stored)] : def->next_column_id++;
    const codec::Column column = column_of(altered->s, field, id);
    if (stored < 0) def->defaults.push_back(default_of(altered, column));
    def->column_ids.push_back(id);
    columns.push_back({id, column.kind, column.length, column.null_offset >= 0});
  }
  std::erase_if(def->defaults, [&](const codec::ColumnDefault &value) {
    return std::find(def->column_ids.begin(), def->column_ids.end(), value.id) == def->column_ids.end();
  });
  if (same_rows(def->versions.back().columns, columns))
    def->versions.back().columns = std::move(columns);
  else
    def->versions.push_back({def->versions.back().version + 1, std::move(columns)});
  return Status::Ok();
}

// For 11.8 an index is the same one if its new name differs only in case, and the server lists no change.
void follow_case(const TABLE *altered, std::vector<catalog::IndexDef> *indexes) {
  for (catalog::IndexDef &index : *indexes)
    for (uint i = 0; i < altered->s->keys; i++)
      if (is_same_name({index.name.data(), index.name.size()}, altered->key_info[i].name))
        index.name = name_of(altered->key_info[i]);
}

void alter_indexes(const TABLE *altered, const Alter_inplace_info *info, AlteredDefinition *out) {
  std::vector<catalog::IndexDef> &indexes = out->def.indexes;
  std::erase_if(indexes, [info](const catalog::IndexDef &index) {
    return std::any_of(info->index_drop_buffer, info->index_drop_buffer + info->index_drop_count,
                       [&](const KEY *key) { return name_of(*key) == index.name; });
  });
  for (catalog::IndexDef &index : indexes) {
    for (const Alter_inplace_info::Rename_key_pair &pair : info->rename_keys) {
      if (index.name != name_of(*pair.old_key)) continue;
      index.name = name_of(*pair.new_key);
      break;
    }
  }
  follow_case(altered, &indexes);
  for (uint i = 0; i < info->index_add_count; i++) {
    const KEY &key = info->key_info_buffer[info->index_add_buffer[i]];
    catalog::IndexDef index;
    index.name = name_of(key);
    index.ordinal = out->def.next_ordinal++;
    index.unique = (key.flags & HA_NOSAME) != 0;
    indexes.push_back(index);
    out->added_indexes.push_back(index.name);
  }
}

// Defines all indexes anew. With another primary key every row gets a new key, and every index entry ends
// with its row's key.
void rekey(const TABLE *altered, AlteredDefinition *out) {
  out->rekeyed = true;
  out->def.indexes.clear();
  out->def.hidden_primary_key = altered->s->primary_key == MAX_KEY;
  define_indexes(altered, &out->def);
  out->claims_ordinal = out->def.next_ordinal++;
  for (const catalog::IndexDef &index : out->def.indexes) out->added_indexes.push_back(index.name);
}

// Notes that the table moves, and the compression of its new family. give_family() in alter.cc makes the
// family and sets `family_id`, `own_family` and `prefix`.
Status move(const TABLE *altered, AlteredDefinition *out) {
  out->moves = true;
  return compression_of(altered->s->option_struct, &out->def.compression, &out->def.compression_explicit);
}

}  // namespace

void define_indexes(const TABLE *table, catalog::TableDef *def) {
  const uint primary = table->s->primary_key;
  const auto define = [def](std::string name, bool unique) {
    catalog::IndexDef index;
    index.name = std::move(name);
    index.unique = unique;
    index.ordinal = def->next_ordinal++;
    def->indexes.push_back(std::move(index));
  };
  define(primary == MAX_KEY ? "" : name_of(table->key_info[primary]), true);
  for (uint i = 0; i < table->s->keys; i++)
    if (i != primary) define(name_of(table->key_info[i]), (table->key_info[i].flags & HA_NOSAME) != 0);
}

bool same_name(const KEY &a, const KEY &b) { return is_same_name(a.name, b.name); }

bool changes_primary_key(std::string_view name_before, const TABLE *altered, const Alter_inplace_info *info) {
  const uint primary = altered->s->primary_key;
  if (primary == MAX_KEY) return !name_before.empty();
  if ((info->handler_flags & (ALTER_ADD_PK_INDEX | ALTER_DROP_PK_INDEX)) != 0) return true;
  std::string expected(name_before);
  for (const Alter_inplace_info::Rename_key_pair &pair : info->rename_keys)
    if (name_of(*pair.old_key) == name_before) expected = name_of(*pair.new_key);
  return name_of(altered->key_info[primary]) != expected;
}

bool rewrites_rows(const catalog::TableDef &stored, const TABLE *altered, const Alter_inplace_info *info) {
  if (MoveOfOutgrown::is_running()) return MoveOfOutgrown::concerns(stored);
  if ((info->handler_flags & ALTER_RECREATE_TABLE) != 0) return true;
  if ((info->handler_flags & ALTER_CHANGE_CREATE_OPTION) == 0) return false;
  lsm::Compression compression;
  bool is_explicit = false;
  const Status status = compression_of(altered->s->option_struct, &compression, &is_explicit);
  return !status.ok() || is_explicit != stored.compression_explicit ||
         (is_explicit && compression != stored.compression);
}

std::vector<const Field *> fields_before(const TABLE *altered, const Alter_inplace_info *info) {
  std::vector<const Field *> fields;
  List_iterator_fast<Create_field> definitions(info->alter_info->create_list);
  while (const Create_field *definition = definitions++) fields.push_back(definition->field);
  fields.resize(altered->s->fields, nullptr);  // for hidden hash columns of long UNIQUE keys, which are last
  return fields;
}

Status alter_definition(const catalog::TableDef &stored, const Layout &before, const TABLE *altered,
                        const Alter_inplace_info *info, AlteredDefinition *out) {
  out->def = stored;
  out->def.description = describe(altered);
  ATOLL_RETURN_IF_ERROR(alter_columns(before, altered, info, &out->def));
  if (changes_primary_key(before.primary_index().name, altered, info))
    rekey(altered, out);
  else
    alter_indexes(altered, info, out);
  return rewrites_rows(stored, altered, info) ? move(altered, out) : Status::Ok();
}

}  // namespace atoll::handler
