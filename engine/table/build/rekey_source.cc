// See rekey_source.h.
#include "table/build/rekey_source.h"

#include "codec/key_codec.h"

namespace atoll::table {

std::string RekeySource::claim(std::string_view new_key, std::string_view old_key) const {
  std::string key = claims_start;
  key.append(new_key.substr(codec::kKeyStartLength)).append(old_key.substr(codec::kKeyStartLength));
  return key;
}

std::string RekeySource::claim_to_number(std::string_view old_key) const {
  return claims_start + std::string(old_key.substr(codec::kKeyStartLength));
}

}  // namespace atoll::table
