// Writes the names of tables and indexes into the bucket as hint/tables, so that `atollctl du` and `atollctl
// ui` can show them: the catalog lies in table files, which only RocksDB reads. Advice only: nothing reads it
// to open a table.
//
// One thread. It writes a few seconds after the start and after a change of definitions, at most once a
// minute, one PUT each; an idle server writes nothing.
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

  // These belong to the thread below.
  uint64_t seen_generation_ = 0;  // of the catalog, at the last look
  Clock::time_point due_{};       // some time after the first change that is not written yet
  bool is_due_ = false;
  std::string written_;
  Background background_;  // last: uses all of the above
};

// The hint: JSON, see docs/internals/formats-bucket.md. Internal names ("#sql-...") are left out.
std::string name_hint(const std::vector<catalog::TablePtr> &tables);

}  // namespace atoll::plugin
