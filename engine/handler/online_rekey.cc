// See online_rekey.h.
#include "handler/online_rekey.h"

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
    : OnlineBuild(std::move(layout), std::move(indexes), altered), source_(std::move(source)) {}

Status OnlineRekey::settle(const std::string &key, std::string_view wanted, rocksdb::WriteBatch *batch) {
  std::string current;
  ATOLL_RETURN_IF_ERROR(get(key, &current));
  if (wanted == current) return Status::Ok();
  if (!current.empty()) ATOLL_RETURN_IF_ERROR(change_entries(layout_->row(), current, key, false, batch));
  if (wanted.empty()) return lsm::from_rocksdb(batch->Delete(layout_->family()->handle(), key));
  ATOLL_RETURN_IF_ERROR(change_entries(layout_->row(), wanted, key, true, batch));
  return lsm::from_rocksdb(batch->Put(layout_->family()->handle(), key, wanted));
}

Status OnlineRekey::get(const std::string &key, std::string *value) const {
  value->clear();
  const rocksdb::Status found = main()->Get(rocksdb::ReadOptions(), layout_->family()->handle(), key, value);
  return found.IsNotFound() ? Status::Ok() : lsm::from_rocksdb(found);
}

}  // namespace atoll::handler
