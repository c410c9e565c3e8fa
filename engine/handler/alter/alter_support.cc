// ha_atoll: decides how an ALTER is done. There are three ways. The first one that can do the whole statement
// is used:
//   instant   only the catalog changes; existing rows are read by the layout that they were written with
//   in place  indexes are built from the rows, or the whole table is built anew: under another primary key,
//             without a primary key, or in another column family. Others can write meanwhile (online_build.h)
//   copy      the server makes a new table and fills it (table/copy/bulk_copy.h)
#include "handler/ha_atoll.h"

#include <algorithm>

#include "engine/running.h"
#include "handler/alter/alter_definition.h"
#include "handler/alter/computed.h"
#include "handler/alter/gained_numbers.h"
#include "handler/foreign/alter.h"
#include "handler/server/compat/names.h"
#include "handler/server/description.h"
#include "handler/server/field_map.h"
#include "table/write/large_rows.h"
#include "handler/ddl/table_options.h"

namespace ah = atoll::handler;
namespace catalog = atoll::catalog;

namespace {

constexpr alter_table_operations kDefinitionOnly =
    ALTER_RENAME_INDEX | ALTER_INDEX_IGNORABILITY | ALTER_COLUMN_DEFAULT | ALTER_COLUMN_NAME |
    ALTER_CHANGE_INDEX_COMMENT | ALTER_DROP_CHECK_CONSTRAINT | ALTER_INDEX_ORDER | ALTER_RENAME |
    ALTER_PARTITIONED | ALTER_COLUMN_OPTION | ALTER_COLUMN_INDEX_LENGTH | ALTER_CONVERT_TO |
    ALTER_ADD_FOREIGN_KEY | ALTER_DROP_FOREIGN_KEY;
constexpr alter_table_operations kColumns = ALTER_ADD_STORED_BASE_COLUMN | ALTER_DROP_STORED_COLUMN |
                                            ALTER_STORED_COLUMN_ORDER | ALTER_COLUMN_NULLABLE |
                                            ALTER_COLUMN_TYPE_CHANGE_BY_ENGINE;
constexpr alter_table_operations kVirtualColumns = ALTER_ADD_VIRTUAL_COLUMN | ALTER_DROP_VIRTUAL_COLUMN |
                                                   ALTER_VIRTUAL_COLUMN_ORDER | ALTER_VIRTUAL_GCOL_EXPR;
constexpr alter_table_operations kAddIndex = ALTER_ADD_NON_UNIQUE_NON_PRIM_INDEX | ALTER_ADD_UNIQUE_INDEX;
constexpr alter_table_operations kPrimaryKey = ALTER_ADD_PK_INDEX | ALTER_DROP_PK_INDEX;
constexpr alter_table_operations kDropIndex = ALTER_DROP_NON_UNIQUE_NON_PRIM_INDEX | ALTER_DROP_UNIQUE_INDEX;

std::string_view primary_name(const TABLE *table) {
  if (table->s->primary_key == MAX_KEY) return {};
  const LEX_CSTRING &name = table->key_info[table->s->primary_key].name;
  return {name.str, name.length};
}

bool has_long_unique(const TABLE *table) {
  for (uint i = 0; i < table->s->keys; i++)
    if (table->key_info[i].algorithm == HA_KEY_ALG_LONG_HASH) return true;
  return false;
}

// Whether the records of both tables have the same columns, each of the same kind and length and at the same
// position.
bool same_records(const TABLE *table, const TABLE *altered) {
  const TABLE_SHARE *before = table->s, *after = altered->s;
  if (before->fields != after->fields || before->reclength != after->reclength) return false;
  for (uint i = 0; i < before->fields; i++) {
    const atoll::codec::Column a = ah::column_of(before, before->field[i], 0);
    const atoll::codec::Column b = ah::column_of(after, after->field[i], 0);
    if (a.kind != b.kind || a.record_offset != b.record_offset || a.length != b.length ||
        a.null_offset != b.null_offset || a.null_mask != b.null_mask)
      return false;
  }
  return true;
}

// Finds the reason why an ALTER needs a copy of the table.
class Refusal {
 public:
  Refusal(const TABLE *table, TABLE *altered, const Alter_inplace_info *info)
      : table_(table),
        altered_(altered),
        info_(info),
        flags_(info->handler_flags),
        rekeys_(ah::changes_primary_key(primary_name(table), altered, info)) {}

  // Returns why the ALTER needs a copy; nullptr: it needs none. The text is the server's own message if the
  // server has one.
  const char *reason(const catalog::TableDef &def) {
    if (const char *references = ah::refuse_changed_columns(def, table_, info_)) return references;
    if (const char *options = refuse_options()) return options;
    if (const char *rewrite = refuse_rewrite(def)) return rewrite;
    if (const char *rest = refuse_flags()) return rest;
    if (const char *primary = refuse_primary_key()) return primary;
    if (const char *ordinals = refuse_ordinals(def)) return ordinals;
    for (uint i = 0; i < info_->index_add_count; i++)
      if (const char *index = refuse_index(info_->key_info_buffer[info_->index_add_buffer[i]])) return index;
    if (const char *period = refuse_period()) return period;
    if (const char *computed = ah::refuse_stale_computed(table_, altered_, info_)) return computed;
    if ((flags_ & (kColumns | kVirtualColumns)) == 0) return nullptr;
    if (has_long_unique(table_) || has_long_unique(altered_))
      return "columns of a table with a UNIQUE key of unlimited length change";
    if (def.versions.size() >= ah::kSchemaVersionsMax)
      return "the table was altered too often without being rewritten; use ALTER TABLE ... FORCE";
    return refuse_columns();
  }

 private:
  // Table options change only the definition: Atoll's own ones, which concern the rows, are compared by
  // rewrites_rows(). SEQUENCE makes a table a sequence, or a sequence a table.
  const char *refuse_options() {
    flags_ &= ~ALTER_CHANGE_CREATE_OPTION;
    const bool changes_kind = (info_->create_info->used_fields & HA_CREATE_USED_SEQUENCE) != 0;
    return changes_kind ? "a table becomes a sequence, or a sequence becomes a table" : nullptr;
  }

  // An ALTER that rewrites the rows writes them unchanged, so columns and indexes must not change in the same
  // statement.
  const char *refuse_rewrite(const catalog::TableDef &def) {
    flags_ &= ~ALTER_RECREATE_TABLE;
    if (!ah::rewrites_rows(def, altered_, info_)) return nullptr;
    atoll::lsm::Compression compression;
    bool is_explicit = false;
    if (!ah::compression_of(altered_->s->option_struct, &compression, &is_explicit).ok())
      return "the options of the table do not fit together";  // create() of the copy says which options
    if (has_long_unique(table_)) return "a table with a UNIQUE key of unlimited length is written anew";
    if ((flags_ & ~kDefinitionOnly) != 0 || !same_records(table_, altered_))
      return "the table is written anew, and columns or indexes change";
    if (table_->s->table_type == TABLE_TYPE_SEQUENCE) return "a sequence is written anew";
    return nullptr;
  }

  const char *refuse_flags() const {
    const alter_table_operations rest =
        flags_ & ~(kDefinitionOnly | kColumns | kVirtualColumns | kAddIndex | kDropIndex | kPrimaryKey);
    if (rest == 0) return nullptr;
    if (rest & (ALTER_STORED_COLUMN_TYPE | ALTER_VIRTUAL_COLUMN_TYPE))
      return my_get_err_msg(ER_ALTER_OPERATION_NOT_SUPPORTED_REASON_COLUMN_TYPE);
    if (rest & ALTER_COLUMN_NOT_NULLABLE) return "rows may hold NULL in a column that becomes NOT NULL";
    if (rest & ALTER_ADD_CHECK_CONSTRAINT) return "the rows must be checked against a new constraint";
    if (rest & (ALTER_ADD_STORED_GENERATED_COLUMN | ALTER_STORED_GCOL_EXPR | ALTER_COLUMN_VCOL))
      return "the values of a generated column must be computed";
    return "ATOLL needs a copy of the table for this change";
  }

  const char *refuse_primary_key() const {
    if (!rekeys_) return nullptr;
    if ((flags_ & (kColumns | kVirtualColumns)) != 0 || !same_records(table_, altered_))
      return "the primary key changes together with columns";
    if (has_long_unique(table_) || has_long_unique(altered_))
      return "the primary key of a table with a UNIQUE key of unlimited length changes";
    return nullptr;
  }

  const char *refuse_ordinals(const catalog::TableDef &def) const {
    if (info_->index_add_count == 0 && !rekeys_) return nullptr;
    // The ALTER needs at most this many new ordinals (IndexLayout::ordinal, a part of each key of an index):
    // one for each index, one for a hidden primary key, and one for the claims of a new primary key
    // (table/online/online_claims.h).
    const size_t indexes = size_t{altered_->s->keys} + 2;
    return def.has_ordinals(indexes) ? nullptr : "all numbers for indexes have been used; a copy starts anew";
  }

  const char *refuse_index(const KEY &key) const {
    if (info_->ignore && (key.flags & HA_NOSAME))
      return my_get_err_msg(ER_ALTER_OPERATION_NOT_SUPPORTED_REASON_IGNORE);  // IGNORE deletes duplicate rows
    if (key.algorithm == HA_KEY_ALG_LONG_HASH) return "a UNIQUE key of unlimited length is checked by rows";
    if (ah::is_fulltext(key) || ah::is_spatial(key)) return "ATOLL has no FULLTEXT or SPATIAL index";
    return nullptr;
  }

  // The server considers a key equal that is made anew over the same columns WITHOUT OVERLAPS.
  const char *refuse_period() const {
    for (uint i = 0; i < info_->key_count; i++) {
      const KEY &key = info_->key_info_buffer[i];
      for (uint j = 0; j < table_->s->keys; j++) {
        const KEY &before = table_->key_info[j];
        if (key.without_overlaps && !before.without_overlaps && ah::same_name(key, before))
          return "the periods of the rows must be compared";
      }
    }
    return nullptr;
  }

  const char *refuse_columns() const {
    const std::vector<const Field *> before = ah::fields_before(altered_, info_);
    for (uint i = 0; i < altered_->s->fields; i++) {
      const Field *field = altered_->field[i];
      if (!field->stored_in_db()) continue;
      const char *refused =
          before[i] == nullptr ? refuse_new_column(field) : refuse_nullable_key(*before[i], *field);
      if (refused != nullptr) return refused;
    }
    return nullptr;
  }

  // All existing rows get the same value for a new column, so the value must not depend on the row.
  const char *refuse_new_column(const Field *field) const {
    if (field->flags & AUTO_INCREMENT_FLAG)
      return my_get_err_msg(ER_ALTER_OPERATION_NOT_SUPPORTED_REASON_AUTOINC);
    if (field->flags & (VERS_ROW_START | VERS_ROW_END)) return "rows get their period of validity";
    if (info_->error_if_not_empty) return "a column without a valid default needs an empty table";
    if (field->default_value != nullptr && !field->default_value->expr->const_item())
      return "the DEFAULT of a new column may be another value for each row";
    return nullptr;
  }

  // Refuses to make an indexed column nullable: the keys of a nullable column have a NULL marker that the
  // existing keys lack.
  const char *refuse_nullable_key(const Field &before, const Field &field) const {
    if ((before.null_ptr == nullptr) == (field.null_ptr == nullptr)) return nullptr;
    for (uint i = 0; i < altered_->s->keys; i++) {
      const KEY &key = altered_->key_info[i];
      for (uint part = 0; part < key.user_defined_key_parts; part++)
        if (key.key_part[part].fieldnr == field.field_index + 1) return "an indexed column becomes nullable";
    }
    return nullptr;
  }

  const TABLE *table_;
  TABLE *altered_;
  const Alter_inplace_info *info_;
  alter_table_operations flags_;
  const bool rekeys_;  // the primary key changes
};

// The partitioned table that gets the rows of `table` from the statement; nullptr: there is none. The
// statement may also have sequences, which DEFAULT names.
const TABLE *partitioned_table(const TABLE *table) {
  for (const TABLE_LIST *one = table->in_use->lex->query_tables; one != nullptr; one = one->next_global)
    if (one->table != nullptr && one->table != table && one->table->part_info != nullptr) return one->table;
  return nullptr;
}

}  // namespace

// The server asks this for EXCHANGE PARTITION and for CONVERT TABLE: do the table and the partition have the
// same columns?
bool ha_atoll::check_if_incompatible_data(HA_CREATE_INFO *info, uint changes) {
  const TABLE *const other = partitioned_table(table);
  const bool same = changes == IS_EQUAL_YES && !(info->used_fields & HA_CREATE_USED_AUTO) &&
                    (other == nullptr || ah::can_exchange_rows(table, other));
  return same ? COMPATIBLE_DATA_YES : COMPATIBLE_DATA_NO;
}

bool ha_atoll::can_convert_nocopy(const Field &field, const Column_definition &changed) const {
  return field.stored_in_db() && !is_temporary() &&
         (ah::keeps_stored_bytes(field, changed) || ah::becomes_auto_increment(field, changed));
}

// The server asks this when an indexed column changes. The index can stay only if the bytes of its keys stay
// as they are; otherwise the server has it rebuilt.
Compare_keys ha_atoll::compare_key_parts(const Field &before, const Column_definition &changed,
                                         const KEY_PART_INFO &old_part, const KEY_PART_INFO &new_part) const {
  if (before.is_equal(changed) || ah::becomes_auto_increment(before, changed))
    return old_part.length == new_part.length ? Compare_keys::Equal : Compare_keys::NotEqual;
  if (!ah::keeps_key_bytes(before, changed)) return Compare_keys::NotEqual;
  const bool was_whole = old_part.length == before.key_length();
  const bool is_whole = new_part.length == changed.length;
  if (was_whole != is_whole) return Compare_keys::NotEqual;  // the entries of a prefix lack the value's end
  if (old_part.length == new_part.length) return Compare_keys::Equal;
  return is_whole ? Compare_keys::EqualButKeyPartLength : Compare_keys::NotEqual;
}

// While rows are checked against a new constraint, no other session may write the table.
enum_alter_inplace_result ha_atoll::check_if_supported_inplace_alter(TABLE *altered,
                                                                     Alter_inplace_info *info) {
  const enum_alter_inplace_result result = choose_algorithm(altered, info);
  if (!ah::must_check_rows(ha_thd(), info)) return result;
  if (result == HA_ALTER_INPLACE_COPY_NO_LOCK) return HA_ALTER_INPLACE_COPY_LOCK;
  const bool is_cheap = result == HA_ALTER_INPLACE_NOCOPY_NO_LOCK || result == HA_ALTER_INPLACE_INSTANT;
  return is_cheap ? HA_ALTER_INPLACE_NOCOPY_LOCK : result;
}

enum_alter_inplace_result ha_atoll::choose_algorithm(TABLE *altered, Alter_inplace_info *info) {
  if (is_temporary() || open_table_.is_past()) return HA_ALTER_INPLACE_NOT_SUPPORTED;
  // Asks the catalog, because the layout may be older than an ALTER that has failed and has used up ordinals.
  const auto def = atoll::engine::running()->catalog()->find(layout()->def().id);
  if (const char *reason = Refusal(table, altered, info).reason(def ? *def : layout()->def())) {
    const bool may_copy = info->alter_info->algorithm(ha_thd()) <= Alter_info::ALTER_TABLE_ALGORITHM_COPY;
    if (!may_copy && def && ah::raise_changed_column(*def, table, info)) return HA_ALTER_ERROR;
    info->unsupported_reason = reason;
    return HA_ALTER_INPLACE_NOT_SUPPORTED;
  }
  if (const Field *numbers = ah::gained_numbers(altered, info); numbers != nullptr) {
    bool may_stay = false;
    if (!ah::numbers_may_stay(*layout(), table, numbers, &may_stay).ok() || !may_stay) {
      info->unsupported_reason = my_get_err_msg(ER_ALTER_OPERATION_NOT_SUPPORTED_REASON_AUTOINC);
      return HA_ALTER_INPLACE_NOT_SUPPORTED;
    }
  }
  const bool rekeys = ah::changes_primary_key(primary_name(table), altered, info);
  if (!rekeys && ah::rewrites_rows(layout()->def(), altered, info)) return HA_ALTER_INPLACE_COPY_NO_LOCK;
  if ((info->handler_flags & kAddIndex) == 0 && !rekeys) return HA_ALTER_INPLACE_INSTANT;
  uint64_t pieces = 0;
  if (rekeys && (!atoll::table::count_row_pieces(*layout(), 1, &pieces).ok() || pieces != 0)) {
    info->unsupported_reason = atoll::table::kPiecesHinderRekey;
    return HA_ALTER_INPLACE_NOT_SUPPORTED;
  }
  return rekeys ? HA_ALTER_INPLACE_COPY_NO_LOCK : HA_ALTER_INPLACE_NOCOPY_NO_LOCK;
}
