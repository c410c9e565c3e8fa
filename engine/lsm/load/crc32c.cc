#include "lsm/load/crc32c.h"

#include <rocksdb/file_checksum.h>

#include <string>

namespace atoll::lsm {

Crc32c::Crc32c() : generator_(rocksdb::GetFileChecksumGenCrc32cFactory()->CreateFileChecksumGenerator({})) {}

Crc32c::~Crc32c() = default;

void Crc32c::add(std::string_view part) { generator_->Update(part.data(), part.size()); }

// RocksDB returns the checksum as four bytes, the highest first.
uint32_t Crc32c::finish() {
  generator_->Finalize();
  uint32_t value = 0;
  for (const char byte : generator_->GetChecksum()) value = value << 8 | static_cast<uint8_t>(byte);
  return value;
}

}  // namespace atoll::lsm
