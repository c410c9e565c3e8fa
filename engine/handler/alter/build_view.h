// Gives a build (table/build/index_build.h, table/online/online_build.h) what it needs from the server: the
// TABLE of the altered table. Only the ALTER's thread uses that TABLE.
#pragma once

#include "handler/server.h"

#include <string>
#include <vector>

#include "handler/alter/key_sources.h"
#include "table/build/index_build.h"

namespace atoll::handler {

class ServerBuildView final : public table::BuildView {
 public:
  // `layout`: the layout of `altered`. `indexes`: the numbers in `layout` of the indexes to build. All three
  // must outlive the view.
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
  // True if the ALTER was killed, or if the engine's own thread that runs it must stop.
  bool is_unwanted() const override;

 private:
  TABLE &altered_;
  const KeySources sources_;
};

}  // namespace atoll::handler
