// The whole table under other row keys, built while others write (online_rebuild.h). Here is what its two
// kinds share: another primary key (online_claims.h), and numbers instead of one (online_numbers.h).
#pragma once

#include <memory>
#include <vector>

#include "handler/alter/online/online_rebuild.h"
#include "table/build/rekey_source.h"

namespace atoll::handler {

using table::RekeySource;

class OnlineRekey : public OnlineRebuild {
 public:
  OnlineRekey(std::shared_ptr<const Layout> layout, RekeySource source, std::vector<size_t> indexes,
              TABLE *altered);

 protected:
  const RekeySource source_;
};

}  // namespace atoll::handler
