// Makes and drops the snapshots of atoll_snapshot_schedule.
//
// One thread. It sends requests when a period begins, when the schedule was changed and after the server's
// start; an idle server with an hourly schedule sends those of one snapshot an hour. A snapshot that could
// not be made is tried again each minute, and after the end of its period no more.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/status.h"
#include "plugin/host/background.h"

namespace atoll::plugin {

class SnapshotKeeper {
 public:
  SnapshotKeeper();
  ~SnapshotKeeper() = default;

 private:
  void look();
  Status keep(const std::string &text, time_t now);

  // These belong to the thread below.
  std::string done_for_;    // the schedule and the periods for which all is done
  std::string complained_;  // the schedule or failure that was logged last
  time_t next_try_ = 0;     // after a failure
  Background background_;   // last: uses all of the above
};

}  // namespace atoll::plugin
