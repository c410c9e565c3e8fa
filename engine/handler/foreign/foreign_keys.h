// Checks the constraints FOREIGN KEY of one open table when its rows change, and starts cascades (cascade.h).
//
//   a new or changed row ──▶ the parents of its constraints, before it is written (RowCheck)
//   a removed or changed row ──▶ its children: refused before the row is written if there are any; removed or
//                                changed after it
//
// Constraints are checked row by row, in InnoDB's order, with NO ACTION and SET DEFAULT as RESTRICT. A NULL
// in any column of a constraint, and a history row of a system-versioned table, is not checked. Locks:
// table/foreign/reference_search.h. Nobody drops or alters a parent before the transaction ends, since a
// metadata lock on its name is taken when the statement first looks for it.
#pragma once

#include "handler/server.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "handler/foreign/foreign_plan.h"
#include "table/foreign/reference_search.h"
#include "table/write/row_writer.h"

class ha_atoll;

namespace atoll::handler {

// One change of a row in a chain of cascades: a row of the statement itself has no cause.
struct ForeignChange {
  const uchar *old_record = nullptr;
  const uchar *new_record = nullptr;  // nullptr: the row is removed
  const ForeignChange *cause = nullptr;
  uint32_t table_id = 0;  // of the row's table; ForeignKeys::change() sets it
  bool is_removal() const { return new_record == nullptr; }
};

// Of one handler. Threads: only the thread of the running statement.
class ForeignKeys final : public table::RowCheck {
 public:
  ForeignKeys(ha_atoll *file, std::shared_ptr<const ForeignPlan> plan);
  ~ForeignKeys() override;

  const std::shared_ptr<const ForeignPlan> &plan() const { return plan_; }
  void end_statement();

  // The row writer calls this before it writes a row of the statement itself. Errors: kForeignKey: a
  // constraint refuses the row, and Session::violation says which; those of ReferenceSearch::find().
  Status check(int index, const uint8_t *old_record, const uint8_t *new_record) override;
  // As check(), for a row that a cascade by the constraint `by` changes: that constraint is not checked.
  Status check_row(int index, const uchar *old_record, const uchar *new_record,
                   const catalog::ForeignKeyDef *by);

  // Removes or changes a row by `write`, and what its children need before and after it. After kForeignKey
  // nothing is changed; after another error the caller ends the statement. Errors: kForeignKey: a constraint
  // refuses the change; as `write`; as ReferenceSearch::find().
  Status change(const ForeignChange &change, const std::function<Status()> &write);

 private:
  using Write = std::function<Status()>;

  bool is_off() const;
  Status lock_parents();
  Status lock_children();
  Status reload();
  bool has_null(const ForeignLink &link, const uchar *record) const;
  bool differs(const ForeignLink &link, const uchar *old_record, const uchar *new_record) const;
  bool is_history(const uchar *record) const;
  bool is_own_parent(const ForeignLink &link, const uchar *record) const;
  bool concerns(const ForeignLink &link, const ForeignChange &change) const;
  bool is_refused(const ForeignLink &link, const ForeignChange &change) const;
  Status check_children(int index, const uchar *old_record, const uchar *new_record);
  Status check_parent(size_t number, const uchar *record);
  Status check_no_child(const ForeignLink &link, size_t number, const uchar *record);
  bool is_without_children(const ForeignLink &link, size_t number, const uchar *record);
  Status change_children(const ForeignChange &change, size_t first);
  Status change_with_savepoint(const ForeignChange &change, size_t first, const Write &write);
  table::ReferenceSearch *search(const ForeignLink &link,
                                 std::vector<std::unique_ptr<table::ReferenceSearch>> *all, size_t number,
                                 table::Statement *statement);

  ha_atoll &file_;
  std::shared_ptr<const ForeignPlan> plan_;
  table::NewestRows newest_rows_;
  std::vector<std::unique_ptr<table::ReferenceSearch>> parents_, children_;  // made when they are first used
  std::string key_;
  size_t refused_end_ = 0;           // in the change that goes on: the first constraint with a cascade
  bool has_locked_parents_ = false;  // by this statement
  bool has_locked_children_ = false;
};

// Whether the values of a column in two records of its table differ. Compares bytes and not values, as InnoDB
// does: a change of 'a' to 'A' goes to the children.
bool differs(const Field &field, const uchar *old_record, const uchar *new_record);

// Notes why a row is refused, and returns kForeignKey.
Status refuse_row(ha_atoll *file, int error, const ForeignLink &link);

// The action of the constraint for this change.
catalog::ReferenceAction action_of(const ForeignLink &link, const ForeignChange &change);

}  // namespace atoll::handler
