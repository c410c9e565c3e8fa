// Goal:   positions are read strictly, and compared domain by domain.
// Method: texts as users type them.
#include "plugin/reading/gtid_list.h"

#include <gtest/gtest.h>

namespace atoll::plugin {
namespace {

using lsm::Gtid;
using Gtids = std::vector<Gtid>;

TEST(GtidList, ReadsWhatItWrites) {
  const Gtids gtids = {{0, 1, 5120}, {4294967295, 7, 18446744073709551615ULL}};
  EXPECT_EQ(gtid_text(gtids), "0-1-5120,4294967295-7-18446744073709551615");
  EXPECT_EQ(parse_gtids(gtid_text(gtids)), gtids);
  EXPECT_EQ(parse_gtids(" 0-1-5 , 1-2-3 "), (Gtids{{0, 1, 5}, {1, 2, 3}}));
  EXPECT_EQ(parse_gtids(""), Gtids());
}

TEST(GtidList, RefusesWhatIsNone) {
  for (const char *text : {"5120", "0-1", "0-1-", "0-1-5,", ",0-1-5", "0-1-5 6", "-1-1-5", "0-1-x", "a-1-5",
                           "4294967296-1-1", "0-1-18446744073709551616", "0-1-5;1-1-1"})
    EXPECT_EQ(parse_gtids(text), std::nullopt) << text;
}

TEST(GtidList, CoversEachDomain) {
  const Gtids have = {{0, 1, 10}, {1, 1, 3}};
  EXPECT_TRUE(covers(have, {}));
  EXPECT_TRUE(covers(have, {{0, 9, 10}})) << "the server does not count";
  EXPECT_FALSE(covers(have, {{0, 1, 11}}));
  EXPECT_TRUE(covers(have, {{1, 1, 3}, {0, 1, 1}}));
  EXPECT_FALSE(covers(have, {{0, 1, 1}, {2, 1, 1}})) << "a domain that the database does not know";
}

}  // namespace
}  // namespace atoll::plugin
