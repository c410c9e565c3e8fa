// For tests: changes entries of a stopped server's tables behind the engine's back, as a bug of it would.
//
//   edit_entries DIRECTORY URL list                       a line "FAMILY KEY VALUE" for each entry, in hex
//   edit_entries DIRECTORY URL list-catalog               as list, for the entries of the catalog
//   edit_entries DIRECTORY URL put FAMILY KEY VALUE
//   edit_entries DIRECTORY URL remove FAMILY KEY
//
// DIRECTORY is the data directory's #atoll; URL is atoll_url. The store is opened as the server opens it, so
// what changes is in the bucket when this ends. Exit status 1 after an error, which is on stderr.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "base/bytes.h"
#include "bridge/objstore.h"
#include "bridge/result.h"
#include "lsm/database.h"

namespace {

using atoll::Status;
using atoll::lsm::Database;
using atoll::lsm::Family;

constexpr uint32_t kFamiliesMax = 1000;  // tests make few
constexpr uint64_t kCloseTimeoutMs = 30000;

std::string from_hex(const std::string &hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

Status list(Database *database, bool of_catalog) {
  for (uint32_t id = 0; id < kFamiliesMax; id++) {
    Family *family = database->find_family(id);
    if (family == nullptr || (family == database->catalog_family()) != of_catalog) continue;
    const std::unique_ptr<rocksdb::Iterator> it = family->iterator(rocksdb::ReadOptions());
    for (it->SeekToFirst(); it->Valid(); it->Next())
      std::printf("%u %s %s\n", id, atoll::to_hex(it->key().ToStringView()).c_str(),
                  atoll::to_hex(it->value().ToStringView()).c_str());
    const Status status = atoll::lsm::from_rocksdb(it->status());
    if (!status.ok()) return status;
  }
  return Status::Ok();
}

Status edit(Database *database, int count, char **words) {
  const std::string verb = words[0];
  if (verb == "list" || verb == "list-catalog") return list(database, verb == "list-catalog");
  Family *family = database->find_family(static_cast<uint32_t>(std::atoi(words[1])));
  if (family == nullptr) return Status(atoll::Code::kInvalid, "no such family");
  const std::string key = from_hex(words[2]);
  rocksdb::WriteBatch batch;
  const bool puts = verb == "put" && count == 4;
  ATOLL_RETURN_IF_ERROR(atoll::lsm::from_rocksdb(puts ? batch.Put(family->handle(), key, from_hex(words[3]))
                                                      : batch.Delete(family->handle(), key)));
  return database->write_unlocked(&batch, false);
}

Status run(const std::string &directory, const char *url, int count, char **words) {
  const std::string local = directory + "/db", cache = directory + "/cache", temp = directory + "/temp";
  atoll_store_config config{};
  config.url = url;
  config.endpoint = config.region = config.access_key = config.secret_key = config.session_token = "";
  config.local_dir = local.c_str();
  config.cache_dir = cache.c_str();
  config.server_id = "edit_entries";
  config.cache_bytes = 64 << 20;
  config.request_timeout_ms = 10000;
  config.log = [](int, const char *) {};
  atoll_store *store = nullptr;
  ATOLL_RETURN_IF_ERROR(atoll::bridge::to_status(atoll_store_open(nullptr, &config, &store)));
  atoll::lsm::DatabaseOptions options;
  options.local_dir = local;
  options.temp_dir = temp;
  options.store = store;
  options.log = [](int, const std::string &) {};
  std::unique_ptr<Database> database;
  Status status = Database::open(options, &database);
  if (status.ok()) status = edit(database.get(), count, words);
  if (status.ok()) status = database->shut_down();
  database.reset();
  const Status closed = atoll::bridge::to_status(atoll_store_close(store, kCloseTimeoutMs));
  return status.ok() ? closed : status;
}

}  // namespace

int main(int count, char **words) {
  if (count < 4 || (!std::string(words[3]).starts_with("list") && count < 6)) {
    std::fprintf(stderr, "usage: see the head of edit_entries.cc\n");
    return 1;
  }
  const Status status = run(words[1], words[2], count - 3, words + 3);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.message());
  return status.ok() ? 0 : 1;
}
