// The rows of a table whose primary key an ALTER changes. Other statements write rows while the ALTER runs,
// and they know only the old keys. So the ALTER keeps an index of *claims* beside the new rows: a claim maps
// a new key to the old key of its row. The ALTER drops this index at its end.
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
