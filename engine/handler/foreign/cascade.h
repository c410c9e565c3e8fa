// Removes or changes the children of a row that is removed or changed: CASCADE and SET NULL.
//
// The server has opened the child's TABLE for that (prelocking), and the statement itself does not read it,
// so its record buffers are free. Rows are written by a writer of its own. So the server does not see them:
// they fire no triggers and are not in the binary log as events, as in InnoDB. A replica repeats the cascade.
//
// Every change of a row by a cascade goes through change_row().
#pragma once

#include "handler/server.h"

#include <string>

#include "handler/foreign/foreign_keys.h"
#include "table/row_cursor.h"
#include "table/write/row_writer.h"

namespace atoll::handler {

// The children of one row by one constraint. It is made for each such row, since a cascade can come back to
// the same table.
class Cascade final : table::RowCheck {
 public:
  // Changes the children of the row of `parent` that `cause` removes or changes. The row itself is written
  // already. Errors: as ForeignKeys::change(); kInvalid: the server has not opened the child, because the
  // constraint was made after the statement has begun.
  static Status run(ha_atoll *parent, const ForeignLink &link, const ForeignChange &cause);

 private:
  Cascade(ha_atoll *parent, ha_atoll *child, const ForeignLink &link, const ForeignChange &cause);
  ~Cascade() override;

  // ---- table::RowCheck ----
  Status check(int index, const uint8_t *old_record, const uint8_t *new_record) override;

  bool entries_suffice() const;
  Status check_chain() const;
  Status each_child();
  Status take_child();
  bool is_history() const;
  Status make_new_row(uchar *record) const;
  Status set_value(uint16_t column, uint16_t parent_column, uchar *record) const;
  Status change_row(uchar *old_record, uchar *new_record);
  Status remove(const uchar *record);
  Status update(const uchar *old_record, const uchar *new_record);
  Status keep_history(uchar *old_record);
  Status note_written(const Status &status);
  Status refuse() const;

  ha_atoll &parent_;
  ha_atoll &child_;
  TABLE *const table_;  // the child's
  const ForeignLink &link_;
  const ForeignChange &cause_;
  ForeignKeys *keys_ = nullptr;  // the child's own constraints; nullptr: it has none but this one
  std::shared_ptr<table::OnlineBuild> build_;

  table::NewestRows newest_rows_;
  table::OpenTable open_table_;
  table::RowLocks row_locks_{open_table_};
  table::RowCursor cursor_;
  table::RowWriter writer_;
  std::string old_record_, new_record_;
};

}  // namespace atoll::handler
