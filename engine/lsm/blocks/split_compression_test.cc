// Goal:   table files with split blocks read back as they were written, and are smaller where rows have text
//         or numbers that count up. Files that RocksDB's own compression wrote stay readable.
// Method: real table files, written and read by RocksDB; rows of known and of random form (seed printed).
#include "lsm/blocks/split_compression.h"

#include <gtest/gtest.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/io_status.h>
#include <rocksdb/sst_file_reader.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/table.h>

#include <array>
#include <filesystem>
#include <map>
#include <random>

#include "base/border/border.h"
#include "base/bytes.h"
#include "base/failing_new.h"
#include "lsm/family.h"

namespace atoll::lsm {
namespace {

using Rows = std::map<std::string, std::string>;

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

std::string row_number(uint64_t number) {
  std::string key(14, '\0');
  store_be_bytes(reinterpret_cast<uint8_t *>(key.data()) + 6, number, 8);
  return key;
}

// Rows in the format of packed rows (table FMT-R1) with an int and a varchar of 33 random letters and digits.
Rows archive_rows(size_t count, std::mt19937_64 *random) {
  Rows rows;
  for (uint64_t i = 0; i < count; ++i) {
    std::string value(9, '\0');
    store_le(value.data() + 3, static_cast<uint32_t>(i % 7812));
    value[7] = 33;
    for (int letter = 0; letter < 33; ++letter) value.push_back(kAlphabet[(*random)() % kAlphabet.size()]);
    rows[row_number(i)] = value;
  }
  return rows;
}

// Rows with random keys, in which no number counts up: the differences between rows compress no better than
// the rows themselves.
Rows uncounted_rows(size_t count, std::mt19937_64 *random) {
  constexpr std::array<std::string_view, 3> kStates{"\x01\x80new....", "\x01\x17paid...", "\x02\x55sent..."};
  Rows rows;
  while (rows.size() < count) {
    std::string value(kStates[(*random)() % kStates.size()]);
    for (int letter = 0; letter < 33; ++letter) value.push_back(kAlphabet[(*random)() % kAlphabet.size()]);
    rows[row_number((*random)())] = value;
  }
  return rows;
}

class SplitCompressionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const uint64_t seed = std::random_device{}();
    RecordProperty("seed", std::to_string(seed));
    printf("seed %llu\n", static_cast<unsigned long long>(seed));
    random_.seed(seed);
    path_ = ::testing::TempDir() + "split_compression_" + std::to_string(::getpid()) + ".sst";
  }
  void TearDown() override { std::filesystem::remove(path_); }

  static rocksdb::Options options(rocksdb::CompressionType type, bool split) {
    rocksdb::Options options;
    options.compression = type;
    rocksdb::BlockBasedTableOptions table;
    table.format_version = 7;
    table.block_size = 16 * 1024;
    table.verify_compression = true;
    options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    if (split) options.compression_manager = split_compression_manager();
    return options;
  }

  // Returns the size of the file.
  uint64_t write(const Rows &rows, const rocksdb::Options &options) {
    rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), options);
    EXPECT_TRUE(writer.Open(path_).ok());
    for (const auto &[key, value] : rows) {
      const rocksdb::Status status = writer.Put(key, value);
      if (!status.ok()) ADD_FAILURE() << status.ToString();
    }
    EXPECT_TRUE(writer.Finish().ok());
    return std::filesystem::file_size(path_);
  }

  Rows read(const rocksdb::Options &options) {
    Rows rows;
    rocksdb::SstFileReader reader(options);
    const rocksdb::Status opened = reader.Open(path_);
    EXPECT_TRUE(opened.ok()) << opened.ToString();
    if (!opened.ok()) return rows;
    std::unique_ptr<rocksdb::Iterator> each(reader.NewIterator(rocksdb::ReadOptions()));
    for (each->SeekToFirst(); each->Valid(); each->Next())
      rows[each->key().ToString()] = each->value().ToString();
    EXPECT_TRUE(each->status().ok()) << each->status().ToString();
    return rows;
  }

  std::mt19937_64 random_;
  std::string path_;
};

TEST_F(SplitCompressionTest, rows_with_text_get_smaller) {
  const Rows rows = archive_rows(20000, &random_);
  for (const rocksdb::CompressionType type : {rocksdb::kZSTD, rocksdb::kZlibCompression}) {
    const uint64_t whole = write(rows, options(type, false));
    const uint64_t split = write(rows, options(type, true));
    EXPECT_LT(split, whole - whole / 12);
    EXPECT_EQ(read(options(type, true)), rows);
  }
}

TEST_F(SplitCompressionTest, numbers_that_count_cost_next_to_nothing) {
  constexpr size_t kCount = 20000;
  constexpr double kTextBytes = 33 * 5.97 / 8;  // 33 random characters of 62: about log2(62) bits each
  const uint64_t table = write(archive_rows(kCount, &random_), options(rocksdb::kZSTD, true));
  EXPECT_LT(static_cast<double>(table), kCount * (kTextBytes + 1));
  Rows index;
  for (uint64_t i = 0; i < kCount; ++i) {
    std::string entry(row_number(0).substr(0, 10) + row_number((i % 40) * 500 + i / 40).substr(6));
    store_be_bytes(reinterpret_cast<uint8_t *>(entry.data()) + 6, i / 40, 4);
    index[entry] = "";
  }
  EXPECT_LT(write(index, options(rocksdb::kZSTD, true)), index.size() * 3 / 2);
  EXPECT_EQ(read(options(rocksdb::kZSTD, true)), index);
}

TEST_F(SplitCompressionTest, rows_of_any_form_come_back) {
  for (int round = 0; round < 12; ++round) {
    Rows rows;
    const size_t alphabet = 1 + random_() % kAlphabet.size();
    const size_t length_max = round % 4 == 3 ? 40000 : 1 + random_() % 200;
    for (uint64_t i = 0; i < 1500; ++i) {
      std::string value(random_() % length_max, '\0');
      for (char &byte : value) byte = kAlphabet[random_() % alphabet];
      rows[row_number(random_() % (1u << 20)).substr(0, 12 + random_() % 3)] = std::move(value);
    }
    for (const rocksdb::CompressionType type :
         {rocksdb::kZSTD, rocksdb::kLZ4Compression, rocksdb::kNoCompression}) {
      write(rows, options(type, true));
      ASSERT_EQ(read(options(type, true)), rows) << "round " << round;
    }
  }
}

TEST_F(SplitCompressionTest, files_of_the_former_compression_are_read) {
  const Rows rows = archive_rows(5000, &random_);
  write(rows, options(rocksdb::kZSTD, false));
  EXPECT_EQ(read(options(rocksdb::kZSTD, true)), rows);
}

// When RocksDB opens a table file, it asks the manager for a decompressor of the types in the file's
// properties.
TEST_F(SplitCompressionTest, files_with_later_forms_are_not_opened) {
  const std::shared_ptr<rocksdb::CompressionManager> &manager = split_compression_manager();
  const std::array known{rocksdb::kZSTD, rocksdb::kCustomCompression80, rocksdb::kCustomCompression81};
  EXPECT_NE(manager->GetDecompressorForTypes(known.data(), known.data() + known.size()), nullptr);
  const std::array later{rocksdb::kZSTD, rocksdb::kCustomCompression82};
  EXPECT_EQ(manager->GetDecompressorForTypes(later.data(), later.data() + later.size()), nullptr);
}

TEST_F(SplitCompressionTest, files_with_split_blocks_are_refused_without_it) {
  write(archive_rows(5000, &random_), options(rocksdb::kZSTD, true));
  rocksdb::SstFileReader reader(options(rocksdb::kZSTD, false));
  EXPECT_FALSE(reader.Open(path_).ok());
}

// Makes a block of `rows` in RocksDB's form; each entry is a restart point.
std::string block_of(const Rows &rows) {
  std::string block;
  std::string restarts;
  for (const auto &[key, value] : rows) {
    const auto offset = static_cast<uint32_t>(block.size());
    restarts.append(reinterpret_cast<const char *>(&offset), sizeof offset);
    append_varint(&block, 0);
    append_varint(&block, key.size());
    append_varint(&block, value.size());
    block += key + value;
  }
  const auto count = static_cast<uint32_t>(rows.size());
  restarts.append(reinterpret_cast<const char *>(&count), sizeof count);
  return block + restarts;
}

struct CompressedBlock {
  std::string bytes;
  rocksdb::CompressionType type = rocksdb::kNoCompression;
};

CompressedBlock compress(const std::string &block) {
  const auto file = split_compression_manager()->GetCompressorForSST(
      rocksdb::FilterBuildingContext(rocksdb::BlockBasedTableOptions()), rocksdb::CompressionOptions(),
      rocksdb::kZSTD);
  const auto blocks =
      file->MaybeCloneSpecialized(rocksdb::CacheEntryRole::kDataBlock, rocksdb::Compressor::DictDisabled{});
  CompressedBlock result;
  size_t size = block.size();
  result.bytes.resize(size);
  EXPECT_TRUE(blocks->CompressBlock(block, result.bytes.data(), &size, &result.type, nullptr).ok());
  result.bytes.resize(size);
  return result;
}

rocksdb::Status decompress(const CompressedBlock &block, std::string *output) {
  const std::shared_ptr<rocksdb::Decompressor> decompressor = split_compression_manager()->GetDecompressor();
  rocksdb::Decompressor::Args args;
  args.compression_type = block.type;
  args.compressed_data = block.bytes;
  const rocksdb::Status status = decompressor->ExtractUncompressedSize(args);
  if (!status.ok()) return status;
  output->assign(args.uncompressed_size, '?');
  return decompressor->DecompressBlock(args, output->data());
}

TEST_F(SplitCompressionTest, a_block_of_one_large_value_is_compressed_whole) {
  const CompressedBlock large = compress(block_of({{row_number(1), std::string(1 << 20, 'x')}}));
  EXPECT_EQ(large.type, rocksdb::kZSTD);
}

// A compaction that fails with a retryable status is repeated by RocksDB; after any other status, RocksDB
// accepts no writes any more.
TEST_F(SplitCompressionTest, a_block_that_finds_no_memory_can_be_read_again) {
  for (const Rows &rows : {uncounted_rows(300, &random_), archive_rows(300, &random_)}) {
    const std::string block = block_of(rows);
    const CompressedBlock whole = compress(block);
    std::string output(block.size(), '?');
    rocksdb::Decompressor::Args args;
    args.compression_type = whole.type;
    args.compressed_data = whole.bytes;
    const std::shared_ptr<rocksdb::Decompressor> decompressor =
        split_compression_manager()->GetDecompressor();
    ASSERT_TRUE(decompressor->ExtractUncompressedSize(args).ok());
    failing_new::request = 1;
    rocksdb::Status status = decompressor->DecompressBlock(args, output.data());
    ASSERT_EQ(failing_new::request, 0) << "it needs no memory";
    EXPECT_EQ(from_rocksdb(status).code(), Code::kNoMemory) << status.ToString();
    EXPECT_TRUE(rocksdb::status_to_io_status(std::move(status)).GetRetryable());
    ASSERT_TRUE(decompressor->DecompressBlock(args, output.data()).ok());
    EXPECT_EQ(output, block);
  }
}

// Block checksums find nearly all damage before a block is decompressed. Damage that they miss must still
// cause no bad memory access.
TEST_F(SplitCompressionTest, damaged_blocks_are_corruption) {
  for (const auto &[rows, type] : {std::pair{uncounted_rows(300, &random_), rocksdb::kCustomCompression80},
                                   std::pair{archive_rows(300, &random_), rocksdb::kCustomCompression81}}) {
    const std::string block = block_of(rows);
    const CompressedBlock whole = compress(block);
    ASSERT_EQ(whole.type, type);
    std::string output;
    ASSERT_TRUE(decompress(whole, &output).ok());
    ASSERT_EQ(output, block);
    for (int round = 0; round < 3000; ++round) {
      CompressedBlock damaged = whole;
      if (round % 3 == 0) damaged.bytes.resize(random_() % damaged.bytes.size());
      const size_t reach = round % 2 == 0 ? 16 : damaged.bytes.size();  // damages the start, or any byte
      if (!damaged.bytes.empty())
        damaged.bytes[random_() % std::min(reach, damaged.bytes.size())] ^= 1 + random_() % 255;
      const rocksdb::Status status = decompress(damaged, &output);
      EXPECT_TRUE(status.ok() || status.IsCorruption() || status.IsNotSupported()) << status.ToString();
    }
  }
}

}  // namespace
}  // namespace atoll::lsm
