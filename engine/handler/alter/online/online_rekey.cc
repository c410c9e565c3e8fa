// See online_rekey.h.
#include "handler/alter/online/online_rekey.h"

namespace atoll::handler {

OnlineRekey::OnlineRekey(std::shared_ptr<const Layout> layout, RekeySource source,
                         std::vector<size_t> indexes, TABLE *altered)
    : OnlineRebuild(std::move(layout), std::move(indexes), altered), source_(std::move(source)) {}

}  // namespace atoll::handler
