// See table_options.h.
//
// The options COMPRESSION_ALGORITHM and S3_BLOCK_SIZE come from the S3 engine, PAGE_COMPRESSED and
// PAGE_COMPRESSION_LEVEL from InnoDB. Atoll accepts them so that statements written for those engines work
// unchanged. S3_BLOCK_SIZE and ATOMIC_WRITES have no effect.
#include "handler/server.h"

#include "handler/ddl/table_options.h"

#include "engine/running.h"
#include "handler/handlerton.h"

struct ha_table_option_struct {
  uint compression;
  ulonglong compression_level;
  uint compression_algorithm;
  ulonglong s3_block_size;
  bool page_compressed;
  ulonglong page_compression_level;
  uint atomic_writes;
};

namespace atoll::handler {
namespace {

// The positions of the words in the two ENUM lists below: in that of COMPRESSION, and in that of
// COMPRESSION_ALGORITHM.
enum : uint { kDefault = 0, kNone = 1, kLz4 = 2, kZstd = 3, kZlib = 4 };
enum : uint { kS3Default = 0, kS3None = 1, kS3Zlib = 2 };

ha_create_table_option table_option_list[] = {
    HA_TOPTION_ENUM("COMPRESSION", compression, "default,none,lz4,zstd,zlib", 0),
    HA_TOPTION_NUMBER("COMPRESSION_LEVEL", compression_level, 0, 0, 22, 1),
    HA_TOPTION_ENUM("COMPRESSION_ALGORITHM", compression_algorithm, "default,none,zlib", 0),
    HA_TOPTION_NUMBER("S3_BLOCK_SIZE", s3_block_size, 0, 0, 16 * 1024 * 1024, 1),
    HA_TOPTION_BOOL("PAGE_COMPRESSED", page_compressed, false),
    HA_TOPTION_NUMBER("PAGE_COMPRESSION_LEVEL", page_compression_level, 0, 0, 9, 1),
    HA_TOPTION_ENUM("ATOMIC_WRITES", atomic_writes, "DEFAULT,ON,OFF", 0),
    HA_TOPTION_END};

int level_max(lsm::Algorithm algorithm) {
  switch (algorithm) {
    case lsm::Algorithm::kNone:
      return 0;
    case lsm::Algorithm::kLz4:
      return 0;
    case lsm::Algorithm::kZstd:
      return 22;
    case lsm::Algorithm::kZlib:
      return 9;
  }
  return 0;
}

}  // namespace

ha_create_table_option *table_options() { return table_option_list; }

Status compression_of(const ha_table_option_struct *options, lsm::Compression *out, bool *given) {
  *out = engine::running()->settings().default_compression();
  *given = false;
  if (options == nullptr) return Status::Ok();
  *given = true;
  auto level = static_cast<int>(options->compression_level);
  const bool has_level = level != 0;
  switch (options->compression) {
    case kNone:
      *out = {lsm::Algorithm::kNone, 0};
      break;
    case kLz4:
      *out = {lsm::Algorithm::kLz4, 0};
      break;
    case kZstd:
      *out = {lsm::Algorithm::kZstd, 0};
      break;
    case kZlib:
      *out = {lsm::Algorithm::kZlib, 0};
      break;
    default:
      if (options->compression_algorithm == kS3Zlib)
        *out = {lsm::Algorithm::kZlib, 0};
      else if (options->compression_algorithm == kS3None)
        *out = {lsm::Algorithm::kNone, 0};
      else if (options->page_compressed)
        *out = {lsm::Algorithm::kZlib, static_cast<int>(options->page_compression_level)};
      else if (!has_level)
        *given = false;
  }
  if (!has_level) return Status::Ok();
  if (level > level_max(out->algorithm))
    return Status(Code::kInvalid, "COMPRESSION_LEVEL=" + std::to_string(level) +
                                      " is not a level of this algorithm; the "
                                      "largest is " +
                                      std::to_string(level_max(out->algorithm)) +
                                      " (zstd 22, zlib 9, lz4 and none have none)");
  out->level = level;
  return Status::Ok();
}

}  // namespace atoll::handler
