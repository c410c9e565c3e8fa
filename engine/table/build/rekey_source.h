// A table whose primary key an ALTER changes: where its rows are, and the claims to their new keys. Writers
// know the old keys only. So beside the new rows there is an index of *claims*, which say which row a new key
// belongs to; it is thrown away at the end.
#pragma once

#include <string>
#include <string_view>

namespace atoll::table {

struct RekeySource {
  std::string rows_start, rows_end;  // keys of the rows in the old order
  std::string claims_start;          // every claim begins so

  // The claim to a key: `new_key` is the row's key in the new order, `old_key` that in the old one. A claim
  // to a key has no value.
  std::string claim(std::string_view new_key, std::string_view old_key) const;
  // The claim to a number, which is the claim's value.
  std::string claim_to_number(std::string_view old_key) const;
};

}  // namespace atoll::table
