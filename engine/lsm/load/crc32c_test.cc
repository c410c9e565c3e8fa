// Goal:   Crc32c computes the crc32c of RFC 3720, in whatever parts the bytes come.
#include "lsm/load/crc32c.h"

#include <gtest/gtest.h>

#include <string>

namespace atoll::lsm {
namespace {

uint32_t crc32c_of(std::string_view first, std::string_view second) {
  Crc32c crc;
  crc.add(first);
  crc.add(second);
  return crc.finish();
}

TEST(Crc32cTest, known_values) {
  EXPECT_EQ(crc32c_of("", ""), 0u);
  EXPECT_EQ(crc32c_of("123456789", ""), 0xe3069283u);
  EXPECT_EQ(crc32c_of("1234", "56789"), 0xe3069283u);
  EXPECT_EQ(crc32c_of(std::string(32, '\0'), ""), 0x8a9136aau);  // RFC 3720, B.4
}

}  // namespace
}  // namespace atoll::lsm
