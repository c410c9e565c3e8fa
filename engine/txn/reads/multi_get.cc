// TransactionImpl::multi_get: looks for the keys in the own writes first, then in the database. Several
// threads read a cold batch, one whose blocks are not in memory.
//
// The time that the first keys take shows whether a batch is cold. A warm batch is not worth a thread; for a
// cold batch, several threads wait for several files at the same time. It would be natural to ask RocksDB
// what is in memory (kBlockCacheTier). But RocksDB's MultiGet then answers OK with an empty value for a key
// whose block is not in memory.

#include <algorithm>
#include <atomic>
#include <chrono>

#include "txn/transaction_impl.h"

namespace atoll::txn {

namespace {

constexpr size_t kProbeKeys = 8;  // keys that are read first, to find out whether the batch is cold
// RocksDB waits for this many keys of a MultiGet before it starts on the next keys
// (MultiGetContext::MAX_BATCH_SIZE).
constexpr size_t kPieceKeys = 32;
constexpr std::chrono::microseconds kWarmKeysMax(
    300);  // for the first kProbeKeys keys; one read of a disk or bucket takes longer

// Keys in ascending order, with the value and the status read for each key. Threads may read different keys
// at the same time.
class SortedRead {
 public:
  std::vector<rocksdb::Slice> keys;
  std::vector<rocksdb::PinnableSlice> values;
  std::vector<rocksdb::Status> statuses;

  SortedRead(const lsm::Family *family, const rocksdb::ReadOptions &options, size_t count)
      : keys(count), values(count), statuses(count), family_(family), options_(options) {}

  // Reads `count` keys from keys[from] on. When there is no room for more values (kMultiGetBytesMax), the
  // remaining keys get the status Aborted.
  void read(size_t from, size_t count) {
    const int64_t room = room_bytes_.load(std::memory_order_relaxed);
    if (room <= 0) return leave_out(from, count);
    rocksdb::ReadOptions options = options_;
    options.value_size_soft_limit = static_cast<uint64_t>(room);
    family_->multi_get(options, count, &keys[from], &values[from], &statuses[from]);
    room_bytes_.fetch_sub(static_cast<int64_t>(value_bytes(from, count)), std::memory_order_relaxed);
  }

  void leave_out(size_t from, size_t count) {
    std::fill_n(statuses.begin() + static_cast<ptrdiff_t>(from), count, rocksdb::Status::Aborted());
  }

  // How many more values there is room for, if they are as long as the first `count` values. The caller
  // leaves out all further keys, because RocksDB reads the blocks of 32 keys before it looks at its limit.
  size_t keys_that_fit(size_t count) const {
    const size_t bytes = value_bytes(0, count);
    const auto room = static_cast<size_t>(std::max<int64_t>(0, room_bytes_.load(std::memory_order_relaxed)));
    return bytes == 0 ? keys.size() : room / std::max<size_t>(1, bytes / count);
  }

 private:
  size_t value_bytes(size_t from, size_t count) const {
    size_t bytes = 0;
    for (size_t i = from; i < from + count; ++i) bytes += values[i].size();
    return bytes;
  }

  const lsm::Family *family_;
  const rocksdb::ReadOptions &options_;
  std::atomic<int64_t> room_bytes_{static_cast<int64_t>(Transaction::kMultiGetBytesMax)};
};

void read_all(ReadPool *pool, SortedRead *read) {
  const size_t probe = std::min(read->keys.size(), kProbeKeys);
  const auto start = std::chrono::steady_clock::now();
  read->read(0, probe);
  const bool warm = std::chrono::steady_clock::now() - start < kWarmKeysMax;
  const size_t rest = std::min(read->keys.size() - probe, read->keys_that_fit(probe));
  read->leave_out(probe + rest, read->keys.size() - probe - rest);
  if (rest == 0) return;
  if (warm || rest <= kPieceKeys) {
    read->read(probe, rest);
    return;
  }
  pool->run((rest + kPieceKeys - 1) / kPieceKeys, [&](size_t piece) {
    const size_t from = piece * kPieceKeys;
    read->read(probe + from, std::min(kPieceKeys, rest - from));
  });
}

}  // namespace

std::vector<size_t> TransactionImpl::multi_get(lsm::Family *family, const std::vector<rocksdb::Slice> &keys,
                                               ReadAt at, std::vector<rocksdb::PinnableSlice> *values,
                                               std::vector<Status> *statuses) {
  // Not resize(): the old contents must go, and RocksDB must not read into a PinnableSlice that is in use.
  *values = std::vector<rocksdb::PinnableSlice>(keys.size());
  statuses->assign(keys.size(), Status::Ok());
  if (keys.size() == 1) {  // RocksDB prepares far more for a MultiGet than for a Get
    statuses->front() = get(family, keys.front().ToStringView(), at, &values->front());
    return {};
  }
  const bool may_own = writes_ != nullptr && (writes_->find_family(family) != nullptr ||
                                              (spill_ != nullptr && spill_->has_family(family)));
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
  if (missing.empty()) return {};
  return read_from_database(family, keys, at, &missing, values, statuses);
}

std::vector<size_t> TransactionImpl::read_from_database(lsm::Family *family,
                                                        const std::vector<rocksdb::Slice> &keys, ReadAt at,
                                                        std::vector<size_t> *missing,
                                                        std::vector<rocksdb::PinnableSlice> *values,
                                                        std::vector<Status> *statuses) {
  const auto less = [&](size_t a, size_t b) { return keys[a].compare(keys[b]) < 0; };
  if (!std::is_sorted(missing->begin(), missing->end(), less)) {
    std::sort(missing->begin(), missing->end(), less);
  }
  const size_t count = missing->size();
  count_work(WorkKind::kMultiGets);
  count_work(WorkKind::kMultiGetKeys, count);
  if (family->handle() == nullptr) {
    for (const size_t i : *missing) (*statuses)[i] = dropped_family();
    return {};
  }
  const rocksdb::ReadOptions options = read_options(family, at);
  SortedRead read(family, options, count);
  for (size_t i = 0; i < count; ++i) read.keys[i] = keys[(*missing)[i]];
  read_all(manager_->read_pool(), &read);
  std::vector<size_t> left_out;
  for (size_t i = 0; i < count; ++i) {
    if (read.statuses[i].IsAborted()) {
      left_out.push_back((*missing)[i]);
      continue;
    }
    (*statuses)[(*missing)[i]] = read_result(read.statuses[i]);
    if (read.statuses[i].ok()) (*values)[(*missing)[i]] = std::move(read.values[i]);
  }
  std::sort(left_out.begin(), left_out.end());
  return left_out;
}

}  // namespace atoll::txn
