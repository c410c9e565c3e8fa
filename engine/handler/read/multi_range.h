// How far a read of many ranges has come (multi_range.cc).
#pragma once

#include "handler/server.h"

#include <vector>

namespace atoll::handler {

struct MultiRange {
  // kAhead: the rows of many ranges are looked up together. kOneByOne: the server's own way.
  enum class Way : uint8_t { kUndecided, kAhead, kOneByOne };
  struct Origin {
    range_id_t range;
    bool unique;  // the range has one row at most
  };

  Way way = Way::kUndecided;
  bool ended = false;           // there are no more ranges
  bool must_reread = false;     // the range that was fetched last is still to be read, one by one
  std::vector<Origin> origins;  // of the rows of the batch
};

}  // namespace atoll::handler
