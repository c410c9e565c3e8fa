// Goal:   a parallel scan gives exactly the rows of a serial scan for any splits, number of threads and
//         predicate: to its caller in key order, or to its threads. It can be abandoned at any moment.
// Method: 20000 rows in a RocksDB of its own, random splits and numbers of threads; the seed is printed.
#include "table/scan/parallel_scan.h"

#include <gtest/gtest.h>
#include <unistd.h>
#include <rocksdb/db.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <random>
#include <thread>

#include "txn/test_database.h"

namespace atoll::table {
namespace {

std::string key_of(uint32_t number) {
  std::string key("k0000000");
  for (int i = 7; i > 0; i--, number /= 10) key[i] = static_cast<char>('0' + number % 10);
  return key;
}

class ParallelScanTest : public ::testing::Test {
 protected:
  void SetUp() override {
    seed_ = std::random_device()();
    RecordProperty("seed", std::to_string(seed_));
    std::cout << "seed " << seed_ << "\n";
    random_.seed(seed_);
    directory_ = std::filesystem::temp_directory_path() / ("atoll-scan-" + std::to_string(getpid()));
    std::filesystem::remove_all(directory_);
    rocksdb::Options options;
    options.create_if_missing = true;
    ASSERT_TRUE(rocksdb::DB::Open(options, directory_.string(), &db_).ok());
    family_ = std::make_unique<txn::TestFamily>(db_->DefaultColumnFamily(), lsm::Side::kMain, db_.get());
    codec_ = std::make_unique<codec::RowCodec>(1, std::vector<codec::Column>{column()});
    fill(20000);
  }

  void TearDown() override {
    db_.reset();
    std::filesystem::remove_all(directory_);
  }

  static codec::Column column() {
    codec::Column column;
    column.id = 1;
    column.kind = codec::ColumnKind::kFixed;
    column.length = 4;
    return column;
  }

  void fill(uint32_t rows) {
    for (uint32_t i = 0; i < rows; i++) {
      const auto value = static_cast<int32_t>(i % 97);
      std::string packed;
      codec_->pack(reinterpret_cast<const uint8_t *>(&value), &packed);
      ASSERT_TRUE(db_->Put(rocksdb::WriteOptions(), key_of(i), packed).ok());
    }
    rows_ = rows;
  }

  ParallelScan::Request request() {
    ParallelScan::Request request;
    request.family = family_.get();
    request.begin = "k";
    request.end = "l";
    std::vector<uint32_t> cuts(random_() % 40);
    for (uint32_t &cut : cuts) cut = random_() % rows_;
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    for (uint32_t cut : cuts) request.splits.push_back(key_of(cut));
    request.threads = 1 + random_() % 6;
    request.row = codec_.get();
    return request;
  }

  uint32_t seed_ = 0;
  std::mt19937 random_;
  std::filesystem::path directory_;
  std::unique_ptr<rocksdb::DB> db_;
  std::unique_ptr<txn::TestFamily> family_;
  std::unique_ptr<codec::RowCodec> codec_;
  uint32_t rows_ = 0;
};

std::vector<std::string> keys_of(ParallelScan *scan) {
  std::vector<std::string> keys;
  for (bool end = false; !end;) {
    std::string_view key, row;
    bool waiting = false;
    EXPECT_TRUE(scan->next(&key, &row, &end, &waiting).ok());
    if (!end && !waiting) keys.emplace_back(key);
  }
  return keys;
}

TEST_F(ParallelScanTest, returns_all_rows_in_key_order) {
  for (int round = 0; round < 20; round++) {
    ParallelScan scan(request());
    const std::vector<std::string> keys = keys_of(&scan);
    ASSERT_EQ(keys.size(), rows_);
    for (uint32_t i = 0; i < rows_; i++) ASSERT_EQ(keys[i], key_of(i));
  }
}

TEST_F(ParallelScanTest, returns_only_rows_that_pass) {
  codec::Operand eight;
  eight.as = codec::CompareAs::kSignedInteger;
  eight.signed_value = 8;
  const auto predicate = codec::Predicate::compare(0, codec::CompareOp::kEqual, eight);
  for (int round = 0; round < 20; round++) {
    ParallelScan::Request asked = request();
    asked.predicate = predicate.get();
    ParallelScan scan(std::move(asked));
    std::vector<std::string> expected;
    for (uint32_t i = 8; i < rows_; i += 97) expected.push_back(key_of(i));
    ASSERT_EQ(keys_of(&scan), expected);
  }
}

TEST_F(ParallelScanTest, rows_that_wait_are_bounded_however_many_pieces_are_finished) {
  // There are 60 pieces of 1 MiB: 16 rows of 64 KiB each. Each piece is smaller than kPieceBytesMax, so only
  // the limit on all pieces together bounds the memory.
  constexpr uint32_t kRows = 60 * 16, kRowsOfPiece = 16;
  ASSERT_TRUE(db_->DeleteRange(rocksdb::WriteOptions(), "k", "l").ok());
  for (uint32_t i = 0; i < kRows; i++)
    ASSERT_TRUE(db_->Put(rocksdb::WriteOptions(), key_of(i), std::string(64 << 10, 'x')).ok());
  ParallelScan::Request asked = request();
  asked.threads = 4;
  asked.splits.clear();
  for (uint32_t i = kRowsOfPiece; i < kRows; i += kRowsOfPiece) asked.splits.push_back(key_of(i));
  ParallelScan scan(std::move(asked));
  std::this_thread::sleep_for(std::chrono::milliseconds(500));  // the threads queue rows up to the limit
  const std::vector<std::string> keys = keys_of(&scan);
  ASSERT_EQ(keys.size(), kRows);
  for (uint32_t i = 0; i < kRows; i++) ASSERT_EQ(keys[i], key_of(i));
  const size_t current = ParallelScan::kPieceBytesMax, slack = size_t{4} << 20;
  EXPECT_LE(scan.queued_bytes_most(), ParallelScan::kQueuedBytesMax + current + slack);
}

TEST_F(ParallelScanTest, reads_at_the_snapshot) {
  const rocksdb::Snapshot *snapshot = db_->GetSnapshot();
  ASSERT_TRUE(db_->Delete(rocksdb::WriteOptions(), key_of(5)).ok());
  ParallelScan::Request asked = request();
  asked.snapshot = snapshot;
  {
    ParallelScan scan(std::move(asked));
    EXPECT_EQ(keys_of(&scan).size(), rows_);
  }
  db_->ReleaseSnapshot(snapshot);
}

TEST_F(ParallelScanTest, may_be_abandoned_at_any_row) {
  for (int round = 0; round < 50; round++) {
    ParallelScan scan(request());
    for (uint32_t wanted = random_() % 3000; wanted > 0; wanted--) {
      std::string_view key, row;
      bool end = false, waiting = false;
      ASSERT_TRUE(scan.next(&key, &row, &end, &waiting).ok());
    }
  }
}

TEST_F(ParallelScanTest, reports_a_row_that_cannot_be_read) {
  ASSERT_TRUE(db_->Put(rocksdb::WriteOptions(), key_of(777), "").ok());
  codec::Operand eight;
  eight.as = codec::CompareAs::kSignedInteger;
  const auto predicate = codec::Predicate::compare(0, codec::CompareOp::kEqual, eight);
  ParallelScan::Request asked = request();
  asked.predicate = predicate.get();
  ParallelScan scan(std::move(asked));
  Status status;
  for (bool end = false; !end && status.ok();) {
    std::string_view key, row;
    bool waiting = false;
    status = scan.next(&key, &row, &end, &waiting);
  }
  EXPECT_EQ(status.code(), Code::kCorruption);
}

Status wait_to_the_end(ParallelScan *scan) {
  Status status;
  for (bool end = false; !end && status.ok();) status = scan->wait(&end);
  return status;
}

TEST_F(ParallelScanTest, threads_take_each_row_once_and_in_order) {
  for (int round = 0; round < 20; round++) {
    ParallelScan::Request asked = request();
    std::vector<std::vector<std::string>> taken(ParallelScan::thread_count(asked));
    asked.take = [&](size_t thread, std::string_view key, std::string_view stored) {
      EXPECT_FALSE(stored.empty());
      taken[thread].emplace_back(key);
      return Status::Ok();
    };
    ParallelScan scan(std::move(asked));
    ASSERT_TRUE(wait_to_the_end(&scan).ok());
    std::vector<std::string> all;
    for (const auto &keys : taken) {
      EXPECT_TRUE(std::is_sorted(keys.begin(), keys.end()));
      all.insert(all.end(), keys.begin(), keys.end());
    }
    std::sort(all.begin(), all.end());
    ASSERT_EQ(all.size(), rows_);
    for (uint32_t i = 0; i < rows_; i++) ASSERT_EQ(all[i], key_of(i));
  }
}

TEST_F(ParallelScanTest, a_row_that_cannot_be_taken_ends_the_scan) {
  const auto any = static_cast<uint32_t>(random_() % rows_);
  for (const uint32_t bad : {0U, rows_ - 1, any}) {
    ParallelScan::Request asked = request();
    asked.take = [bad = key_of(bad)](size_t, std::string_view key, std::string_view) {
      return key == bad ? Status(Code::kNoSpace, "full") : Status::Ok();
    };
    ParallelScan scan(std::move(asked));
    const Status status = wait_to_the_end(&scan);
    EXPECT_EQ(status.code(), Code::kNoSpace);
    EXPECT_STREQ(status.message(), "full");
  }
}

TEST_F(ParallelScanTest, without_one_thread_it_says_so) {
  for (const bool is_taking : {false, true}) {
    ParallelScan::Request asked = request();
    asked.threads = 0;  // as if the process could start no thread, because its limit of tasks is reached
    if (is_taking) asked.take = [](size_t, std::string_view, std::string_view) { return Status::Ok(); };
    ParallelScan scan(std::move(asked));
    std::string_view key, row;
    bool end = false, waiting = false;
    const Status status = is_taking ? wait_to_the_end(&scan) : scan.next(&key, &row, &end, &waiting);
    EXPECT_EQ(status.code(), Code::kNoMemory);
  }
}

TEST_F(ParallelScanTest, may_be_abandoned_while_threads_take_rows) {
  for (int round = 0; round < 20; round++) {
    std::atomic<uint32_t> taken{0};
    ParallelScan::Request asked = request();
    asked.take = [&](size_t, std::string_view, std::string_view) {
      taken++;
      return Status::Ok();
    };
    ParallelScan scan(std::move(asked));
    for (const uint32_t wanted = random_() % rows_; taken < wanted;) std::this_thread::yield();
  }
}

}  // namespace
}  // namespace atoll::table
