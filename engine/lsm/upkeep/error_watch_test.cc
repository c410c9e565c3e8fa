// Goal:   the error log has one message for an error that lasts, however often RocksDB repeats it, and
// another
//         one when the error comes back. Only errors that stop the background work become the last error.
// Method: the test calls the listener as RocksDB does. No database is open.
#include "lsm/upkeep/error_watch.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

namespace atoll::lsm {
namespace {

using rocksdb::BackgroundErrorReason;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class ErrorWatchTest : public ::testing::Test {
 protected:
  void fail(BackgroundErrorReason reason) {
    rocksdb::Status error = rocksdb::Status::IOError("the bucket does not answer");
    watch_.OnBackgroundError(reason, &error);
  }
  void end_compaction(const rocksdb::Status &status) {
    rocksdb::CompactionJobInfo compaction;
    compaction.status = status;
    watch_.OnCompactionCompleted(nullptr, compaction);
  }

  std::vector<std::string> log_;
  ErrorWatch watch_{[this](int, const std::string &message) { log_.push_back(message); }};
};

TEST_F(ErrorWatchTest, a_compaction_that_fails_again_and_again_is_logged_once) {
  for (int attempt = 0; attempt < 10; attempt++) {
    fail(BackgroundErrorReason::kCompaction);
    end_compaction(rocksdb::Status::IOError("the bucket does not answer"));
  }
  EXPECT_THAT(log_, ElementsAre(HasSubstr("compacting table files")));
  EXPECT_EQ(watch_.errors(), 10);
  EXPECT_TRUE(watch_.last_error().ok()) << "RocksDB repeats a compaction by itself";
}

TEST_F(ErrorWatchTest, a_compaction_that_fails_after_one_that_succeeded_is_logged_again) {
  fail(BackgroundErrorReason::kCompaction);
  end_compaction(rocksdb::Status::OK());
  fail(BackgroundErrorReason::kCompaction);
  EXPECT_THAT(log_, SizeIs(2));
}

TEST_F(ErrorWatchTest, a_flush_that_fails_is_the_last_error_until_its_recovery_ends) {
  fail(BackgroundErrorReason::kFlush);
  fail(BackgroundErrorReason::kFlush);
  fail(BackgroundErrorReason::kCompaction);
  EXPECT_THAT(log_, ElementsAre(HasSubstr("flushing to table files"), HasSubstr("compacting table files")));
  EXPECT_THAT(watch_.last_error().message(), HasSubstr("flushing to table files"));
  watch_.OnErrorRecoveryEnd({});
  EXPECT_TRUE(watch_.last_error().ok());
  EXPECT_THAT(log_, SizeIs(3));
}

}  // namespace
}  // namespace atoll::lsm
