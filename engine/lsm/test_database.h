// For the tests of this folder: a database in its own temporary directory, with or without a fake bucket.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "bridge/fake_objstore.h"
#include "lsm/database.h"
#include "lsm/raw.h"

namespace atoll::lsm {

class TestDatabase {
 public:
  explicit TestDatabase(bool with_bucket) {
    static int next = 0;
    root_ = std::filesystem::temp_directory_path() /
            ("atoll_lsm_" + std::to_string(::getpid()) + "_" + std::to_string(next++));
    std::filesystem::remove_all(root_);
    if (with_bucket) store_ = std::make_unique<atoll_store>((root_ / "bucket").string());
    options.local_dir = (root_ / "main").string();
    options.temp_dir = (root_ / "temp").string();
    options.store = store_.get();
    options.block_cache_bytes = 32 << 20;
  }
  ~TestDatabase() {
    database_.reset();
    std::filesystem::remove_all(root_);
  }

  Status open() { return Database::open(options, &database_); }
  // Closes the database as a crash would: nothing is flushed first.
  void close() { database_.reset(); }
  Status shut_down() {
    Status status = database_->shut_down();
    database_.reset();
    return status;
  }
  Status reopen() {
    close();
    return open();
  }

  Database *operator->() { return database_.get(); }
  atoll_store *store() { return store_.get(); }
  const std::filesystem::path &root() const { return root_; }

  Status put(Family *family, const std::string &key, const std::string &value) {
    return from_rocksdb(Raw::of(family)->Put(rocksdb::WriteOptions(), family->handle(), key, value));
  }
  Status remove(Family *family, const std::string &key) {
    return from_rocksdb(Raw::of(family)->Delete(rocksdb::WriteOptions(), family->handle(), key));
  }
  // The value of `key`; "" when there is none.
  std::string get(Family *family, const std::string &key) {
    std::string value;
    const rocksdb::Status status = family->get(rocksdb::ReadOptions(), key, &value);
    return status.ok() ? value : status.IsNotFound() ? "" : "error: " + status.ToString();
  }
  // The number of rows; -1 after an error.
  int64_t count(Family *family) {
    const std::unique_ptr<rocksdb::Iterator> rows = family->iterator(rocksdb::ReadOptions());
    int64_t found = 0;
    for (rows->SeekToFirst(); rows->Valid(); rows->Next()) ++found;
    return rows->status().ok() ? found : -1;
  }
  // The counter named `wanted`; the greatest number when there is no such counter.
  uint64_t counter(const std::string &wanted) {
    for (const auto &[name, value] : database_->counters()) {
      if (name == wanted) return value;
    }
    return ~uint64_t{0};
  }
  size_t remove_local_tables() {
    size_t removed = 0;
    for (const auto &entry : std::filesystem::directory_iterator(options.local_dir)) {
      if (entry.path().extension() != ".sst") continue;
      std::filesystem::remove(entry.path());
      ++removed;
    }
    return removed;
  }
  uint64_t wal_bytes() const {
    uint64_t bytes = 0;
    for (const auto &entry : std::filesystem::directory_iterator(options.local_dir))
      if (entry.path().extension() == ".log") bytes += entry.file_size();
    return bytes;
  }
  static bool wait_for(const std::function<bool()> &condition) {
    for (int i = 0; i < 6000; ++i) {  // a minute: the machine may be busy
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

  DatabaseOptions options;

 private:
  std::filesystem::path root_;
  std::unique_ptr<atoll_store> store_;
  std::unique_ptr<Database> database_;
};

// A key in the form that the handler uses: an index prefix and a big-endian number.
inline std::string test_key(uint64_t number, char index = 1) {
  std::string key(5, '\0');
  key.push_back(index);
  for (int shift = 56; shift >= 0; shift -= 8) key.push_back(static_cast<char>(number >> shift));
  return key;
}

#define ASSERT_ATOLL_OK(expression)                                                               \
  do {                                                                                            \
    const ::atoll::Status status_ = (expression);                                                 \
    ASSERT_TRUE(status_.ok()) << ::atoll::code_name(status_.code()) << ": " << status_.message(); \
  } while (false)

}  // namespace atoll::lsm
