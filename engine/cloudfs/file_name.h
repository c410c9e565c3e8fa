// Tells from a path which kind of RocksDB file it names. Only files directly in the database directory or in
// shared_directory() are recognised. A file in another sub-directory (bulk loads) is an ordinary local file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/namespace.h"

namespace atoll::cloudfs {

// The kind of a file decides what CloudFileSystem does with the file; the table in cloud_file_system.h says
// what.
enum class FileKind : uint8_t {
  kTable,     // NNNNNN.sst, NNNNNN.blob: an object in the bucket
  kShared,    // shared/NNNNNN.sst: table file NNNNNN, about to share its object with a second file number
  kManifest,  // MANIFEST-NNNNNN: local; the store uploads the part of it that was synced
  kWal,       // NNNNNN.log: a file of the log, local; the shipper uploads it in chunks
  kCurrent,   // CURRENT: local; it names the MANIFEST that is in use
  kOptions,   // OPTIONS-NNNNNN and OPTIONS-NNNNNN.dbtmp: local; refused after refuse_options_files()
  kOther,     // any other file: local, not uploaded under a file number
};

// What a path of RocksDB names. Made by parse_file_name().
struct FileName {
  FileKind kind = FileKind::kOther;
  uint64_t number = 0;  // NNNNNN; 0 for kCurrent, kOptions and kOther

  // True if the path names table file `number`, by its own name or by its name in shared_directory().
  bool is_of_table() const { return kind == FileKind::kTable || kind == FileKind::kShared; }
};

// `directory` has no trailing slash.
FileName parse_file_name(std::string_view directory, std::string_view path);

// The directory of the kShared paths, below the database's `directory`. It holds no files: a path in it is
// only another name of a table file, for RocksDB to link and read.
std::string shared_directory(std::string_view directory);

// "NNNNNN.sst", at least six digits, as RocksDB spells it.
std::string table_file_name(uint64_t number);

// Sets *manifest_number to the number in the content of CURRENT, which is "MANIFEST-NNNNNN\n". Returns false
// if `content` has another form.
bool parse_current(std::string_view content, uint64_t *manifest_number);

}  // namespace atoll::cloudfs
