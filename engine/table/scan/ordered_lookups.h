// Looks up rows whose primary keys come in ascending order, as in a join that reads its first table in the
// order of the key. It steps a cursor from row to row, which costs a fraction of a point lookup.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "table/entry_cursor.h"

namespace atoll::table {

class OrderedLookups {
 public:
  explicit OrderedLookups(const OpenTable &table) : table_(table), cursor_(table) {}

  // Finds the row of `key`, for a consistent read that has its snapshot or a read that has locked the row.
  // Returns true if the cursor has found out whether there is a row, and then sets *exists, and *packed to
  // the row; it is valid until the next call or close(). False: the caller looks the row up. This is so for
  // the first keys, if the keys are in no order or too far apart, if the transaction itself has written the
  // row, and after errors of the cursor.
  bool find(const std::string &key, bool *exists, std::string_view *packed);
  // Called between statements, because each has a snapshot of its own, and HANDLER continues with a cursor of
  // an earlier one. Frees the cursor.
  void close();

  // After this many ascending keys the cursor begins to follow them. Its first search costs as much as two or
  // three lookups. Each time when the next key was too far away, the number doubles.
  static constexpr uint32_t kKeysMin = 16, kKeysMax = 4096;
  // Most entries that the cursor passes from one key to the next. Three steps cost as much as a lookup.
  static constexpr uint32_t kStepsMax = 3;
  // Most deleted entries and old versions that it passes on the way.
  static constexpr uint64_t kHiddenMax = 30;

 private:
  void follow(const std::string &key);
  bool stop();

  const OpenTable &table_;
  EntryCursor cursor_;
  std::string last_;            // the key of the last call
  uint32_t ascending_ = 0;      // how many keys in ascending order have come
  uint32_t wanted_ = kKeysMin;  // with as many ascending keys the cursor begins to follow
  bool is_following_ = false;   // the cursor is on the first entry that is not less than `last_`
};

}  // namespace atoll::table
