// What a table's definition says about the values of each row: CHECK constraints, and the expressions of
// stored generated columns. CHECK TABLE tests both on each row that it reads.
//
// A row that violates a constraint is not damaged: check_constraint_checks=0 lets rows in that violate one.
// So this is a warning. A stored value that is not the result of its expression is damage, because only the
// server computes it.
#pragma once

#include "handler/server.h"

#include <cstdint>
#include <string>
#include <vector>

namespace atoll::handler {

// Threads: one at a time, the thread of the statement.
class RowRules {
 public:
  // `part`: the handler of the table, or of the partition whose rows are tested.
  RowRules(THD *thd, TABLE *table, const ::handler *part);

  struct Verdict {
    std::vector<std::string> damage;  // one for each stored column with another value, and for another place
    std::vector<std::string>
        warnings;  // one for each violated constraint, and each value that cannot be computed
  };
  // Tests the row in record[0], and leaves record[0] as it is. Errors and warnings of the expressions are not
  // left with the statement. Texts of `verdict` do not name the row.
  void test(Verdict *verdict);

  // The number of rows for which there was a warning; whether a stored column had another value; whether any
  // row was damaged.
  uint64_t warned_rows() const { return warned_rows_; }
  bool has_stale() const { return has_stale_; }
  bool has_misplaced() const { return has_misplaced_; }

 private:
  void test_stored(Field *field, Verdict *verdict);
  void note_found(const Verdict &verdict);
  void test_compressed(Field *field, Verdict *verdict);
  void test_place(Verdict *verdict);
  void test_constraint(const Virtual_column_info &constraint, Verdict *verdict);
  bool is_history() const;
  bool is_same_as_present(Field *field);

  THD *const thd_;
  TABLE &table_;
  std::vector<Field *> stored_;                           // the stored generated columns
  std::vector<Field *> compressed_;                       // the stored columns that are COMPRESSED
  std::vector<const Virtual_column_info *> constraints_;  // those whose result depends on the row only
  int part_ = -1;             // the number of the partition; -1: rows may be anywhere
  std::vector<uchar> saved_;  // record[0] as it was read
  uint64_t warned_rows_ = 0;
  bool has_stale_ = false, has_misplaced_ = false;
};

}  // namespace atoll::handler
