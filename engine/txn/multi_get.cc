// TransactionImpl::multi_get: own writes first, then the database, a cold batch by several threads.
//
// Whether a batch is cold shows in the time that its first keys take: a warm batch pays for no thread, a
// cold one waits for several files at a time. Asking RocksDB for what memory has (kBlockCacheTier) would be
// the natural probe, but its MultiGet answers OK with an empty value for a key whose block is not there.

#include <algorithm>
#include <chrono>

#include "txn/transaction_impl.h"

namespace atoll::txn {

namespace {

constexpr size_t kProbeKeys = 8;
constexpr size_t kPieceKeysMin = 16;
constexpr size_t kPiecesMax = 4;
constexpr std::chrono::microseconds kWarmKeysMax(
    300);  // for the probe; one read of a disk or bucket is longer

// Keys in ascending order, with what was read for each.
struct SortedRead {
  std::vector<rocksdb::Slice> keys;
  std::vector<rocksdb::PinnableSlice> values;
  std::vector<rocksdb::Status> statuses;

  explicit SortedRead(size_t count) : keys(count), values(count), statuses(count) {}

  void read(rocksdb::DB *db, lsm::Family *family, const rocksdb::ReadOptions &options, size_t from,
            size_t count) {
    db->MultiGet(options, family->handle(), count, &keys[from], &values[from], &statuses[from],
                 /*sorted_input=*/true);
  }
};

void read_all(ReadPool *pool, rocksdb::DB *db, lsm::Family *family, const rocksdb::ReadOptions &options,
              SortedRead *read) {
  const size_t count = read->keys.size();
  const size_t probe = count < kProbeKeys + 2 * kPieceKeysMin ? count : kProbeKeys;
  const auto start = std::chrono::steady_clock::now();
  read->read(db, family, options, 0, probe);
  const size_t rest = count - probe;
  if (rest == 0) return;
  if (std::chrono::steady_clock::now() - start < kWarmKeysMax) {
    read->read(db, family, options, probe, rest);
    return;
  }
  const size_t pieces = std::min(rest / kPieceKeysMin, kPiecesMax);
  pool->run(pieces, [&](size_t piece) {
    const size_t from = rest * piece / pieces;
    read->read(db, family, options, probe + from, rest * (piece + 1) / pieces - from);
  });
}

}  // namespace

void TransactionImpl::multi_get(lsm::Family *family, const std::vector<rocksdb::Slice> &keys, ReadAt at,
                                std::vector<rocksdb::PinnableSlice> *values, std::vector<Status> *statuses) {
  // Not resize(): old contents must go, and a PinnableSlice in use must not be read into.
  *values = std::vector<rocksdb::PinnableSlice>(keys.size());
  statuses->assign(keys.size(), Status::Ok());
  const bool may_own = has_own(family);
  std::vector<size_t> missing;
  missing.reserve(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    bool found = false;
    Status own;
    if (may_own) own = find_own(family, {keys[i].data(), keys[i].size()}, &found, &(*values)[i]);
    if (!found && own.ok())
      missing.push_back(i);
    else
      (*statuses)[i] = own;
  }
  if (!missing.empty()) read_from_database(family, keys, at, &missing, values, statuses);
}

void TransactionImpl::read_from_database(lsm::Family *family, const std::vector<rocksdb::Slice> &keys,
                                         ReadAt at, std::vector<size_t> *missing,
                                         std::vector<rocksdb::PinnableSlice> *values,
                                         std::vector<Status> *statuses) {
  const auto less = [&](size_t a, size_t b) { return keys[a].compare(keys[b]) < 0; };
  if (!std::is_sorted(missing->begin(), missing->end(), less)) {
    std::sort(missing->begin(), missing->end(), less);
  }
  const size_t count = missing->size();
  if (family->handle() == nullptr) {
    for (const size_t i : *missing) (*statuses)[i] = dropped_family();
    return;
  }
  SortedRead read(count);
  for (size_t i = 0; i < count; ++i) read.keys[i] = keys[(*missing)[i]];
  const rocksdb::ReadOptions options = read_options(family, at);
  read_all(manager_->read_pool(), db(family->side()), family, options, &read);
  for (size_t i = 0; i < count; ++i) {
    (*statuses)[(*missing)[i]] = read_result(read.statuses[i]);
    if (read.statuses[i].ok()) (*values)[(*missing)[i]] = std::move(read.values[i]);
  }
}

}  // namespace atoll::txn
