// See cascade.h.
#include "handler/ha_atoll.h"

#include "handler/foreign/cascade.h"

#include "codec/large_row.h"
#include "handler/ddl/table_name.h"
#include "handler/handlerton.h"
#include "handler/write/virtual_columns.h"

// The server exports this function for engines, but no header declares it.
TABLE *find_fk_open_table(THD *thd, const char *db, size_t db_len, const char *table, size_t table_len);

namespace atoll::handler {

using catalog::ReferenceAction;
using Found = table::RowCursor::Found;

namespace {

// InnoDB's limit.
constexpr int kDepthMax = 15;

// A VARCHAR gets the value of a CHAR with the spaces at its end, as far as InnoDB stores them: at least as
// many bytes as the CHAR has characters.
void add_trailing_spaces(const Field &from, const Field &to, String *value) {
  if (from.real_type() != MYSQL_TYPE_STRING || to.real_type() != MYSQL_TYPE_VARCHAR) return;
  const CHARSET_INFO *charset = from.charset();
  const size_t length = value->length(), padded = from.char_length() * charset->mbminlen;
  if (length >= padded || value->numchars() + (padded - length) / charset->mbminlen > to.char_length())
    return;
  if (value->realloc(padded)) return;
  charset->fill(const_cast<char *>(value->ptr()) + length, padded - length, ' ');
  value->length(padded);
}

uchar *bytes_of(std::string *record) { return reinterpret_cast<uchar *>(record->data()); }

}  // namespace

Status Cascade::run(ha_atoll *parent, const ForeignLink &link, const ForeignChange &cause) {
  const auto &[database, name] = link.other;
  TABLE *table =
      find_fk_open_table(parent->thd(), database.data(), database.size(), name.data(), name.size());
  if (table == nullptr || table->file->ht != own_handlerton())
    return Status(Code::kInvalid, "the constraint " + link.constraint.name +
                                      " was made after the statement has begun; repeat the statement");
  Cascade cascade(parent, static_cast<ha_atoll *>(table->file), link, cause);
  ATOLL_RETURN_IF_ERROR(cascade.child_.load_foreign_keys(&cascade.keys_));
  return cascade.each_child();
}

Cascade::Cascade(ha_atoll *parent, ha_atoll *child, const ForeignLink &link, const ForeignChange &cause)
    : parent_(*parent),
      child_(*child),
      table_(child->get_table()),
      link_(link),
      cause_(cause),
      build_(child->share()->online_build()),
      newest_rows_(child->statement()),
      open_table_(&newest_rows_),
      cursor_(&open_table_, &row_locks_, child->view()),
      writer_(&open_table_, &row_locks_, child->view()) {
  open_table_.connect(child->locks(), false);
  open_table_.set_layout(child->share()->layout());
  open_table_.mutable_mode()->lock = table::RowLock::kExclusive;
  open_table_.mutable_mode()->may_change = true;
  cursor_.wanted().all = true;
  writer_.set_log(build_.get());
  writer_.set_check(this);
  if (open_table_.layout().former()) child->session()->note_change_of_moved(link.child->id);
}

Cascade::~Cascade() { cursor_.end_statement(); }

// ---- The children --------------------------------------------------------------------------------

// Whether the entries of the constraint's index tell all that the removal of a child needs: the columns of
// its keys. A large row may lie in pieces, of which only the row itself tells.
bool Cascade::entries_suffice() const {
  const bool removes = cause_.is_removal() && link_.constraint.on_delete == ReferenceAction::kCascade;
  if (!removes || table_->versioned() || table_->vfield != nullptr || build_) return false;
  if (keys_ != nullptr && keys_->plan()->has_children()) return false;
  if (open_table_.layout().row().may_exceed(codec::kLargeRowBytes)) return false;
  for (uint i = 0; i < table_->s->keys; i++)
    for (uint part = 0; part < table_->key_info[i].user_defined_key_parts; part++) {
      const Field *field = table_->field[table_->key_info[i].key_part[part].fieldnr - 1];
      if (!field->part_of_key.is_set(static_cast<uint>(link_.index))) return false;
    }
  return true;
}

Status Cascade::each_child() {
  std::string start;
  link_.key->append(cause_.old_record, &start);
  Found found = Found::kNone;
  cursor_.begin_index(link_.index);
  cursor_.wanted().locked_entries_suffice = entries_suffice();
  // The columns that are not in the entry.
  if (cursor_.wanted().locked_entries_suffice)
    memcpy(table_->record[0], table_->s->default_values, table_->s->reclength);
  const table::Seek seek{.key = start, .prefix = start, .parts = link_.columns.size(), .locks_at_once = true};
  ATOLL_RETURN_IF_ERROR(cursor_.search(seek, table_->record[0], &found));
  while (found == Found::kRow) {
    if (!is_history()) ATOLL_RETURN_IF_ERROR(take_child());
    ATOLL_RETURN_IF_ERROR(cursor_.next_same(table_->record[0], &found));
  }
  if (found != Found::kTooNew) return Status::Ok();
  return Status(Code::kInvalid, "the table is newer than the transaction's snapshot; repeat the transaction");
}

bool Cascade::is_history() const { return table_->versioned() && !table_->vers_end_field()->is_max(); }

// Removes or changes the row in record[0].
Status Cascade::take_child() {
  ATOLL_RETURN_IF_ERROR(check_chain());
  old_record_.assign(reinterpret_cast<const char *>(table_->record[0]), table_->s->reclength);
  if (cause_.is_removal() && link_.constraint.on_delete == ReferenceAction::kCascade)
    return change_row(bytes_of(&old_record_), nullptr);
  new_record_ = old_record_;
  ATOLL_RETURN_IF_ERROR(make_new_row(bytes_of(&new_record_)));
  if (new_record_ == old_record_) return Status::Ok();
  return change_row(bytes_of(&old_record_), bytes_of(&new_record_));
}

// Refuses a chain of cascades that is too long, and an update of a table that the chain updates already: it
// might have no end.
Status Cascade::check_chain() const {
  const bool updates = !(cause_.is_removal() && link_.constraint.on_delete == ReferenceAction::kCascade);
  int depth = 0;
  for (const ForeignChange *change = &cause_; change != nullptr; change = change->cause, depth++)
    if (updates && !change->is_removal() && change->table_id == link_.child->id) return refuse();
  if (depth < kDepthMax) return Status::Ok();
  push_warning_printf(child_.thd(), Sql_condition::WARN_LEVEL_WARN, HA_ERR_ROW_IS_REFERENCED,
                      "ATOLL: Cannot delete/update rows with cascading foreign key constraints that exceed "
                      "max depth of %d. Please drop extra constraints and try again",
                      kDepthMax);
  const Status refused = refuse();
  child_.session()->violation.error = HA_ERR_FK_DEPTH_EXCEEDED;
  return refused;
}

Status Cascade::refuse() const { return refuse_row(&child_, HA_ERR_ROW_IS_REFERENCED, link_); }

// ---- The new row ---------------------------------------------------------------------------------

// Sets the columns of the constraint to NULL, or to the values of the parent that have changed.
Status Cascade::make_new_row(uchar *record) const {
  const bool sets_null = action_of(link_, cause_) == ReferenceAction::kSetNull;
  for (size_t i = 0; i < link_.others.size(); i++) {
    Field *field = table_->field[link_.others[i]];
    if (!sets_null) {
      if (!differs(*parent_.get_table()->field[link_.columns[i]], cause_.old_record, cause_.new_record))
        continue;
      ATOLL_RETURN_IF_ERROR(set_value(link_.others[i], link_.columns[i], record));
      continue;
    }
    if (!field->real_maybe_null()) return refuse();
    field->set_null(record - table_->record[0]);
    memcpy(record + (field->ptr - table_->record[0]),
           table_->s->default_values + (field->ptr - table_->record[0]), field->pack_length());
  }
  return Status::Ok();
}

// Copies a value of the parent's new row into a column of the child. Both columns have the same type, but the
// child's text may be shorter, or of fixed length.
Status Cascade::set_value(uint16_t column, uint16_t parent_column, uchar *record) const {
  Field *to = table_->field[column], *from = parent_.get_table()->field[parent_column];
  const my_ptrdiff_t shift = record - table_->record[0];
  const my_ptrdiff_t from_shift = cause_.new_record - parent_.get_table()->record[0];
  if (from->is_null_in_record(cause_.new_record)) {
    if (!to->real_maybe_null()) return refuse();
    to->set_null(shift);
    return Status::Ok();
  }
  to->set_notnull(shift);
  const bool is_text = to->real_type() == MYSQL_TYPE_STRING || to->real_type() == MYSQL_TYPE_VARCHAR;
  if (!is_text) {
    memcpy(to->ptr + shift, from->ptr + from_shift, to->pack_length());
    return Status::Ok();
  }
  from->move_field_offset(from_shift);
  String buffer, *value = from->val_str(&buffer);
  from->move_field_offset(-from_shift);
  if (value == nullptr || value->numchars() > to->char_length()) return refuse();
  add_trailing_spaces(*from, *to, value);
  THD *thd = child_.thd();
  const Check_level_instant_set quietly(thd, CHECK_FIELD_IGNORE);
  to->move_field_offset(shift);
  to->store(value->ptr(), value->length(), value->charset());
  to->move_field_offset(-shift);
  return Status::Ok();
}

// ---- Writing -------------------------------------------------------------------------------------

// The row writer asks this about the new row of an update.
Status Cascade::check(int index, const uint8_t *old_record, const uint8_t *new_record) {
  return keys_ == nullptr ? Status::Ok() : keys_->check_row(index, old_record, new_record, &link_.constraint);
}

// Changes one row of the child, and its own children. `new_record`: nullptr to remove the row. The records
// must not be those of the TABLE, in which virtual columns are computed.
Status Cascade::change_row(uchar *old_record, uchar *new_record) {
  const bool is_versioned = table_->versioned();
  std::string history;
  if (is_versioned && new_record == nullptr) {
    history.assign(reinterpret_cast<const char *>(old_record), table_->s->reclength);
    memcpy(table_->record[0], old_record, table_->s->reclength);
    table_->vers_update_end();
    memcpy(history.data(), table_->record[0], table_->s->reclength);
    new_record = bytes_of(&history);
  } else if (is_versioned) {
    memcpy(table_->record[0], new_record, table_->s->reclength);
    table_->vers_update_fields();
    memcpy(new_record, table_->record[0], table_->s->reclength);
  }
  const auto write = [&] {
    return new_record == nullptr ? remove(old_record) : update(old_record, new_record);
  };
  const ForeignChange change{.old_record = old_record, .new_record = new_record, .cause = &cause_};
  ATOLL_RETURN_IF_ERROR(keys_ == nullptr ? write() : keys_->change(change, write));
  return is_versioned && history.empty() ? keep_history(old_record) : Status::Ok();
}

// Puts the rows into the records of the TABLE, the only ones for which virtual columns can be computed.
Status Cascade::remove(const uchar *record) {
  memcpy(table_->record[0], record, table_->s->reclength);
  if (table_->vfield != nullptr) compute_virtual_text(table_, table_->record[0], nullptr);
  ATOLL_RETURN_IF_ERROR(note_written(writer_.remove(table_->record[0], open_table_.hidden_id())));
  child_.count_row(-1);
  return Status::Ok();
}

Status Cascade::update(const uchar *old_record, const uchar *new_record) {
  memcpy(table_->record[1], old_record, table_->s->reclength);
  memcpy(table_->record[0], new_record, table_->s->reclength);
  if (table_->vfield != nullptr) compute_virtual_text(table_, table_->record[0], table_->record[1]);
  auto updated = table::RowWriter::Updated::kChanged;
  ATOLL_RETURN_IF_ERROR(
      note_written(writer_.update(table_->record[1], table_->record[0], open_table_.hidden_id(), &updated)));
  child_.count_row(0);
  return Status::Ok();
}

// Keeps the former version of a row of a system-versioned table.
Status Cascade::keep_history(uchar *old_record) {
  memcpy(table_->record[0], old_record, table_->s->reclength);
  table_->vers_update_end();
  if (table_->vfield != nullptr) compute_virtual_text(table_, table_->record[0], nullptr);
  uint64_t hidden_id = 0;
  if (open_table_.layout().hidden_primary())
    ATOLL_RETURN_IF_ERROR(child_.share()->take_hidden_id(open_table_.layout(), &hidden_id));
  ATOLL_RETURN_IF_ERROR(note_written(writer_.insert(table_->record[0], hidden_id)));
  child_.count_row(1);
  return Status::Ok();
}

Status Cascade::note_written(const Status &status) {
  if (build_) child_.session()->note_online_build(build_);
  if (status.code() != Code::kDuplicate) return status;
  const size_t index = writer_.duplicate_index();
  child_.session()->violation = {.error = HA_ERR_FOREIGN_DUPLICATE_KEY,
                                 .child_table = sql_name(link_.child->name),
                                 .child_key = open_table_.layout().index(index).name};
  return Status(Code::kForeignKey, "");
}

}  // namespace atoll::handler
