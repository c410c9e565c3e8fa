// The server as a build sees it (table/build/index_build.h, table/online/online_build.h): the TABLE of the
// altered table, which the ALTER's thread has to itself.
#pragma once

#include "handler/server.h"

#include <string>
#include <vector>

#include "handler/alter/key_sources.h"
#include "table/build/index_build.h"

namespace atoll::handler {

class ServerBuildView final : public table::BuildView {
 public:
  // `layout`: that of `altered`. `indexes`: the numbers in it of those that are built. All outlive the view.
  ServerBuildView(const Layout &layout, TABLE *altered, const std::vector<size_t> &indexes)
      : altered_(*altered), sources_(layout, altered, indexes) {}

  uint8_t *record() override { return altered_.record[0]; }
  size_t record_bytes() const override { return altered_.s->reclength; }
  const table::ColumnBytes &sources() const override { return sources_.bytes(); }
  bool has_virtual() const override { return sources_.has_virtual(); }
  Status compute() override { return sources_.compute(); }
  void clear_record() override;
  void show_row(const std::string &primary_key, const rocksdb::Snapshot *snapshot,
                std::string *buffer) override {
    sources_.show_row(primary_key, snapshot, buffer);
  }
  // Its statement was killed, or the thread that runs it for the engine is to stop.
  bool is_unwanted() const override;

 private:
  TABLE &altered_;
  const KeySources sources_;
};

}  // namespace atoll::handler
