// Tests only: an ALTER of a table to which other sessions write. The test calls the steps of the ALTER one by
// one.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "table/build/test_view.h"
#include "table/online/online_claims.h"
#include "table/online/online_index_build.h"
#include "table/online/online_move.h"
#include "table/online/online_numbers.h"

namespace atoll::table {

// What an ALTER builds: indexes, or the table in another family, under another primary key, or under hidden
// ids.
enum class Built { kIndexes, kMove, kPrimaryKey, kNumbers };

class TestAlter {
 public:
  static constexpr uint32_t kLogPrefix = 5;
  static constexpr uint16_t kClaimsOrdinal = 9;

  // Begins the ALTER. From now on the test must let writers call log() for their changes. `former`: the
  // layout with which they write, in records of `record_bytes`. `indexes`: the indexes that are built, by
  // number in `altered`.
  TestAlter(lsm::Database *database, Built built, std::shared_ptr<const Layout> former,
            std::shared_ptr<const Layout> altered, std::vector<size_t> indexes, size_t record_bytes)
      : altered(std::move(altered)),
        indexes(std::move(indexes)),
        view(this->altered, this->indexes, record_bytes),
        database_(database),
        former_(std::move(former)),
        rekey_{former_->primary_index().start, former_->primary_index().end, {}},
        rekeyed_(built == Built::kPrimaryKey || built == Built::kNumbers),
        snapshot_(database->take_snapshot(lsm::Side::kMain)) {
    codec::KeyCodec(kClaimsOrdinal, {}, 0).append_start(former_->def().prefix, &rekey_.claims_start);
    online_ = online_build(built, record_bytes);
  }
  ~TestAlter() { database_->release_snapshot(lsm::Side::kMain, snapshot_); }
  TestAlter(const TestAlter &) = delete;
  TestAlter &operator=(const TestAlter &) = delete;

  // Copies the rows that the ALTER's snapshot shows, or makes the entries of the new indexes from them.
  Status fill() {
    IndexBuild build({former_, altered, indexes, snapshot_, rekeyed_ ? &rekey_ : nullptr},
                     {database_, database_, 16 << 20, 2}, &view);
    Status status = build.run();
    duplicate_index_ = build.duplicate_index();
    return status;
  }
  Status replay() {
    uint64_t records = 0;
    return online_->replay(&records);
  }
  Status finish() {
    Status status = online_->finish();
    duplicate_index_ = online_->duplicate_index();
    if (status.code() == Code::kDuplicate) online_->show_duplicate();
    return status;
  }
  // The index in which the last step has found a duplicate.
  size_t duplicate_index() const { return duplicate_index_; }
  OnlineBuild *online() { return online_.get(); }

  const std::shared_ptr<const Layout> altered;
  const std::vector<size_t> indexes;
  TestView view;
  Status before_write;  // the value that Resources::before_write returns to the build

 private:
  std::unique_ptr<OnlineBuild> online_build(Built built, size_t record_bytes) {
    OnlineBuild::Plan plan{altered, indexes};
    OnlineBuild::Resources resources{database_, database_, kLogPrefix, [this] { return before_write; }};
    switch (built) {
      case Built::kIndexes:
        return std::make_unique<OnlineIndexBuild>(
            std::move(plan), OnlineIndexBuild::Writers{*former_, record_bytes}, std::move(resources), &view);
      case Built::kMove:
        return std::make_unique<OnlineMove>(std::move(plan), std::move(resources), &view);
      case Built::kPrimaryKey:
        return std::make_unique<OnlineClaims>(std::move(plan), rekey_, std::move(resources), &view);
      case Built::kNumbers:
        return std::make_unique<OnlineNumbers>(std::move(plan), rekey_, std::move(resources), &view);
    }
    __builtin_unreachable();
  }

  lsm::Database *const database_;
  const std::shared_ptr<const Layout> former_;
  RekeySource rekey_;
  const bool rekeyed_;
  const rocksdb::Snapshot *const snapshot_;
  std::unique_ptr<OnlineBuild> online_;
  size_t duplicate_index_ = IndexBuild::kNoIndex;
};

}  // namespace atoll::table
