// Builds the whole table under other row keys, while other sessions write (online_rebuild.h). This is the
// common base of two kinds of builds: another primary key (online_claims.h), and hidden ids instead of a
// primary key (online_numbers.h).
#pragma once

#include <utility>

#include "table/build/rekey_source.h"
#include "table/online/online_rebuild.h"

namespace atoll::table {

class OnlineRekey : public OnlineRebuild {
 public:
  // The parameters besides `source` are those of OnlineBuild.
  OnlineRekey(Plan plan, RekeySource source, Resources resources, BuildView *view)
      : OnlineRebuild(std::move(plan), std::move(resources), view), source_(std::move(source)) {}

 protected:
  const RekeySource source_;
};

}  // namespace atoll::table
