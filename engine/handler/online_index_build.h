// Indexes that an ALTER adds while others write. The log has the entries that come and go, each under its own
// key, so a replay is a batch of puts and deletes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "handler/online_build.h"

namespace atoll::handler {

class OnlineIndexBuild final : public OnlineBuild {
 public:
  // `indexes`: the numbers of those being built. From now on log() must be called for every change.
  OnlineIndexBuild(std::shared_ptr<const Layout> layout, std::vector<size_t> indexes)
      : OnlineBuild(std::move(layout)), indexes_(std::move(indexes)) {}

  void show_duplicate(uint8_t *record) override;

 private:
  Status log_change(txn::Transaction *transaction, const RowImage &before, const RowImage &after) override;
  Status apply(const std::vector<Change> &changes) override;

  const std::vector<size_t> indexes_;
  std::string shown_value_, scratch_;
};

}  // namespace atoll::handler
