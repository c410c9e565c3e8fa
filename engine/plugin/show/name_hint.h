// Writes the names of tables and indexes into the bucket as hint/tables, for `atollctl du` and `atollctl ui`.
// These programs cannot read the names from the catalog, because the catalog is in table files, which only
// RocksDB reads. The hint is for display only: no program opens a table by it.
//
// One thread writes the hint, with one PUT, some seconds after the start and after a change of definitions.
// If definitions change all the time, it writes once a minute. An idle server writes nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "catalog/catalog.h"
#include "plugin/host/background.h"

namespace atoll::plugin {

class NameHint {
 public:
  NameHint();
  ~NameHint() = default;

 private:
  using Clock = std::chrono::steady_clock;
  void look();

  // Only the thread of background_ uses the members from here on.
  uint64_t seen_generation_ = 0;  // the generation of the catalog when look() last compared it
  Clock::time_point due_{};       // no PUT before this time
  Clock::duration between_writes_ =
      std::chrono::seconds(10);  // from the next PUT to the one after it, at least
  bool is_due_ = false;          // definitions have changed, or the last PUT failed: a PUT is due
  std::string written_;          // the hint that the last successful PUT has written
  Background background_;        // last, so that its thread ends before the other members are destroyed
};

// Returns the hint as JSON (docs/internals/formats-bucket.md). Tables with internal names ("#sql-...") are
// left out.
std::string name_hint(const std::vector<catalog::TablePtr> &tables);

}  // namespace atoll::plugin
