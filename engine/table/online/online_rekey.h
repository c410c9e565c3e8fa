// The whole table under other row keys, built while others write (online_rebuild.h). Here is what its two
// kinds share: another primary key (online_claims.h), and numbers instead of one (online_numbers.h).
#pragma once

#include <utility>

#include "table/build/rekey_source.h"
#include "table/online/online_rebuild.h"

namespace atoll::table {

class OnlineRekey : public OnlineRebuild {
 public:
  // For the rest see OnlineBuild.
  OnlineRekey(Plan plan, RekeySource source, Resources resources, BuildView *view)
      : OnlineRebuild(std::move(plan), std::move(resources), view), source_(std::move(source)) {}

 protected:
  const RekeySource source_;
};

}  // namespace atoll::table
