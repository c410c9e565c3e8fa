// A table whose primary key an ALTER changes: where its rows are, and the claims to their new keys. Other
// statements write rows meanwhile and know only the old keys. So beside the new rows there is an index of
// *claims*: each says to which row, by its old key, a new key belongs. The ALTER drops that index at its end.
#pragma once

#include <string>
#include <string_view>

namespace atoll::table {

struct RekeySource {
  std::string rows_start, rows_end;  // the range of the rows under their old keys
  std::string claims_start;          // the bytes with which the key of every claim begins

  // Returns the key of the claim that says: the row under `old_key` has the new primary key `new_key`. The
  // scan stores such claims with an empty value.
  std::string claim(std::string_view new_key, std::string_view old_key) const;
  // Returns the key of the claim of the row under `old_key`, if the table loses its primary key. The value of
  // this claim is the row's hidden id.
  std::string claim_to_number(std::string_view old_key) const;
};

}  // namespace atoll::table
