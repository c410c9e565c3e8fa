// The crc32c (Castagnoli) checksum of bytes that are given part by part. RocksDB computes it with the
// processor's instruction for this checksum.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

namespace rocksdb {
class FileChecksumGenerator;
}  // namespace rocksdb

namespace atoll::lsm {

class Crc32c {
 public:
  Crc32c();
  ~Crc32c();
  void add(std::string_view part);
  // Returns the checksum of all parts. Call it once, last.
  uint32_t finish();

 private:
  const std::unique_ptr<rocksdb::FileChecksumGenerator> generator_;
};

}  // namespace atoll::lsm
