// Gives tables and partitions that have outgrown the shared column family one of their own, while they are
// used: sizes and statistics are exact for a table alone in its files, and only such a one can be moved or
// cloned by its files.
//
// A thread looks ten times a second whether the shared family has grown, and only then at its tables. A move
// is an ALTER TABLE ... FORCE (table/online/online_move.h), which needs the table for itself for a
// moment at its begin and its end: where a transaction holds it for longer than a second, the move is given
// up, and tried again later. It is given up too when the bucket is away: other statements may wait for the
// move, and the bucket may be away for hours.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "plugin/host/background.h"

namespace atoll::engine {
class Engine;
}

namespace atoll::plugin {

class TableMover {
 public:
  TableMover();
  // Ends a move that is under way: the table stays where it is.
  ~TableMover() = default;

  // Tables and partitions that were moved since the start of the server.
  static uint64_t moved();

 private:
  using Clock = std::chrono::steady_clock;
  struct Table {
    std::string database, name;  // as in SQL
    auto operator<=>(const Table &) const = default;
  };
  struct Retry {
    Clock::time_point due;
    std::chrono::seconds wait{0};
  };

  // Watches whether the bucket takes the table files that wait for it.
  class Bucket {
   public:
    // True when table files wait, and nothing was uploaded for some seconds. Ask often.
    bool is_away(const engine::Engine *running);

   private:
    uint64_t bytes_uploaded_ = 0;  // at the last question
    Clock::time_point moved_on_ = Clock::now();
  };

  void look();
  bool is_worth_looking(engine::Engine *running, uint64_t bytes_max);
  // The tables that have outgrown the shared family and need not wait for their next try, sorted.
  std::vector<Table> outgrown(engine::Engine *running, uint64_t bytes_max) const;
  void forget_due_retries_but(const std::vector<Table> &outgrown);
  void move(const engine::Engine *running, const Table &table, uint64_t bytes_max);
  void put_off(const Table &table, unsigned error, const std::string &message);

  // These belong to the thread below.
  uint64_t looked_at_bytes_ = 0;    // size of the shared family at the last look, or since
  uint64_t looked_with_limit_ = 0;  // in bytes
  Clock::time_point not_before_;    // the next look
  std::map<Table, Retry> retries_;
  Bucket bucket_;
  Background background_;  // last: uses all of the above
};

}  // namespace atoll::plugin
