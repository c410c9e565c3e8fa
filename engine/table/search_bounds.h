// The bounds of a search in an index and of the steps after it.
//
// The server may give the ends of a range before the search. An exact search is bounded by the prefix of its
// keys. A loose scan (one that searches for the first row of each group) is bounded by the end of the last
// range. The engine reads, locks and passes no entry outside the bounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "table/layout.h"

namespace atoll::table {

// The range [`lower`, `upper`) of an index's keys.
struct Bounds {
  std::string lower, upper;
};

// The key at which a search starts, its direction, and its limits.
struct Seek {
  // How far the search is allowed to read, if the server has not given the ends of a range. The handler
  // chooses it from the kind of the server's request.
  enum class Reach : uint8_t {
    kFirstRow,    // the server perhaps wants only the first row, whatever its values. No predicate may refuse
                  // rows, because the search could then continue to the end of the index
    kWholeIndex,  // the scan is allowed to read the whole index
    kAfterKey,    // as kFirstRow, but for keys after `key`; a loose scan stays within the last range
    kAnyRow,      // the search must return one row, which no condition may refuse
  };
  std::string key = {};       // the key at which the search starts, with table prefix and ordinal
  bool forward = true;        // forward: first key >= key; backward: last key < key
  std::string prefix = {};    // if not empty: the search finds only keys that begin with it
  bool prefix_stays = false;  // RowCursor::prev() stays within the prefix, too
  size_t parts = 0;           // of an exact search: the number of key parts in `key`
  Reach reach = Reach::kFirstRow;
  size_t rows_wanted = 1;  // the size of the first batch of rows
  // A locking read forward that will read all of `prefix`: it locks this whole range at once, and not as it
  // moves.
  bool locks_at_once = false;
};

// The bounds of the searches of one RowCursor, which owns it.
class SearchBounds {
 public:
  // Called when a scan of an index begins. Forgets ranges and prefixes that were given for an earlier scan.
  void restart();
  // Sets the ends of the range for the next search.
  void give(Bounds bounds);
  void take_back() { has_next_ = false; }  // the search for which give() was called is not made
  bool has_next() const { return has_next_; }
  // Called when a search begins; sets its bounds. Returns whether a predicate may refuse rows of this search.
  bool begin(const Seek &seek, const IndexLayout &index);
  // Sets the bounds to the whole index.
  void open(const IndexLayout &index);
  // Forgets the current bounds. RowCursor opens the whole index for its next step.
  void clear() { current_ = {}; }
  void forget_prefix() { prefix_.clear(); }

  const Bounds &current() const { return current_; }
  bool is_empty() const { return current_.upper.empty(); }
  const std::string &prefix() const { return prefix_; }
  bool prefix_stays() const { return prefix_stays_; }

 private:
  Bounds current_;
  Bounds next_;  // the range that the server has given for the next search, if has_next_
  bool has_next_ = false;
  std::string range_end_;  // the end of the range that was given last; empty: no range was given
  std::string prefix_;     // the bytes with which all keys of an exact search begin
  bool prefix_stays_ = false;
};

}  // namespace atoll::table
