// The server as the rows of one open table see it (table/open_table.h, row_view.h, write/row_writer.h): the
// session's transaction and settings, pushed conditions, virtual columns.
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

class ServerView final : public table::Statement, public table::RowView, public table::WriteView {
 public:
  explicit ServerView(ha_atoll *handler) : h_(*handler) {}

  // Notes whether the server reads entries alone: then it computes no virtual columns of their index.
  void set_keyread(bool is_on) { keyread_ = is_on; }
  bool is_keyread() const { return keyread_; }
  // Sets the pushed condition; nullptr: none. It must live until it is taken back.
  void set_condition(const COND *condition);
  // The error by which a condition or KILL ended the read that has failed with kInterrupted; 0: none did.
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
  std::unique_ptr<codec::Predicate> predicate_;  // of condition_; made when it is first asked for
};

// `condition` as far as it is understood; nullptr: not at all (pushdown.cc).
std::unique_ptr<codec::Predicate> compile_condition(const TABLE *table, const table::Layout &layout,
                                                    const COND *condition);

}  // namespace atoll::handler
