// Tells from a path what RocksDB keeps there. Only direct children of the database directory and of
// shared_directory() count: a file in another sub-directory (bulk loads) is an ordinary local file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/namespace.h"

namespace atoll::cloudfs {

enum class FileKind : uint8_t {
  kTable,     // NNNNNN.sst, NNNNNN.blob: an object in the bucket
  kShared,    // shared/NNNNNN.sst: the table file of that number, whose object another number is to share
  kManifest,  // MANIFEST-NNNNNN
  kWal,       // NNNNNN.log
  kCurrent,   // CURRENT
  kOptions,   // OPTIONS-NNNNNN and its temporary form
  kOther,     // local and of no interest to the bucket
};

struct FileName {
  FileKind kind = FileKind::kOther;
  uint64_t number = 0;

  // Whether the path stands for the bytes of the table file `number`.
  bool is_of_table() const { return kind == FileKind::kTable || kind == FileKind::kShared; }
};

// `directory` has no trailing slash.
FileName parse_file_name(std::string_view directory, std::string_view path);

// The directory whose paths stand for table files that are to be shared (kShared). No file lies in it.
// `directory`: the database's.
std::string shared_directory(std::string_view directory);

// "NNNNNN.sst", at least six digits, as RocksDB spells it.
std::string table_file_name(uint64_t number);

// Reads "MANIFEST-NNNNNN\n", the content of CURRENT. False: it is not that.
bool parse_current(std::string_view content, uint64_t *manifest_number);

}  // namespace atoll::cloudfs
