// Makes a reader follow the writer: takes one view of the bucket after the other, and tells the server which
// tables have changed their definition.
//
// The follower asks the bucket for news every half second, less often while there are none (at most every ten
// seconds), and takes a new view at most a quarter of the time. ATOLL_WAIT() makes it ask at once.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/views.h"
#include "plugin/host/background.h"
#include "plugin/reading/view_files.h"

namespace atoll::plugin {

// Threads: it has its own; hurry() may be called by any.
class Follower {
 public:
  // `views` must outlive the follower. `files`: those of the newest view have been made.
  Follower(engine::Views *views, std::unique_ptr<ViewFiles> files);

  // Ends the thread. Returns the files of the newest view, for the next follower of the same views.
  std::unique_ptr<ViewFiles> stop();

  // Makes every follower of the process ask for news at once, and often for the next few seconds.
  static void hurry();

 private:
  using Clock = std::chrono::steady_clock;

  void turn();
  Status follow(bool *is_new);
  void complain(const Status &status);
  void note_changed(const engine::View &before, const engine::View &now);
  void close_changed();
  void release_former();

  // A view that is not the newest any more, and when its holders are looked for next.
  struct Former {
    std::weak_ptr<const engine::View> view;
    Clock::time_point due;
  };

  engine::Views *const views_;
  std::unique_ptr<ViewFiles> files_;
  std::chrono::milliseconds idle_;
  Clock::time_point next_, ended_;  // when the next turn begins, and when the last one has ended
  std::set<std::string> to_close_;  // the tables that the server must still close, as SQL names them
  std::vector<Former> former_;
  std::string complained_;                  // the error of the last turn, which was logged; "": it succeeded
  std::unique_ptr<Background> background_;  // last: its thread ends before the other members are destroyed
};

}  // namespace atoll::plugin
