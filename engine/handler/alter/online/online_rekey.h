// The whole table under other row keys, built while others write (online_rebuild.h). Here is what its two
// kinds share: another primary key (online_claims.h), and numbers instead of one (online_numbers.h).
//
// Writers know the old keys only. So beside the new rows there is an index of *claims*, which say whose a new
// key is; it is thrown away at the end.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "handler/alter/online/online_rebuild.h"

namespace atoll::handler {

// The keys of the rows before such an ALTER, and where it keeps the claims.
struct RekeySource {
  std::string rows_start, rows_end;  // keys of the rows in the old order
  std::string claims_start;          // every claim begins so

  // To a key: `new_key` is of the row in its new order, `old_key` in the old one. It has no value.
  std::string claim(std::string_view new_key, std::string_view old_key) const;
  // To a number, which is the value.
  std::string claim_to_number(std::string_view old_key) const;
};

class OnlineRekey : public OnlineRebuild {
 public:
  OnlineRekey(std::shared_ptr<const Layout> layout, RekeySource source, std::vector<size_t> indexes,
              TABLE *altered);

 protected:
  const RekeySource source_;
};

}  // namespace atoll::handler
