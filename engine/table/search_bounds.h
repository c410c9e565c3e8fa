// The bounds of a search and of the steps after it.
//
// The server may give the ends of a range before the search. An exact search is bounded by the prefix of its
// keys; a loose scan (one that searches for the first row of each group) by the end of the last range. The
// engine reads, locks and steps over nothing outside the bounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "table/layout.h"

namespace atoll::table {

// A range of an index's keys, from `lower` to before `upper`.
struct Bounds {
  std::string lower, upper;
};

// Where a search starts and which way it goes.
struct Seek {
  // What the search may find, unless the server has given the ends of a range.
  enum class Reach : uint8_t {
    kFirstRow,    // the server may want only the first row, whichever it is; no predicate may refuse a row,
                  // or the search could go on to the end of the index
    kWholeIndex,  // the scan goes over all of the index
    kAfterKey,    // as kFirstRow, behind a key; a loose scan stays in the last range
    kAnyRow,      // one row, which no condition refuses
  };
  std::string key = {};       // full key bytes
  bool forward = true;        // forward: first key >= key; backward: last key < key
  std::string prefix = {};    // when not empty: only keys that start so
  bool prefix_stays = false;  // prev() stays within it too
  size_t parts = 0;           // of an exact search: how many parts `key` has
  Reach reach = Reach::kFirstRow;
  size_t rows_wanted = 1;  // at first
};

class SearchBounds {
 public:
  // A scan of an index begins: nothing is bound.
  void restart();
  // The ends of the range that the next search is for.
  void give(Bounds bounds);
  void take_back() { has_next_ = false; }  // there is no such search
  bool has_next() const { return has_next_; }
  // A search begins. Returns whether a predicate may refuse rows.
  bool begin(const Seek &seek, const IndexLayout &index);
  // The bounds are all of the index from now on.
  void open(const IndexLayout &index);
  // Forgets everything; the next step is within all of the index.
  void clear() { current_ = {}; }
  void forget_prefix() { prefix_.clear(); }

  const Bounds &current() const { return current_; }
  bool is_empty() const { return current_.upper.empty(); }
  const std::string &prefix() const { return prefix_; }
  bool prefix_stays() const { return prefix_stays_; }

 private:
  Bounds current_;
  Bounds next_;  // of the search that is about to start, if has_next_
  bool has_next_ = false;
  std::string range_end_;  // of the last range given. Empty: none
  std::string prefix_;     // of an exact search: all that the keys it finds begin with
  bool prefix_stays_ = false;
};

}  // namespace atoll::table
