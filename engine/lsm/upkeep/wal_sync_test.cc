// Goal:   threads that wait for a sync of the WAL share one, no thread gets the outcome of a sync that began
//         before its write, and after a failed sync nothing is written any more.
// Method: a fake sync that blocks until the test releases it; a real RocksDB whose WAL files fail to sync.
#include <rocksdb/db.h>
#include <rocksdb/env.h>

#include <atomic>
#include <future>

#include "cloudfs/cloud_file_system.h"
#include "lsm/upkeep/group_sync.h"
#include "lsm/test_database.h"

namespace atoll::lsm {
namespace {

// Fake syncs. Each begins at once and ends only when the test calls let_go(count, outcome) with a `count`
// that is not lower than the number of the sync.
class HeldSyncs {
 public:
  Status sync() {
    MutexLock lock(mutex_);
    const int mine = ++begun_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return let_go_ >= mine; });
    return outcome_;
  }
  void wait_begun(int count) {
    MutexLock lock(mutex_);
    changed_.wait(lock, [&] { return begun_ >= count; });
  }
  void let_go(int count, const Status &outcome) {
    MutexLock lock(mutex_);
    outcome_ = outcome;
    let_go_ = count;
    changed_.notify_all();
  }
  int begun() {
    MutexLock lock(mutex_);
    return begun_;
  }

 private:
  Mutex mutex_;
  Condition changed_;
  int begun_ = 0, let_go_ = 0;
  Status outcome_;
};

TEST(GroupSyncTest, a_sync_that_throws_fails_and_holds_up_nobody) {
  bool throws = true;
  GroupSync group([&]() -> Status {
    if (throws) throw std::bad_alloc();
    return Status::Ok();
  });
  EXPECT_EQ(group.wait().code(), Code::kNoMemory);
  throws = false;
  EXPECT_TRUE(group.wait().ok());
}

TEST(GroupSyncTest, who_comes_while_a_sync_runs_shares_the_next_one) {
  constexpr int kLate = 5;
  HeldSyncs syncs;
  GroupSync group([&] { return syncs.sync(); });
  auto first = std::async(std::launch::async, [&] { return group.wait(); });
  syncs.wait_begun(1);
  std::atomic<int> coming{0};
  std::vector<std::future<Status>> late;
  for (int i = 0; i < kLate; ++i)
    late.push_back(std::async(std::launch::async, [&] { return ++coming, group.wait(); }));
  ASSERT_TRUE(TestDatabase::wait_for([&] { return coming == kLate; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // lets the threads get into group.wait()
  EXPECT_EQ(syncs.begun(), 1);
  syncs.let_go(1, Status::Ok());
  EXPECT_TRUE(first.get().ok());
  syncs.wait_begun(2);
  for (auto &waiting : late)
    EXPECT_EQ(waiting.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  syncs.let_go(2, Status(Code::kUnavailable, "injected"));
  for (auto &waiting : late) EXPECT_EQ(waiting.get().code(), Code::kUnavailable);
  EXPECT_EQ(syncs.begun(), 2);
}

TEST(GroupSyncTest, a_failure_concerns_only_those_who_waited_for_it) {
  Status outcome(Code::kUnavailable, "injected");
  GroupSync group([&] { return outcome; });
  EXPECT_EQ(group.wait().code(), Code::kUnavailable);
  outcome = Status::Ok();
  EXPECT_TRUE(group.wait().ok());
}

// ---- a WAL that cannot be synced -------------------------------------------------------------------

// A file whose Sync() fails with NoSpace while *is_full is true.
class UnsyncableFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  UnsyncableFile(std::unique_ptr<rocksdb::FSWritableFile> file, const std::atomic<bool> *is_full)
      : FSWritableFileOwnerWrapper(std::move(file)), is_full_(is_full) {}
  rocksdb::IOStatus Sync(const rocksdb::IOOptions &options, rocksdb::IODebugContext *debug) override {
    if (!*is_full_) return FSWritableFileOwnerWrapper::Sync(options, debug);
    rocksdb::IOStatus status = rocksdb::IOStatus::NoSpace("injected");
    status.SetRetryable(true);
    return status;
  }

 private:
  const std::atomic<bool> *is_full_;
};

class FullDisk final : public rocksdb::FileSystemWrapper {
 public:
  FullDisk() : FileSystemWrapper(rocksdb::FileSystem::Default()) {}
  const char *Name() const override { return "FullDisk"; }
  rocksdb::IOStatus NewWritableFile(const std::string &name, const rocksdb::FileOptions &options,
                                    std::unique_ptr<rocksdb::FSWritableFile> *result,
                                    rocksdb::IODebugContext *debug) override {
    rocksdb::IOStatus status = FileSystemWrapper::NewWritableFile(name, options, result, debug);
    if (status.ok() && name.ends_with(".log"))
      *result = std::make_unique<UnsyncableFile>(std::move(*result), &is_full);
    return status;
  }
  std::atomic<bool> is_full{false};
};

// After a failed sync, visible commits may be missing on disk, so nothing more may be committed. RocksDB
// without CloudFileSystem would accept writes again as soon as the disk has space.
TEST(WalSyncTest, after_a_failed_sync_nothing_is_written_until_the_database_is_opened_again) {
  const TestDatabase directories(true);
  const std::string path = (directories.root() / "db").string();
  std::filesystem::create_directories(path);
  atoll_store store((directories.root() / "bucket of the test").string());
  auto disk = std::make_shared<FullDisk>();
  auto env = rocksdb::NewCompositeEnv(std::make_shared<cloudfs::CloudFileSystem>(disk, path, &store));
  rocksdb::Options options;
  options.env = env.get();
  options.create_if_missing = true;
  options.max_bgerror_resume_count = std::numeric_limits<int>::max();
  options.bgerror_resume_retry_interval = 1000;
  const auto open = [&](std::unique_ptr<rocksdb::DB> *db) { return rocksdb::DB::Open(options, path, db); };
  std::unique_ptr<rocksdb::DB> db;
  ASSERT_TRUE(open(&db).ok());
  ASSERT_TRUE(db->Put(rocksdb::WriteOptions(), "k", "v").ok());
  disk->is_full = true;
  EXPECT_FALSE(db->SyncWAL().ok());
  disk->is_full = false;
  (void)db->Resume();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_FALSE(db->Put(rocksdb::WriteOptions(), "k2", "v").ok());
  EXPECT_FALSE(db->SyncWAL().ok());
  db.reset();
  ASSERT_TRUE(open(&db).ok());
  EXPECT_TRUE(db->Put(rocksdb::WriteOptions(), "k2", "v").ok());
  EXPECT_TRUE(db->SyncWAL().ok());
}

}  // namespace
}  // namespace atoll::lsm
