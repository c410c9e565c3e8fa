// See settings.h.
#include "engine/settings.h"

#include <algorithm>
#include <filesystem>

#include "base/memory_limit.h"

namespace atoll::engine {

std::string StartSettings::bucket_beside_databases() const {
  if (!is_local_bucket) return {};
  const std::filesystem::path bucket(url.substr(std::string("file://").size()));
  const std::filesystem::path data_dir = std::filesystem::path(base_dir).parent_path();
  return bucket.parent_path() == data_dir ? bucket.filename().string() : std::string();
}

lsm::Compression Settings::default_compression() const {
  lsm::Compression compression;
  compression.algorithm = static_cast<lsm::Algorithm>(compression_algorithm);
  const int level = static_cast<int>(compression_level);
  if (compression.algorithm == lsm::Algorithm::kZstd) compression.level = level;
  if (compression.algorithm == lsm::Algorithm::kZlib) compression.level = std::min(level, 9);
  return compression;
}

uint64_t Settings::sort_memory_bytes() const {
  // With less than 16 MiB a sort writes many files, and more than 128 MiB saved nothing in measurements. The
  // mover sorts tables without a user's request, and its memory comes on top of all other memory. So with
  // little memory in the machine, a sort gets less than a transaction may have.
  constexpr uint64_t kMiB = 1 << 20;
  const uint64_t bytes_max = std::min<uint64_t>(transaction_memory_bytes, memory_limit_bytes() / 32);
  return std::clamp<uint64_t>(bytes_max, 16 * kMiB, 128 * kMiB);
}

}  // namespace atoll::engine
