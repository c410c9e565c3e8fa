// Tests only: copies rows into the table of a test. The table moves to a family of its own if the copy asks.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "codec/test_tables.h"
#include "table/copy/bulk_copy.h"
#include "table/testing/stored_table.h"

namespace atoll::table {

// `Test`: a StoredTableTest. Its `layout_` is the layout of the table into which the rows are copied.
template <typename Test>
class CopyTest : public Test {
 protected:
  using Test::database_;
  using Test::layout_;
  using Test::table_;

  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(Test::SetUp());
    budget_ = database_->sort_budget(64 << 20);
  }

  void begin_copy() {
    const auto move = [this](std::shared_ptr<const Layout> *layout) {
      ATOLL_RETURN_IF_ERROR(this->move_to_own_family(layout));
      layout_ = *layout;
      return Status::Ok();
    };
    copy_ = std::make_unique<BulkCopy>(
        BulkCopy::Target{database_.operator->(), database_.operator->(), [] { return true; }, move}, layout_,
        budget_);
  }
  Status finish() {
    return copy_->finish([](double) { return true; }, &layout_);
  }
  // Puts the row for the message about a duplicate into `record`, whose BLOBs then point into this object.
  void show_duplicate(codec::testing::Record *record) {
    copy_->show_duplicate(record->data(), &duplicate_value_);
  }

  std::shared_ptr<lsm::SortBudget> budget_;
  std::unique_ptr<BulkCopy> copy_;

 private:
  std::string duplicate_value_;
};

}  // namespace atoll::table
