// Makes and drops the snapshots that atoll_snapshot_schedule asks for. Each second it also looks after the
// settings of the database in the bucket (tend_kept_settings()).
//
// One thread sends requests when a period begins, when a user has changed the schedule, and after the start
// of the server. So an idle server with an hourly schedule sends the requests of one snapshot per hour. If a
// snapshot fails, the thread tries again each minute until the snapshot's period ends.
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

  // Only the thread of background_ uses the members from here on.
  // The schedule and the present periods, as one text, when all snapshots for them were made and dropped. As
  // long as the text stays the same, there is nothing to do, and no request is sent.
  std::string done_for_;
  std::string complained_;  // the warning logged last; empty after a success
  time_t next_try_ = 0;     // after a failure: no attempt before this time
  Background background_;   // last, so that its thread ends before the other members are destroyed
};

}  // namespace atoll::plugin
