// Goal:   the file system tells the store about each change of a file in the right order, and RocksDB can use
//         table files that are only in the bucket as if they were local.
// Method: the file system alone over the fake object layer. Tests with RocksDB on top are in lsm/.
#include "cloudfs/cloud_file_system.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/failing_new.h"
#include "bridge/fake_objstore.h"
#include "cloudfs/io_status.h"
#include "cloudfs/table_reader.h"

namespace atoll::cloudfs {
namespace {

using rocksdb::FileOptions;
using rocksdb::FSRandomAccessFile;
using rocksdb::FSWritableFile;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

class CloudFileSystemTest : public ::testing::Test {
 protected:
  CloudFileSystemTest()
      : root_(std::filesystem::temp_directory_path() / ("atoll_cloudfs_" + std::to_string(::getpid()))),
        directory_((root_ / "db").string()),
        store_((prepare(), (root_ / "bucket").string())),
        files_(rocksdb::FileSystem::Default(), directory_, &store_) {}
  ~CloudFileSystemTest() override { std::filesystem::remove_all(root_); }

  bool prepare() {
    std::filesystem::remove_all(root_);
    return std::filesystem::create_directories(root_ / "db");
  }
  std::string path(const std::string &name) const { return directory_ + "/" + name; }
  std::unique_ptr<FSWritableFile> create(const std::string &name) {
    std::unique_ptr<FSWritableFile> file;
    const IOStatus status = files_.NewWritableFile(path(name), FileOptions(), &file, nullptr);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return file;
  }
  void write_table(const std::string &name, const std::string &content) {
    auto file = create(name);
    ASSERT_TRUE(file->Append(content, IOOptions(), nullptr).ok());
    ASSERT_TRUE(file->Sync(IOOptions(), nullptr).ok());
    ASSERT_TRUE(file->Close(IOOptions(), nullptr).ok());
  }
  void write_plain(const std::string &file_path, const std::string &content) {
    std::ofstream(file_path) << content;
  }

  const std::filesystem::path root_;
  const std::string directory_;
  atoll_store store_;
  CloudFileSystem files_;
};

TEST(FileNameTest, only_direct_children_of_the_database_are_known) {
  const auto kind = [](const char *path) { return parse_file_name("/d/db", path).kind; };
  EXPECT_EQ(kind("/d/db/000012.sst"), FileKind::kTable);
  EXPECT_EQ(kind("/d/db//000012.sst"), FileKind::kTable);
  EXPECT_EQ(kind("/d/db/12345678.blob"), FileKind::kTable);
  EXPECT_EQ(kind("/d/db/MANIFEST-000005"), FileKind::kManifest);
  EXPECT_EQ(kind("/d/db/000004.log"), FileKind::kWal);
  EXPECT_EQ(kind("/d/db/CURRENT"), FileKind::kCurrent);
  EXPECT_EQ(kind("/d/db/OPTIONS-000009.dbtmp"), FileKind::kOptions);
  for (const char *other : {"/d/db/bulk/1/000001.sst", "/d/db2/000001.sst", "/d/db", "/d/db/", "/d/db/LOG",
                            "/d/db/LOCK", "/d/db/IDENTITY", "/d/db/a.sst", "/d/db/.sst", "/d/db/MANIFEST-",
                            "/d/db/000001.dbtmp", "/d/db/LOG.old.123", "/x/000001.sst"}) {
    EXPECT_EQ(kind(other), FileKind::kOther) << other;
  }
  EXPECT_EQ(parse_file_name("/d/db", "/d/db/000012.sst").number, 12u);
  EXPECT_EQ(table_file_name(12), "000012.sst");
  uint64_t number = 0;
  EXPECT_TRUE(parse_current("MANIFEST-000007\n", &number));
  EXPECT_EQ(number, 7u);
  EXPECT_FALSE(parse_current("MANIFEST-000007", &number));
  EXPECT_FALSE(parse_current("", &number));
}

TEST(IoStatusTest, each_code_makes_rocksdb_react_rightly) {
  const auto convert = [](Code code) { return to_io_status(atoll_store::answer(code, "why")); };
  EXPECT_TRUE(convert(Code::kOk).ok());
  EXPECT_EQ(convert(Code::kFenced).subcode(), IOStatus::SubCode::kIOFenced);
  EXPECT_EQ(convert(Code::kReadOnly).subcode(), IOStatus::SubCode::kIOFenced);
  EXPECT_EQ(convert(Code::kNoSpace).subcode(), IOStatus::SubCode::kNoSpace);
  EXPECT_TRUE(convert(Code::kNoSpace).GetRetryable());
  EXPECT_EQ(convert(Code::kNoMemory).subcode(), IOStatus::SubCode::kMemoryLimit);
  EXPECT_TRUE(convert(Code::kNoMemory).IsIOError());
  EXPECT_TRUE(convert(Code::kNoMemory).GetRetryable());
  EXPECT_TRUE(convert(Code::kUnavailable).IsIOError());
  EXPECT_TRUE(convert(Code::kUnavailable).GetRetryable());
  EXPECT_TRUE(convert(Code::kCorruption).IsCorruption());
  EXPECT_TRUE(convert(Code::kNotFound).IsPathNotFound());
  EXPECT_NE(convert(Code::kFenced).ToString().find("why"), std::string::npos);
  atoll_result unknown = atoll_store::answer(Code::kOk, "");
  unknown.code = 200;
  EXPECT_FALSE(to_io_status(unknown).ok());
}

// A status for "no memory" is retryable, also when there is no memory for the text of the status.
TEST(IoStatusTest, a_call_that_finds_no_memory_can_be_repeated) {
  for (const int texts : {0, 1}) {
    const IOStatus status = guarded_io([&]() -> IOStatus {
      failing_new::request = texts;
      throw std::bad_alloc();
    });
    failing_new::request = 0;
    EXPECT_EQ(status.subcode(), IOStatus::SubCode::kMemoryLimit) << status.ToString();
    EXPECT_TRUE(status.GetRetryable());
  }
}

TEST_F(CloudFileSystemTest, a_table_is_handed_over_once_at_close_and_synced) {
  auto file = create("000007.sst");
  ASSERT_TRUE(file->Append("abc", IOOptions(), nullptr).ok());
  EXPECT_EQ(store_.count("add"), 0u);
  ASSERT_TRUE(file->Close(IOOptions(), nullptr).ok());
  ASSERT_TRUE(file->Close(IOOptions(), nullptr).ok());
  EXPECT_EQ(store_.count("add 7"), 1u);
}

TEST_F(CloudFileSystemTest, an_abandoned_table_is_never_handed_over) {
  create("000007.sst")->Append("abc", IOOptions(), nullptr).PermitUncheckedError();
  EXPECT_EQ(store_.count("add"), 0u);
}

TEST_F(CloudFileSystemTest, files_only_in_the_bucket_look_local) {
  store_.evict_after_upload = true;
  write_table("000007.sst", "0123456789");
  ASSERT_FALSE(std::filesystem::exists(path("000007.sst")));

  EXPECT_TRUE(files_.FileExists(path("000007.sst"), IOOptions(), nullptr).ok());
  uint64_t number = 0;
  ASSERT_TRUE(files_.GetFileSize(path("000007.sst"), IOOptions(), &number, nullptr).ok());
  EXPECT_EQ(number, 10u);
  EXPECT_TRUE(files_.GetFileModificationTime(path("000007.sst"), IOOptions(), &number, nullptr).ok());
  std::vector<std::string> names;
  ASSERT_TRUE(files_.GetChildren(directory_ + "/", IOOptions(), &names, nullptr).ok());
  EXPECT_EQ(std::count(names.begin(), names.end(), "000007.sst"), 1);
  std::vector<rocksdb::FileAttributes> attributes;
  ASSERT_TRUE(files_.GetChildrenFileAttributes(directory_, IOOptions(), &attributes, nullptr).ok());
  ASSERT_EQ(attributes.size(), 1u);
  EXPECT_EQ(attributes[0].size_bytes, 10u);

  std::unique_ptr<FSRandomAccessFile> file;
  ASSERT_TRUE(files_.NewRandomAccessFile(path("000007.sst"), FileOptions(), &file, nullptr).ok());
  char buffer[16];
  Slice result;
  ASSERT_TRUE(file->Read(8, 16, IOOptions(), &result, buffer, nullptr).ok());
  EXPECT_EQ(result.ToString(), "89");
  std::unique_ptr<rocksdb::FSSequentialFile> sequential;
  ASSERT_TRUE(files_.NewSequentialFile(path("000007.sst"), FileOptions(), &sequential, nullptr).ok());
  ASSERT_TRUE(sequential->Skip(2).ok());
  ASSERT_TRUE(sequential->Read(3, IOOptions(), &result, buffer, nullptr).ok());
  EXPECT_EQ(result.ToString(), "234");

  ASSERT_TRUE(files_.DeleteFile(path("000007.sst"), IOOptions(), nullptr).ok());
  EXPECT_TRUE(files_.FileExists(path("000007.sst"), IOOptions(), nullptr).IsNotFound());
}

TEST_F(CloudFileSystemTest, a_local_table_is_listed_once) {
  write_table("000007.sst", "abc");
  std::vector<std::string> names;
  ASSERT_TRUE(files_.GetChildren(directory_, IOOptions(), &names, nullptr).ok());
  EXPECT_EQ(std::count(names.begin(), names.end(), "000007.sst"), 1);
}

TEST_F(CloudFileSystemTest, many_reads_go_to_the_store_at_once_with_a_status_each) {
  write_table("000007.sst", "0123456789");
  std::unique_ptr<FSRandomAccessFile> file;
  ASSERT_TRUE(files_.NewRandomAccessFile(path("000007.sst"), FileOptions(), &file, nullptr).ok());
  char buffers[2][8];
  rocksdb::FSReadRequest requests[2];
  for (int i = 0; i < 2; ++i) {
    requests[i].offset = static_cast<uint64_t>(i) * 5;
    requests[i].len = 3;
    requests[i].scratch = buffers[i];
  }
  ASSERT_TRUE(file->MultiRead(requests, 2, IOOptions(), nullptr).ok());
  EXPECT_EQ(requests[0].result.ToString(), "012");
  EXPECT_EQ(requests[1].result.ToString(), "567");
  store_.fail = [](const std::string &call) {
    return call.starts_with("read") ? Code::kUnavailable : Code::kOk;
  };
  ASSERT_TRUE(file->MultiRead(requests, 2, IOOptions(), nullptr).ok());
  EXPECT_TRUE(requests[0].status.IsIOError());
  EXPECT_TRUE(requests[1].status.GetRetryable());
}

TEST_F(CloudFileSystemTest, a_read_after_a_bad_checksum_goes_past_the_cache) {
  int64_t supported = 0;
  files_.SupportedOps(supported);
  EXPECT_NE(supported & (int64_t{1} << rocksdb::FSSupportedOps::kVerifyAndReconstructRead), 0);
  EXPECT_EQ(supported & (int64_t{1} << rocksdb::FSSupportedOps::kAsyncIO), 0);
  write_table("000007.sst", "0123456789");
  std::unique_ptr<FSRandomAccessFile> file;
  ASSERT_TRUE(files_.NewRandomAccessFile(path("000007.sst"), FileOptions(), &file, nullptr).ok());
  IOOptions options;
  options.verify_and_reconstruct_read = true;
  char buffer[16];
  Slice result;
  ASSERT_TRUE(file->Read(0, 4, options, &result, buffer, nullptr).ok());
  EXPECT_EQ(store_.count("refetch 7"), 1u);
  EXPECT_EQ(store_.count("read "), 0u);
}

TEST_F(CloudFileSystemTest, a_scan_is_fetched_ahead_and_random_reads_are_not) {
  constexpr size_t kRead = 256 * 1024;
  // The file is one byte longer than what the test reads: TableReader checks the footer when a read reaches
  // the file's end, and this file has no footer.
  write_table("000007.sst", std::string(64 * kRead + 1, 'x'));
  std::unique_ptr<FSRandomAccessFile> file;
  ASSERT_TRUE(files_.NewRandomAccessFile(path("000007.sst"), FileOptions(), &file, nullptr).ok());
  std::string buffer(kRead, '\0');
  Slice result;
  for (const uint64_t at : {40u, 3u, 17u, 60u}) {
    ASSERT_TRUE(file->Read(at * kRead, kRead, IOOptions(), &result, buffer.data(), nullptr).ok());
  }
  EXPECT_EQ(store_.count("prefetch"), 0u);
  for (uint64_t at = 0; at < 64; ++at) {
    ASSERT_TRUE(file->Read(at * kRead, kRead, IOOptions(), &result, buffer.data(), nullptr).ok());
  }
  uint64_t fetched = 0;
  uint64_t last_end = 0;
  for (const std::string &call : store_.recorded()) {
    uint64_t offset = 0;
    uint64_t length = 0;
    if (std::sscanf(call.c_str(), "prefetch %lu %lu", &offset, &length) != 2) continue;
    EXPECT_GE(offset, last_end) << "fetched twice";
    last_end = offset + length;
    fetched += length;
  }
  EXPECT_GT(fetched, 60 * kRead);
  EXPECT_LE(last_end, 64 * kRead + 1);
  EXPECT_LE(store_.count("prefetch"), 9u);
}

TEST_F(CloudFileSystemTest, wal_and_manifest_report_only_what_a_sync_covered) {
  auto wal = create("000004.log");
  ASSERT_TRUE(wal->Append("12345", IOOptions(), nullptr).ok());
  ASSERT_TRUE(wal->Sync(IOOptions(), nullptr).ok());
  ASSERT_TRUE(wal->Append("678", IOOptions(), nullptr).ok());
  ASSERT_TRUE(wal->Close(IOOptions(), nullptr).ok());
  wal.reset();
  ASSERT_TRUE(files_.DeleteFile(path("000004.log"), IOOptions(), nullptr).ok());
  auto manifest = create("MANIFEST-000005");
  ASSERT_TRUE(manifest->Append("1234", IOOptions(), nullptr).ok());
  ASSERT_TRUE(manifest->Fsync(IOOptions(), nullptr).ok());
  const std::vector<std::string> expected = {"wal_created 4",      "wal_appended 4 5", "wal_synced 4 5",
                                             "wal_appended 4 8",   "wal_closed 4 8",   "wal_deleted 4",
                                             "manifest_synced 5 4"};
  EXPECT_EQ(store_.recorded(), expected);
}

TEST_F(CloudFileSystemTest, current_is_announced_when_it_names_a_manifest) {
  write_plain(path("000005.dbtmp"), "MANIFEST-000005\n");
  ASSERT_TRUE(files_.RenameFile(path("000005.dbtmp"), path("CURRENT"), IOOptions(), nullptr).ok());
  EXPECT_EQ(store_.count("current_set 5"), 1u);
  write_plain(path("000006.dbtmp"), "nonsense");
  EXPECT_FALSE(files_.RenameFile(path("000006.dbtmp"), path("CURRENT"), IOOptions(), nullptr).ok());
  EXPECT_EQ(store_.count("current_set"), 1u);
}

TEST_F(CloudFileSystemTest, linking_and_renaming_a_staged_file_binds_it) {
  std::filesystem::create_directories(path("bulk"));
  for (const char *name : {"bulk/a.sst", "bulk/b.sst"}) {
    write_plain(path(name), "rows");
    (void)atoll_store_stage_file(&store_, path(name).c_str());
  }
  ASSERT_TRUE(files_.LinkFile(path("bulk/a.sst"), path("000010.sst"), IOOptions(), nullptr).ok());
  ASSERT_TRUE(files_.RenameFile(path("bulk/b.sst"), path("000011.sst"), IOOptions(), nullptr).ok());
  EXPECT_EQ(store_.count("bind 10"), 1u);
  EXPECT_EQ(store_.count("bind 11"), 1u);
  EXPECT_EQ(store_.staged_files(), 0u);
  ASSERT_TRUE(files_.SyncFile(path("000010.sst"), FileOptions(), IOOptions(), false, nullptr).ok());
}

TEST_F(CloudFileSystemTest, after_the_fence_nothing_durable_is_written) {
  auto wal = create("000004.log");
  auto manifest = create("MANIFEST-000005");
  store_.fenced = true;
  const auto fenced = [](const IOStatus &status) { return status.subcode() == IOStatus::SubCode::kIOFenced; };
  EXPECT_TRUE(fenced(wal->Append("x", IOOptions(), nullptr)));
  EXPECT_TRUE(fenced(wal->Sync(IOOptions(), nullptr)));
  EXPECT_TRUE(fenced(manifest->Append("x", IOOptions(), nullptr)));
  EXPECT_TRUE(fenced(manifest->Fsync(IOOptions(), nullptr)));
  std::unique_ptr<FSWritableFile> file;
  for (const char *name : {"000008.sst", "000009.log", "MANIFEST-000010"}) {
    EXPECT_TRUE(fenced(files_.NewWritableFile(path(name), FileOptions(), &file, nullptr))) << name;
    EXPECT_FALSE(std::filesystem::exists(path(name)));
  }
  write_plain(path("000005.dbtmp"), "MANIFEST-000005\n");
  EXPECT_TRUE(fenced(files_.RenameFile(path("000005.dbtmp"), path("CURRENT"), IOOptions(), nullptr)));
  EXPECT_TRUE(files_.NewWritableFile(path("LOG"), FileOptions(), &file, nullptr).ok());
}

TEST_F(CloudFileSystemTest, local_tables_the_store_does_not_know_are_adopted) {
  write_table("000007.sst", "known");
  write_plain(path("000009.sst"), "unknown");
  write_plain(path("000009.log"), "wal");
  EXPECT_TRUE(files_.adopt_local_tables().ok());
  EXPECT_EQ(store_.count("add 7"), 1u);
  EXPECT_EQ(store_.count("add 9"), 1u);
  store_.fail = [](const std::string &) { return Code::kFenced; };
  write_plain(path("000010.sst"), "unknown");
  EXPECT_EQ(files_.adopt_local_tables().code(), Code::kFenced);
}

TEST_F(CloudFileSystemTest, without_a_store_everything_is_plain) {
  CloudFileSystem plain(rocksdb::FileSystem::Default(), directory_, nullptr);
  std::unique_ptr<FSWritableFile> file;
  ASSERT_TRUE(plain.NewWritableFile(path("000004.log"), FileOptions(), &file, nullptr).ok());
  ASSERT_TRUE(plain.NewWritableFile(path("OPTIONS-000005.dbtmp"), FileOptions(), &file, nullptr).ok());
  plain.refuse_options_files();
  EXPECT_FALSE(plain.NewWritableFile(path("OPTIONS-000006.dbtmp"), FileOptions(), &file, nullptr).ok());
  EXPECT_TRUE(store_.recorded().empty());
}

}  // namespace
}  // namespace atoll::cloudfs
