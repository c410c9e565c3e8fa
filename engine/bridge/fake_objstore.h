// A fake of the object layer's C ABI for unit tests, without Rust and without a bucket. Table files are
// copied into a directory that stands for the bucket, calls are recorded in order, and any call can be made
// to fail.
//
// Include it in *_test.cc only. The functions are inline definitions of the symbols that the Rust library
// exports, so a program that includes this header does not link the Rust library's objects.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "bridge/objstore.h"
#include "bridge/reader.h"

struct atoll_store {
  struct Object {
    std::string path;
    uint64_t bytes = 0;
  };

  explicit atoll_store(std::string bucket_directory) : bucket(std::move(bucket_directory)) {
    std::filesystem::create_directories(bucket);
  }

  // ---- what tests set ----
  // True: each local table file is deleted once it is in the bucket, so that later reads need the bucket.
  bool evict_after_upload = false;
  bool fenced = false;  // true: atoll_store_may_write() fails with kFenced
  // Called for each call that can fail, with the text that is recorded for it ("add 12"). If it returns
  // another code than kOk, the call fails with that code. nullptr: no call fails.
  std::function<atoll::Code(const std::string &call)> fail;

  // ---- what tests look at ----
  std::vector<std::string> recorded() {
    atoll::MutexLock lock(mutex);
    return calls;
  }
  size_t count(const std::string &prefix) {
    atoll::MutexLock lock(mutex);
    size_t found = 0;
    for (const std::string &call : calls) found += call.starts_with(prefix) ? 1 : 0;
    return found;
  }
  size_t staged_files() {
    atoll::MutexLock lock(mutex);
    return staged.size();
  }
  size_t objects() {
    atoll::MutexLock lock(mutex);
    return files.size() + staged.size();
  }

  // ---- recording calls and copying files ----
  atoll_result record(const std::string &call, bool fallible = true) {
    std::function<atoll::Code(const std::string &)> hook;
    {
      atoll::MutexLock lock(mutex);
      calls.push_back(call);
      hook = fallible ? fail : nullptr;
    }
    const atoll::Code code = hook ? hook(call) : atoll::Code::kOk;
    return answer(code, code == atoll::Code::kOk ? "" : "injected into " + call);
  }
  static atoll_result answer(atoll::Code code, const std::string &message) {
    atoll_result result;
    result.code = static_cast<uint8_t>(code);
    std::snprintf(result.message, sizeof(result.message), "%s", message.c_str());
    return result;
  }
  // Copies the file `path` into the bucket under `name` and returns the copy. With evict_after_upload,
  // deletes `path` afterwards.
  Object upload(const std::string &path, const std::string &name) {
    Object object;
    object.path = bucket + "/" + name;
    std::filesystem::remove(object.path);
    std::filesystem::copy_file(path, object.path);
    object.bytes = std::filesystem::file_size(object.path);
    if (evict_after_upload) std::filesystem::remove(path);
    return object;
  }

  const std::string bucket;
  atoll::Mutex mutex;
  std::map<uint64_t, Object> files ATOLL_GUARDED_BY(mutex);
  std::map<std::string, Object> staged ATOLL_GUARDED_BY(mutex);
  std::map<uint64_t, std::string> local_paths ATOLL_GUARDED_BY(mutex);
  std::vector<std::string> calls ATOLL_GUARDED_BY(mutex);
  uint64_t next_staged ATOLL_GUARDED_BY(mutex) = 1;
  uint64_t reads ATOLL_GUARDED_BY(mutex) = 0;
};

struct atoll_file {
  atoll_store *store;
  uint64_t number;
  int descriptor;
};

// `used`: the compiler emits the function even if the test file does not call it, so that the linker finds it
// before the definition in the Rust library.
#define ATOLL_FAKE __attribute__((used)) inline

extern "C" {

ATOLL_FAKE void atoll_store_make_room(const atoll_store *) {}

ATOLL_FAKE atoll_result atoll_store_add_file(atoll_store *store, uint64_t number, const char *path) {
  const atoll_result result = store->record("add " + std::to_string(number));
  if (result.code != 0) return result;
  atoll::MutexLock lock(store->mutex);
  store->files[number] = store->upload(path, std::to_string(number) + ".sst");
  store->local_paths[number] = path;
  return result;
}

ATOLL_FAKE atoll_result atoll_store_stage_file(atoll_store *store, const char *path) {
  const atoll_result result = store->record("stage");
  if (result.code != 0) return result;
  atoll::MutexLock lock(store->mutex);
  // A staged file stays on the local disk even with evict_after_upload, because RocksDB links it later.
  const bool evict = std::exchange(store->evict_after_upload, false);
  store->staged[path] = store->upload(path, "staged" + std::to_string(store->next_staged++));
  store->evict_after_upload = evict;
  return result;
}

ATOLL_FAKE atoll_result atoll_store_bind_file(atoll_store *store, const char *staged_path, uint64_t number,
                                              const char *path) {
  const atoll_result result = store->record("bind " + std::to_string(number));
  if (result.code != 0) return result;
  atoll::MutexLock lock(store->mutex);
  const auto staged = store->staged.find(staged_path);
  if (staged == store->staged.end()) {
    store->files[number] = store->upload(path, std::to_string(number) + ".sst");
  } else {
    store->files[number] = staged->second;
    store->staged.erase(staged);
    if (store->evict_after_upload) std::filesystem::remove(path);
  }
  store->local_paths[number] = path;
  return result;
}

ATOLL_FAKE atoll_result atoll_store_share_file(atoll_store *store, uint64_t from, uint64_t number) {
  const atoll_result result = store->record("share " + std::to_string(from));
  if (result.code != 0) return result;
  atoll::MutexLock lock(store->mutex);
  const auto source = store->files.find(from);
  if (source == store->files.end()) return atoll_store::answer(atoll::Code::kNotFound, "no such file");
  store->files[number] = store->upload(source->second.path, std::to_string(number) + ".sst");
  return result;
}

ATOLL_FAKE void atoll_store_unstage_file(atoll_store *store, const char *staged_path) {
  (void)store->record("unstage", false);
  atoll::MutexLock lock(store->mutex);
  const auto staged = store->staged.find(staged_path);
  if (staged == store->staged.end()) return;
  std::filesystem::remove(staged->second.path);
  store->staged.erase(staged);
}

ATOLL_FAKE atoll_result atoll_store_remove_file(atoll_store *store, uint64_t number) {
  const atoll_result result = store->record("remove " + std::to_string(number));
  if (result.code != 0) return result;
  atoll::MutexLock lock(store->mutex);
  const auto file = store->files.find(number);
  if (file == store->files.end()) return atoll_store::answer(atoll::Code::kNotFound, "no such file");
  std::filesystem::remove(file->second.path);
  std::filesystem::remove(store->local_paths[number]);
  store->files.erase(file);
  return result;
}

ATOLL_FAKE atoll_result atoll_store_file_size(const atoll_store *constant, uint64_t number, uint64_t *size) {
  auto *store = const_cast<atoll_store *>(constant);
  atoll::MutexLock lock(store->mutex);
  const auto file = store->files.find(number);
  if (file == store->files.end()) return atoll_store::answer(atoll::Code::kNotFound, "no such file");
  *size = file->second.bytes;
  return atoll_store::answer(atoll::Code::kOk, "");
}

ATOLL_FAKE void atoll_store_list_files(const atoll_store *constant, void *context,
                                       void (*each)(void *context, uint64_t number, uint64_t size)) {
  auto *store = const_cast<atoll_store *>(constant);
  atoll::MutexLock lock(store->mutex);
  for (const auto &[number, object] : store->files) each(context, number, object.bytes);
}

ATOLL_FAKE atoll_result atoll_file_open(atoll_store *store, uint64_t number, atoll_file **out) {
  const atoll_result result = store->record("open " + std::to_string(number));
  if (result.code != 0) return result;
  atoll::MutexLock lock(store->mutex);
  const auto file = store->files.find(number);
  if (file == store->files.end()) return atoll_store::answer(atoll::Code::kNotFound, "no such file");
  *out = new atoll_file{store, number, ::open(file->second.path.c_str(), O_RDONLY | O_CLOEXEC)};
  return result;
}

ATOLL_FAKE void atoll_file_close(atoll_file *file) {
  ::close(file->descriptor);
  delete file;
}

ATOLL_FAKE atoll_result atoll_file_read(atoll_file *file, uint64_t offset, uint64_t length, char *buffer,
                                        uint64_t *read, int refetch) {
  const std::string what = refetch != 0 ? "refetch " : "read ";
  const atoll_result result = file->store->record(what + std::to_string(file->number));
  if (result.code != 0) return result;
  const ssize_t bytes = ::pread(file->descriptor, buffer, length, static_cast<off_t>(offset));
  if (bytes < 0) return atoll_store::answer(atoll::Code::kUnavailable, "pread failed");
  *read = static_cast<uint64_t>(bytes);
  return result;
}

ATOLL_FAKE void atoll_file_read_many(atoll_file *file, atoll_read *reads, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    reads[i].result =
        atoll_file_read(file, reads[i].offset, reads[i].length, reads[i].buffer, &reads[i].read, 0);
  }
}

ATOLL_FAKE void atoll_file_prefetch(atoll_file *file, uint64_t offset, uint64_t length) {
  (void)file->store->record("prefetch " + std::to_string(offset) + " " + std::to_string(length), false);
}

ATOLL_FAKE void atoll_store_manifest_synced(atoll_store *store, uint64_t number, uint64_t length) {
  (void)store->record("manifest_synced " + std::to_string(number) + " " + std::to_string(length), false);
}
ATOLL_FAKE void atoll_store_current_set(atoll_store *store, uint64_t number) {
  (void)store->record("current_set " + std::to_string(number), false);
}
ATOLL_FAKE void atoll_store_opened(atoll_store *store, uint64_t last_sequence) {
  (void)store->record("opened " + std::to_string(last_sequence), false);
}
ATOLL_FAKE void atoll_store_note_drop(atoll_store *store) { (void)store->record("note_drop", false); }
ATOLL_FAKE void atoll_store_note_recovered(atoll_store *store) {
  (void)store->record("note_recovered", false);
}
ATOLL_FAKE void atoll_store_note_ddl(atoll_store *store) { (void)store->record("note_ddl", false); }
ATOLL_FAKE void atoll_store_wal_created(atoll_store *store, uint64_t number) {
  (void)store->record("wal_created " + std::to_string(number), false);
}
ATOLL_FAKE void atoll_store_wal_appended(atoll_store *store, uint64_t number, uint64_t length) {
  (void)store->record("wal_appended " + std::to_string(number) + " " + std::to_string(length), false);
}
ATOLL_FAKE void atoll_store_wal_synced(atoll_store *store, uint64_t number, uint64_t length) {
  (void)store->record("wal_synced " + std::to_string(number) + " " + std::to_string(length), false);
}
ATOLL_FAKE void atoll_store_wal_closed(atoll_store *store, uint64_t number, uint64_t length) {
  (void)store->record("wal_closed " + std::to_string(number) + " " + std::to_string(length), false);
}
ATOLL_FAKE void atoll_store_wal_deleted(atoll_store *store, uint64_t number) {
  (void)store->record("wal_deleted " + std::to_string(number), false);
}
ATOLL_FAKE uint64_t atoll_store_wal_position(const atoll_store * /*store*/) { return 0; }
ATOLL_FAKE atoll_result atoll_store_wait_shipped(atoll_store *store, uint64_t /*position*/,
                                                 uint32_t /*timeout_ms*/) {
  return store->record("wait_shipped");
}
ATOLL_FAKE atoll_result atoll_store_may_write(const atoll_store *store) {
  if (store->fenced) return atoll_store::answer(atoll::Code::kFenced, "epoch 2 has taken over");
  return atoll_store::answer(atoll::Code::kOk, "");
}

// The fake keeps no past states, so mounting one always fails.
ATOLL_FAKE atoll_result atoll_store_mount(const atoll_store *, const char *, const char *, const char *,
                                          atoll_mount **) {
  return atoll_store::answer(atoll::Code::kInvalid, "no such moment");
}
ATOLL_FAKE atoll_result atoll_visitor_mount(const atoll_visitor *, const char *, const char *,
                                            atoll_mount **) {
  return atoll_store::answer(atoll::Code::kInvalid, "no such moment");
}
ATOLL_FAKE atoll_result atoll_store_adopt_file(atoll_store *, const atoll_mount *, uint64_t, uint64_t) {
  return atoll_store::answer(atoll::Code::kNotFound, "there is no mount");
}
ATOLL_FAKE void atoll_mount_close(atoll_mount *) {}
ATOLL_FAKE uint64_t atoll_mount_commit_us(const atoll_mount *) { return 0; }
ATOLL_FAKE void atoll_mount_gtids(const atoll_mount *, void *,
                                  void (*)(void *, uint32_t, uint32_t, uint64_t)) {}
ATOLL_FAKE int atoll_mount_file_size(const atoll_mount *, uint64_t, uint64_t *) { return 0; }
ATOLL_FAKE int atoll_mount_file_crc32c(const atoll_mount *, uint64_t, uint32_t *) { return 0; }
ATOLL_FAKE atoll_result atoll_mount_open_file(const atoll_mount *, uint64_t, atoll_file **) {
  return atoll_store::answer(atoll::Code::kNotFound, "no such file");
}

}  // extern "C"

#undef ATOLL_FAKE
