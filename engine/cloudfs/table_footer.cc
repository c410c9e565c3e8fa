// See table_footer.h. The layout is RocksDB's for block-based tables from format version 6 on (its
// table/format.cc):
//
//    0   1  kind of checksum
//    1   4  3e 00 7a 00
//    5   8  checksum of the footer, and checksum of its context
//   13   4  bytes of the metaindex block; the block's trailer of 5 bytes follows it, then the footer
//   17  24  reserved
//   41   4  format version
//   45   8  magic number
#include "cloudfs/table_footer.h"

#include <rocksdb/table.h>

#include "base/bytes.h"

namespace atoll::cloudfs {
namespace {

constexpr uint64_t kMagic = 0x88e241b785f4cff7;
constexpr uint32_t kFormatVersion = 7;
constexpr uint64_t kTrailerBytes = 5;

}  // namespace

const char *problem_of_footer(std::string_view footer, uint64_t file_bytes) {
  if (load_le<uint64_t>(footer.data() + 45) != kMagic) return "its magic number is wrong";
  if (load_le<uint32_t>(footer.data() + 41) != kFormatVersion)
    return "it has a format that Atoll does not write";
  if (footer[0] != rocksdb::kXXH3) return "it has a checksum that Atoll does not write";
  const uint64_t metaindex_bytes = load_le<uint32_t>(footer.data() + 13);
  if (metaindex_bytes + kTrailerBytes + kTableFooterBytes > file_bytes)
    return "it names a metaindex block that is larger than the file";
  return nullptr;
}

}  // namespace atoll::cloudfs
