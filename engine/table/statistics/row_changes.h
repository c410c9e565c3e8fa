// How many rows a transaction has added to each table, so that a rollback can take them back from the count
// that the optimizer and SHOW TABLE STATUS see.
//
// That count grows when a row is written and not when it is committed: statements of the same transaction are
// planned by it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace atoll::table {

// The changes of one transaction. Threads: one at a time.
class RowChanges {
 public:
  // Ids of tables, each once, with the rows added; negative: removed.
  using Counts = std::vector<std::pair<uint32_t, int64_t>>;

  void add(uint32_t table, int64_t rows) {
    if (counts_.empty() || counts_.back().first != table) make_last(table);
    counts_.back().second += rows;
  }
  // Savepoints are numbered from 0 in the order in which they were set (txn::Transaction::set_savepoint()).
  // Those from `number` on are replaced.
  void note_savepoint(size_t number);
  // Forgets what came after the savepoint, which stays, and returns it.
  Counts roll_back_to(size_t number);
  // Forgets everything, and returns what had not been taken back.
  Counts roll_back();
  void clear();

 private:
  void make_last(uint32_t table);

  Counts counts_;                      // the table of the last add() at the end
  std::vector<Counts> at_savepoints_;  // counts_ when the savepoint of that number was set
};

}  // namespace atoll::table
