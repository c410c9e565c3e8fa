// Decides for which rows the engine evaluates conditions that may refuse them, and whether that pays.
//
// The server checks the condition on every row that it gets, so a predicate pays only by the rows that it
// refuses. A statement that reads a few rows does not ask the predicate. After several rows in succession
// have passed, it asks for one row of some fifteen. A scan with locks asks for every row: in a scan of rows
// without range locks, a row that does not match is neither locked nor waited for, unless it is a large row.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "table/open_table.h"
#include "table/row_view.h"

namespace atoll::table {

class RowFilter {
 public:
  // What may refuse a row of the running scan.
  enum class Asked : uint8_t { kNothing, kEntryConditions, kAll };

  RowFilter(const OpenTable &table, RowView *view) : table_(table), view_(*view) {}

  // The server has pushed a condition, or taken it back.
  void set_condition(bool is_pushed);
  // The pushed condition; nullptr: there is none, or it is not understood.
  const codec::Predicate *predicate();

  void ask(Asked asked) { asked_ = asked; }
  bool asks_entry_conditions() const { return asked_ != Asked::kNothing; }
  // Whether evaluate() is to be called for the next row; `is_point_read`: the row is read by its whole
  // primary key.
  bool may_refuse(bool is_point_read = false) {
    return is_pushed_ && asked_ == Asked::kAll && is_due(is_point_read) && predicate() != nullptr;
  }
  // Does the row under `primary_key`, stored as `packed`, pass? Requires: may_refuse().
  // Errors: kCorruption, kUnavailable.
  Status evaluate(const std::string &primary_key, std::string_view packed, bool *passes);

 private:
  bool is_due(bool is_point_read);

  const OpenTable &table_;
  RowView &view_;
  Asked asked_ = Asked::kAll;
  bool is_pushed_ = false;
  uint32_t unasked_ = 0;        // rows so far
  uint32_t passed_in_row_ = 0;  // rows since it refused one
};

}  // namespace atoll::table
