// Shows for many keys, one after the other, that an index has no entry that begins with the key: a parent
// that is removed has no children. It keeps one cursor for all of them, and remembers the range without
// entries that a search has found, so that the next keys in it need no search.
//
// The cursor shows no own writes. So it stays open when the transaction writes the next row, where a cursor
// with own writes would have to be opened again. The own writes in the range of a key are looked for apart.
//
// Why the answer stays right until the transaction ends (rule FK-3): first the range of the key is locked, so
// nobody inserts into it any more. Only then the count of the transactions that have ended is compared with
// the count before the search. If they are the same, every entry that is in the range was visible to the
// search, or is an obstacle of the lock (Transaction::lock_range()).
// Tests: reference_search_test.cc.
#pragma once

#include <memory>
#include <string>

#include "table/open_table.h"
#include "txn/reads/absent_range.h"
#include "txn/reads/cursor.h"

namespace atoll::table {

// Of one index, for one statement. Threads: only the thread of the running statement.
class AbsenceSearch {
 public:
  explicit AbsenceSearch(const OpenTable &table) : table_(table) {}

  // True: no entry of `index` begins with `start`, and nobody inserts one before the transaction ends. False:
  // it is not known; the caller searches, and locks what it finds. Requires: the table protects ranges.
  bool is_absent(const IndexLayout &index, const std::string &start);
  // Called at the end of a statement, before the next transaction.
  void close();

 private:
  // More deleted entries than this in a search: it gives up.
  static constexpr uint64_t kHiddenMax = 64;

  bool search(const IndexLayout &index, const std::string &start, const std::string &end, uint64_t ended);
  void show_commits(const IndexLayout &index, uint64_t ended);

  const OpenTable &table_;
  std::unique_ptr<txn::Cursor> cursor_;
  uint64_t ended_ = 0;      // Transaction::commits_seen() before the cursor was opened or refreshed
  txn::AbsentRange range_;  // without committed entries
};

}  // namespace atoll::table
