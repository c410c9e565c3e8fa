// Decides on which rows the engine evaluates a pushed condition (the predicate), depending on whether that
// pays.
//
// The server checks the condition again on every row that it gets, so the predicate saves work only for rows
// that it refuses. It is not evaluated in a statement that reads a few rows. After several successive rows
// have passed, it is evaluated on about one row of 15. A locking scan evaluates it on every row. The reason:
// in a locking scan of rows without range locks, a row that does not match is not locked and not waited for,
// except a large row.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "table/open_table.h"
#include "table/row_view.h"

namespace atoll::table {

class RowFilter {
 public:
  // Which conditions are allowed to refuse a row of the running read. RowCursor chooses this for each read.
  // kEntryConditions: only those on index entries. kAll: the predicate, too.
  enum class Asked : uint8_t { kNothing, kEntryConditions, kAll };

  RowFilter(const OpenTable &table, RowView *view) : table_(table), view_(*view) {}

  // Called when the server has pushed a condition (`is_pushed`), or has withdrawn it.
  void set_condition(bool is_pushed);
  // The pushed condition; nullptr: there is none, or the engine cannot evaluate it.
  const codec::Predicate *predicate();

  void ask(Asked asked) { asked_ = asked; }
  bool asks_entry_conditions() const { return asked_ != Asked::kNothing; }
  // Whether the caller must call evaluate() for the next row. `is_point_read`: the row is read by its whole
  // primary key.
  bool may_refuse(bool is_point_read = false) {
    return is_pushed_ && asked_ == Asked::kAll && is_due(is_point_read) && predicate() != nullptr;
  }
  // *passes: whether the row under `primary_key`, stored as `packed`, passes the condition.
  // Requires: may_refuse(). Errors: kCorruption, kUnavailable.
  Status evaluate(const std::string &primary_key, std::string_view packed, bool *passes);

 private:
  bool is_due(bool is_point_read);

  const OpenTable &table_;
  RowView &view_;
  Asked asked_ = Asked::kAll;
  bool is_pushed_ = false;
  uint32_t unasked_ = 0;        // rows at the start of the statement without an evaluation of the predicate
  uint32_t passed_in_row_ = 0;  // rows since a refusal, on which the predicate was true or not evaluated
};

}  // namespace atoll::table
