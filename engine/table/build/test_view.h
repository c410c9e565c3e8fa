// Tests only: a BuildView without a server, whose answers a test can choose.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lsm/test_database.h"
#include "table/build/index_build.h"

namespace atoll::table {

class TestView final : public BuildView {
 public:
  // `layout`: of the altered table. `indexes`: the indexes that are built, by number in `layout`.
  TestView(const std::shared_ptr<const Layout> &layout, const std::vector<size_t> &indexes,
           size_t record_bytes)
      : layout_(layout), record_(record_bytes) {
    for (const size_t i : indexes) add_parts(layout->index(i));
    add_parts(layout->primary_index());
  }

  bool makes_entries = false;  // true: the build runs as if an index had a virtual column
  bool unwanted = false;
  uint64_t computed = 0;
  std::function<void()> on_compute = [] {};  // compute() calls it; a test lets other sessions write in it
  Status computes;                           // the value that compute() returns

  uint8_t *record() override { return record_.data(); }
  size_t record_bytes() const override { return record_.size(); }
  const ColumnBytes &sources() const override { return sources_; }
  bool has_virtual() const override { return makes_entries; }
  Status compute() override {
    computed++;
    on_compute();
    return computes;
  }
  void clear_record() override { std::fill(record_.begin(), record_.end(), 0); }
  void show_row(const std::string &primary_key, const rocksdb::Snapshot *snapshot,
                std::string *buffer) override {
    rocksdb::ReadOptions options;
    options.snapshot = snapshot;
    ASSERT_TRUE(layout_->family()->get(options, primary_key, buffer).ok());
    ASSERT_ATOLL_OK(layout_->row().unpack(*buffer, nullptr, record_.data()));
  }
  bool is_unwanted() const override { return unwanted; }

 private:
  void add_parts(const IndexLayout &index) {
    for (const codec::KeyPart &part : index.parts)
      sources_[part.source.id] = part.prefix_length == 0 ? kWholeColumn : part.prefix_length;
  }

  const std::shared_ptr<const Layout> &layout_;
  std::vector<uint8_t> record_;
  ColumnBytes sources_;
};

}  // namespace atoll::table
