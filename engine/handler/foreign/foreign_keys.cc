// See foreign_keys.h.
#include "handler/ha_atoll.h"

#include "handler/foreign/foreign_keys.h"

#include <mdl.h>

#include "catalog/description/record_form.h"
#include "engine/running.h"
#include "handler/ddl/table_name.h"
#include "handler/foreign/cascade.h"
#include "handler/foreign/clause_text.h"
#include "handler/foreign/latest_error.h"

namespace atoll::handler {

using catalog::ReferenceAction;
using table::ReferenceSearch;

namespace {

// Whether the action leaves the children alone, so that a row with children is refused.
bool restricts(ReferenceAction action) {
  return action != ReferenceAction::kCascade && action != ReferenceAction::kSetNull;
}

}  // namespace

bool differs(const Field &field, const uchar *old_record, const uchar *new_record) {
  const bool is_null = field.is_null_in_record(old_record);
  if (is_null != field.is_null_in_record(new_record)) return true;
  const my_ptrdiff_t place = field.ptr - field.table->record[0];
  return !is_null && field.cmp_binary(old_record + place, new_record + place) != 0;
}

Status refuse_row(ha_atoll *file, int error, const ForeignLink &link) {
  const catalog::TableDef &child = *link.child;
  const std::string text = quoted_table(file->thd(), child.database, child.name) + ", " +
                           clause_text(file->thd(), child, link.constraint);
  file->session()->violation = {.error = error, .constraint = text};
  note_foreign_key_error((error == HA_ERR_NO_REFERENCED_ROW ? "a child row without a parent: "
                                                            : "a parent row with children: ") +
                         text);
  return Status(Code::kForeignKey, link.constraint.name);
}

ReferenceAction action_of(const ForeignLink &link, const ForeignChange &change) {
  return change.is_removal() ? link.constraint.on_delete : link.constraint.on_update;
}

ForeignKeys::ForeignKeys(ha_atoll *file, std::shared_ptr<const ForeignPlan> plan)
    : file_(*file), plan_(std::move(plan)), newest_rows_(file->statement()) {
  parents_.resize(plan_->parents.size());
  children_.resize(plan_->children.size());
}

ForeignKeys::~ForeignKeys() = default;

void ForeignKeys::end_statement() {
  has_locked_parents_ = has_locked_children_ = false;
  for (auto *searches : {&parents_, &children_})
    for (const std::unique_ptr<ReferenceSearch> &search : *searches)
      if (search) search->end_statement();
}

// A replica sets the option before it applies the rows of an event that was written without checks.
bool ForeignKeys::is_off() const { return thd_test_options(file_.thd(), OPTION_NO_FOREIGN_KEY_CHECKS) != 0; }

// ---- A row's own values --------------------------------------------------------------------------

bool ForeignKeys::has_null(const ForeignLink &link, const uchar *record) const {
  for (const uint16_t column : link.columns)
    if (file_.get_table()->field[column]->is_null_in_record(record)) return true;
  return false;
}

bool ForeignKeys::differs(const ForeignLink &link, const uchar *old_record, const uchar *new_record) const {
  for (const uint16_t column : link.columns)
    if (handler::differs(*file_.get_table()->field[column], old_record, new_record)) return true;
  return false;
}

bool ForeignKeys::is_history(const uchar *record) const {
  const TABLE *table = file_.get_table();
  if (!table->versioned()) return false;
  const Field *end = table->vers_end_field();
  return !end->is_max(record + (end->ptr - table->record[0]));
}

// Whether a row refers to itself: key_, the start of its parent's key, is also the start of its own key in
// the same index. It is not in that index before it is written.
bool ForeignKeys::is_own_parent(const ForeignLink &link, const uchar *record) const {
  if (!link.may_be_own_parent) return false;
  const table::Layout &layout = *file_.layout();
  std::string own;
  layout.primary_key(record, 0, &own);
  if (!layout.is_primary(link.index)) {
    const std::string primary_key = std::move(own);
    bool has_null = false;
    layout.secondary_entry(link.index, record, primary_key, &own, nullptr, &has_null);
  }
  return own.starts_with(key_);
}

// ---- Parents of a row ----------------------------------------------------------------------------

Status ForeignKeys::check(int index, const uint8_t *old_record, const uint8_t *new_record) {
  return check_row(index, old_record, new_record, nullptr);
}

Status ForeignKeys::check_row(int index, const uchar *old_record, const uchar *new_record,
                              const catalog::ForeignKeyDef *by) {
  if (is_off() || is_history(new_record)) return Status::Ok();
  if (!plan_->parents.empty()) ATOLL_RETURN_IF_ERROR(lock_parents());
  if (old_record != nullptr) ATOLL_RETURN_IF_ERROR(check_children(index, old_record, new_record));
  for (size_t i = 0; i < plan_->parents.size(); i++) {
    const ForeignLink &link = plan_->parents[i];
    if (link.own_index != index || (by != nullptr && by->name == link.constraint.name)) continue;
    if (has_null(link, new_record)) continue;
    if (old_record != nullptr && !differs(link, old_record, new_record)) continue;
    ATOLL_RETURN_IF_ERROR(check_parent(i, new_record));
  }
  return Status::Ok();
}

Status ForeignKeys::check_parent(size_t number, const uchar *record) {
  const ForeignLink &link = plan_->parents[number];
  bool found = false;
  if (link.layout) {
    key_.clear();
    link.key->append(record, &key_);
    found = is_own_parent(link, record);
  }
  if (link.layout && !found)
    ATOLL_RETURN_IF_ERROR(search(link, &parents_, number, file_.statement())->find(key_, &found));
  return found ? Status::Ok() : refuse_row(&file_, HA_ERR_NO_REFERENCED_ROW, link);
}

ReferenceSearch *ForeignKeys::search(const ForeignLink &link,
                                     std::vector<std::unique_ptr<ReferenceSearch>> *all, size_t number,
                                     table::Statement *statement) {
  std::unique_ptr<ReferenceSearch> &search = (*all)[number];
  if (!search)
    search = std::make_unique<ReferenceSearch>(
        statement, file_.locks(),
        ReferenceSearch::Target{
            .layout = link.layout,
            .record_bytes = catalog::own_record(link.layout->def().description).record_bytes,
            .index = link.index,
            .parts = link.columns.size(),
            .row_end = link.row_end,
            .expects_none = all == &children_});
  return search.get();
}

// Takes the weakest metadata lock on a table, which only an exclusive lock waits for, until the transaction
// ends.
static Status lock_name(THD *thd, const TableName &name, const char *what) {
  MDL_request request;
  MDL_REQUEST_INIT(&request, MDL_key::TABLE, name.database.c_str(), name.table.c_str(), MDL_SHARED,
                   MDL_TRANSACTION);
  if (!thd->mdl_context.acquire_lock(&request, thd->variables.lock_wait_timeout)) return Status::Ok();
  const bool is_deadlock = thd->is_error() && thd->get_stmt_da()->sql_errno() == ER_LOCK_DEADLOCK;
  return Status(is_deadlock ? Code::kDeadlock : Code::kLockTimeout, what);
}

// The server takes no lock on a parent when a child is written. The metadata lock keeps the parent from being
// dropped, emptied, moved or replaced by a copy until the transaction ends.
Status ForeignKeys::lock_parents() {
  if (has_locked_parents_) return Status::Ok();
  for (const ForeignLink &link : plan_->parents)
    if (!link.is_self)
      ATOLL_RETURN_IF_ERROR(lock_name(file_.thd(), link.other, "the metadata lock of a parent table"));
  has_locked_parents_ = true;
  return reload();
}

// The server takes no lock on a child that refuses a change of its parent. An ALTER with a copy renames the
// child away and the new table into its place. The lock keeps it from doing so until the transaction ends, or
// waits until it has done so; without it, a parent could be removed between the two.
Status ForeignKeys::lock_children() {
  if (has_locked_children_) return Status::Ok();
  constexpr const char *kWhat = "the metadata lock of a child table";
  for (const ForeignLink &link : plan_->children)
    if (!link.is_self) ATOLL_RETURN_IF_ERROR(lock_name(file_.thd(), link.other, kWhat));
  for (const TableName &child : plan_->replaced) ATOLL_RETURN_IF_ERROR(lock_name(file_.thd(), child, kWhat));
  has_locked_children_ = true;
  return reload();
}

// Takes the newest definitions, because a statement may have changed a parent before it was locked.
Status ForeignKeys::reload() {
  std::shared_ptr<const ForeignPlan> newest;
  ATOLL_RETURN_IF_ERROR(file_.share()->foreign_plan(file_.layout(), &newest));
  if (newest == plan_) return Status::Ok();
  plan_ = std::move(newest);
  parents_.clear();
  children_.clear();
  parents_.resize(plan_->parents.size());
  children_.resize(plan_->children.size());
  return Status::Ok();
}

// ---- Children of a row ---------------------------------------------------------------------------

bool ForeignKeys::concerns(const ForeignLink &link, const ForeignChange &change) const {
  if (has_null(link, change.old_record)) return false;
  return change.is_removal() || differs(link, change.old_record, change.new_record);
}

// An UPDATE never cascades into a table that it changes, so it is refused if there are children.
bool ForeignKeys::is_refused(const ForeignLink &link, const ForeignChange &change) const {
  return restricts(action_of(link, change)) || !link.layout || (link.is_self && !change.is_removal());
}

Status ForeignKeys::change(const ForeignChange &change, const Write &write) {
  refused_end_ = 0;
  if (!plan_->has_children() || is_off() || is_history(change.old_record)) return write();
  // Before the first use of a child, because they may replace the plan.
  ATOLL_RETURN_IF_ERROR(lock_children());
  if (!plan_->parents.empty() && !change.is_removal()) ATOLL_RETURN_IF_ERROR(lock_parents());
  ForeignChange seen = change;
  seen.table_id = file_.layout()->def().id;
  // The server removes a row of a system-versioned table by making it a history row.
  if (change.new_record != nullptr && is_history(change.new_record)) seen.new_record = nullptr;
  for (; refused_end_ < plan_->children.size(); refused_end_++) {
    const ForeignLink &link = plan_->children[refused_end_];
    if (!concerns(link, seen)) continue;
    if (!is_refused(link, seen)) break;
    // Those of an update are checked when the row writer asks.
    if (seen.is_removal()) ATOLL_RETURN_IF_ERROR(check_no_child(link, refused_end_, seen.old_record));
  }
  return refused_end_ == plan_->children.size() ? write() : change_with_savepoint(seen, refused_end_, write);
}

Status ForeignKeys::check_children(int index, const uchar *old_record, const uchar *new_record) {
  const ForeignChange change{.old_record = old_record, .new_record = new_record};
  for (size_t i = 0; i < refused_end_; i++) {
    const ForeignLink &link = plan_->children[i];
    if (link.own_index == index && concerns(link, change))
      ATOLL_RETURN_IF_ERROR(check_no_child(link, i, old_record));
  }
  return Status::Ok();
}

// The row is written first, so that a cascade that comes back to it finds it removed. If a constraint refuses
// the change after that, everything is undone, for a statement with IGNORE goes on with the next row. A
// cascade needs no savepoint of its own, because it is undone with its cause.
Status ForeignKeys::change_with_savepoint(const ForeignChange &change, size_t first, const Write &write) {
  if (change.cause != nullptr) {
    ATOLL_RETURN_IF_ERROR(write());
    return change_children(change, first);
  }
  Session *session = file_.session();
  const size_t savepoint = session->set_savepoint();
  Status status = write();
  if (status.ok()) status = change_children(change, first);
  if (!status.ok())
    if (const Status undone = session->rollback_to_savepoint(savepoint); !undone.ok()) status = undone;
  session->release_savepoint(savepoint);
  return status;
}

Status ForeignKeys::change_children(const ForeignChange &change, size_t first) {
  for (size_t i = first; i < plan_->children.size(); i++) {
    const ForeignLink &link = plan_->children[i];
    if (!concerns(link, change)) continue;
    if (is_refused(link, change)) {
      ATOLL_RETURN_IF_ERROR(check_no_child(link, i, change.old_record));
      continue;
    }
    if (is_without_children(link, i, change.old_record)) continue;
    ATOLL_RETURN_IF_ERROR(Cascade::run(&file_, link, change));
  }
  return Status::Ok();
}

// A look that costs less than a cascade. False: it is not known.
bool ForeignKeys::is_without_children(const ForeignLink &link, size_t number, const uchar *record) {
  key_.clear();
  link.key->append(record, &key_);
  return search(link, &children_, number, &newest_rows_)->shows_none(key_);
}

Status ForeignKeys::check_no_child(const ForeignLink &link, size_t number, const uchar *record) {
  bool found = link.layout == nullptr;
  if (!found) {
    key_.clear();
    link.key->append(record, &key_);
    ATOLL_RETURN_IF_ERROR(search(link, &children_, number, &newest_rows_)->find(key_, &found));
  }
  return found ? refuse_row(&file_, HA_ERR_ROW_IS_REFERENCED, link) : Status::Ok();
}

}  // namespace atoll::handler
