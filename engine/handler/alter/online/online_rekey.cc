// See online_rekey.h.
#include "handler/alter/online/online_rekey.h"

namespace atoll::handler {

std::string RekeySource::claim(std::string_view new_key, std::string_view old_key) const {
  std::string key = claims_start;
  key.append(new_key.substr(codec::kKeyStartLength)).append(old_key.substr(codec::kKeyStartLength));
  return key;
}

std::string RekeySource::claim_to_number(std::string_view old_key) const {
  return claims_start + std::string(old_key.substr(codec::kKeyStartLength));
}

OnlineRekey::OnlineRekey(std::shared_ptr<const Layout> layout, RekeySource source,
                         std::vector<size_t> indexes, TABLE *altered)
    : OnlineRebuild(std::move(layout), std::move(indexes), altered), source_(std::move(source)) {}

}  // namespace atoll::handler
