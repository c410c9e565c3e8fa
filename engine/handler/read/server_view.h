// Gives the code in table/ what it needs from the server for one open table (table/open_table.h, row_view.h,
// write/row_writer.h): the session's transaction and settings, pushed conditions, virtual columns.
#pragma once

#include "handler/server.h"

#include <memory>
#include <string>
#include <utility>

#include "codec/predicate.h"
#include "table/open_table.h"
#include "table/row_view.h"
#include "table/write/row_writer.h"

class ha_atoll;

namespace atoll::handler {

// A part of one ha_atoll, for the thread of the running statement.
class ServerView final : public table::Statement, public table::RowView, public table::WriteView {
 public:
  explicit ServerView(ha_atoll *handler) : h_(*handler) {}

  // Notes whether the server does an index-only read, in which it does not compute the virtual columns of the
  // index.
  void set_keyread(bool is_on) { keyread_ = is_on; }
  bool is_keyread() const { return keyread_; }
  // Sets the pushed condition; nullptr: there is none. The condition must live until the next call.
  void set_condition(const COND *condition);
  // Returns the handler error with which a condition or KILL has ended a read, and clears it; 0: there is no
  // such error.
  int take_error() { return std::exchange(error_, 0); }

  // ---- table::Statement ----
  txn::Transaction *transaction() override;
  bool keeps_snapshot() const override;
  uint64_t lock_wait_ms() const override;
  bool refuses_changed_rows() const override;
  bool is_killed() const override;

  // ---- table::RowView ----
  uint8_t *record() override;
  bool has_entry_condition() const override;
  table::Verdict check_entry() override;
  bool has_row_filter() const override;
  table::Verdict check_row_filter() override;
  const codec::Predicate *predicate() override;
  void note_refused_row() override;
  void complete(uint8_t *record) override;
  bool compute_virtual_columns(size_t index, uint8_t *record) override;

  // ---- table::WriteView ----
  Status each_index_of(std::string_view packed, const Use &use) override;

 private:
  table::Verdict verdict_of(check_result_t result);

  ha_atoll &h_;
  bool keyread_ = false;
  int error_ = 0;
  const COND *condition_ = nullptr;
  std::unique_ptr<codec::Predicate> predicate_;  // compiled from condition_ when it is first used
};

// Compiles the parts of `condition` that pushdown.cc understands; nullptr: it understands none.
std::unique_ptr<codec::Predicate> compile_condition(const TABLE *table, const table::Layout &layout,
                                                    const COND *condition);

}  // namespace atoll::handler
