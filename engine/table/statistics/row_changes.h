// Counts how many rows a transaction has added to each table. A rollback subtracts them from the table's
// number of rows, which the optimizer and SHOW TABLE STATUS use. A commit notes the time for each of these
// tables (update_times.h).
//
// That number already grows when a row is written, not when it is committed, because later statements of the
// same transaction are planned with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace atoll::table {

// The changes of one transaction. Threads: one at a time.
class RowChanges {
 public:
  // Pairs of a table id and the number of rows added (negative: removed). Each table occurs once.
  using Counts = std::vector<std::pair<uint32_t, int64_t>>;

  void add(uint32_t table, int64_t rows) {
    if (counts_.empty() || counts_.back().first != table) make_last(table);
    counts_.back().second += rows;
  }
  // Notes a new savepoint. Savepoints are numbered from 0 in the order in which they were set
  // (txn::Transaction::set_savepoint()). The new savepoint replaces all those from `number` on.
  void note_savepoint(size_t number);
  // Forgets the changes that were made after savepoint `number`, and returns them. The savepoint itself is
  // kept.
  Counts roll_back_to(size_t number);
  // Forgets all changes and savepoints. Returns the changes that were not rolled back before.
  Counts roll_back();
  void clear();
  // The changes that were not rolled back. A table that has as many rows as before is among them.
  const Counts &counts() const { return counts_; }

 private:
  void make_last(uint32_t table);

  Counts counts_;                      // the table of the last add() is at the end
  std::vector<Counts> at_savepoints_;  // by savepoint number: counts_ when that savepoint was set
};

}  // namespace atoll::table
