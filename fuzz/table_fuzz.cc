// libFuzzer over table files, through the engine's reader and RocksDB's. ATOLL_FUZZ_TARGET is `tables`;
// ATOLL_FUZZ_SEEDS=DIR writes valid files into a folder instead.
//
// An input is a whole file. It is read as it is, and once more with the checksum of its footer mended,
// because a footer with a wrong one says nothing about what RocksDB makes of its fields. RocksDB itself is
// not instrumented: its crashes are seen, its branches are not counted.
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>
#include <rocksdb/sst_file_reader.h>
#include <rocksdb/sst_file_writer.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "cloudfs/table_reader.h"
#include "lsm/options.h"

// RocksDB's own; not in its public headers.
namespace ROCKSDB_NAMESPACE {
uint32_t ComputeBuiltinChecksum(ChecksumType type, const char *bytes, size_t length);
}

// The object layer of one file in memory.
struct atoll_file {
  std::string_view bytes;
};

extern "C" {

atoll_result atoll_file_read(atoll_file *file, uint64_t offset, uint64_t length, char *buffer, uint64_t *read,
                             int /*refetch*/) {
  const std::string_view rest = file->bytes.substr(std::min<uint64_t>(offset, file->bytes.size()));
  *read = std::min<uint64_t>(length, rest.size());
  std::memcpy(buffer, rest.data(), *read);
  return {};
}

void atoll_file_read_many(atoll_file *file, atoll_read *reads, size_t count) {
  for (atoll_read *each = reads; each != reads + count; ++each)
    each->result = atoll_file_read(file, each->offset, each->length, each->buffer, &each->read, 0);
}

void atoll_file_prefetch(atoll_file * /*file*/, uint64_t /*offset*/, uint64_t /*length*/) {}

void atoll_file_close(atoll_file *file) { delete file; }

}  // extern "C"

namespace atoll {
namespace {

constexpr size_t kFooterBytes = 53;
constexpr char kPath[] = "/tables/000001.sst";

// Every path is the one file.
class OneFile final : public rocksdb::FileSystemWrapper {
 public:
  explicit OneFile(std::string_view bytes)
      : FileSystemWrapper(rocksdb::FileSystem::Default()), bytes_(bytes) {}
  const char *Name() const override { return "OneFile"; }

  rocksdb::IOStatus NewRandomAccessFile(const std::string & /*path*/,
                                        const rocksdb::FileOptions & /*options*/,
                                        std::unique_ptr<rocksdb::FSRandomAccessFile> *result,
                                        rocksdb::IODebugContext * /*debug*/) override {
    *result = std::make_unique<cloudfs::TableReader>(new atoll_file{bytes_}, 1, bytes_.size());
    return rocksdb::IOStatus::OK();
  }
  rocksdb::IOStatus GetFileSize(const std::string & /*path*/, const rocksdb::IOOptions & /*options*/,
                                uint64_t *bytes, rocksdb::IODebugContext * /*debug*/) override {
    *bytes = bytes_.size();
    return rocksdb::IOStatus::OK();
  }

 private:
  const std::string_view bytes_;
};

rocksdb::Options options_with(rocksdb::Env *env, lsm::Algorithm algorithm) {
  lsm::DatabaseOptions settings;
  settings.block_cache_bytes = 8 << 20;
  static const lsm::SharedParts parts = lsm::make_shared_parts(settings);
  const lsm::Compression compression{algorithm, 0};
  return lsm::bulk_file_options(compression, parts, env, lsm::StreamKind::kSought);
}

void read_table(std::string_view bytes) {
  const std::shared_ptr<rocksdb::FileSystem> files = std::make_shared<OneFile>(bytes);
  const std::unique_ptr<rocksdb::Env> env = rocksdb::NewCompositeEnv(files);
  rocksdb::SstFileReader reader(options_with(env.get(), lsm::Algorithm::kNone));
  if (!reader.Open(kPath).ok()) return;
  reader.VerifyChecksum().PermitUncheckedError();
  rocksdb::ReadOptions options;
  options.fill_cache = false;  // another input is another file of the same name
  const std::unique_ptr<rocksdb::Iterator> iterator(reader.NewIterator(options));
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) iterator->value();
  for (iterator->SeekToLast(); iterator->Valid(); iterator->Prev()) iterator->key();
  iterator->Seek("key 7");
}

// The footer with the checksum that it should have, and without the context in which the file was made.
std::string with_mended_footer(std::string_view input) {
  std::string bytes(input);
  char *footer = bytes.data() + bytes.size() - kFooterBytes;
  store_le<uint64_t>(footer + 5, 0);
  const auto type = static_cast<rocksdb::ChecksumType>(footer[0]);
  store_le(footer + 5, rocksdb::ComputeBuiltinChecksum(type, footer, kFooterBytes));
  return bytes;
}

void run(std::string_view input) {
  read_table(input);
  if (input.size() < kFooterBytes || static_cast<uint8_t>(input[input.size() - kFooterBytes]) > 4) return;
  read_table(with_mended_footer(input));
}

// A file of `rows` entries, compressed with one of the algorithms.
void write_seed(const std::string &path, lsm::Algorithm algorithm, int rows) {
  rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), options_with(rocksdb::Env::Default(), algorithm));
  rocksdb::Status status = writer.Open(path);
  for (int row = 0; row < rows && status.ok(); ++row) {
    const std::string number = std::to_string(100000 + row);
    status = writer.Put("key " + number, "row " + number + " of a table with text");
  }
  if (status.ok()) status = writer.Finish();
  if (status.ok()) return;
  std::fprintf(stderr, "%s: %s\n", path.c_str(), status.ToString().c_str());
  std::exit(2);
}

void write_seeds_if_asked() {
  const char *folder = std::getenv("ATOLL_FUZZ_SEEDS");
  if (folder == nullptr) return;
  int file = 0;
  for (const lsm::Algorithm algorithm :
       {lsm::Algorithm::kNone, lsm::Algorithm::kLz4, lsm::Algorithm::kZstd, lsm::Algorithm::kZlib})
    for (const int rows : {1, 40})
      write_seed(std::string(folder) + "/seed-" + std::to_string(++file), algorithm, rows);
  std::exit(0);
}

}  // namespace
}  // namespace atoll

extern "C" int LLVMFuzzerInitialize(int * /*argc*/, char *** /*argv*/) {
  atoll::write_seeds_if_asked();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  atoll::run({reinterpret_cast<const char *>(bytes), size});
  return 0;
}
