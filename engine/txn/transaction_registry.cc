// Begins transactions, and keeps prepared transactions that have no connection. After a restart, recovers the
// prepared transactions with their locks, before any other transaction can begin.

#include <algorithm>

#include "txn/kept_lock.h"
#include "txn/transaction_impl.h"

namespace atoll::txn {

namespace {

// Locks every row that the batch of a recovered transaction writes, and what the batch keeps locked besides
// (kept_lock.h). The batch has RocksDB's column family
// ids, which are also those of lsm::Family. Leaves out the catalog's family, because the catalog has
// counters, which are written without locks.
class KeyLocker final : public PreparedBatchReader {
 public:
  KeyLocker(LockTable *table, LockOwner *owner, WriteExtents *extents, lsm::Rows *rows)
      : table_(table),
        owner_(owner),
        extents_(extents),
        catalog_family_(rows->catalog_family()->id()),
        marker_family_(rows->marker_handle()->GetID()) {}
  const Status &status() const { return status_; }

  rocksdb::Status PutCF(uint32_t family, const rocksdb::Slice &key, const rocksdb::Slice &) override {
    return lock(family, key);
  }
  rocksdb::Status DeleteCF(uint32_t family, const rocksdb::Slice &key) override {
    LockKey kept;
    if (family == marker_family_ && read_kept_lock(key.ToStringView(), &kept)) return lock(kept);
    return lock(family, key);
  }
  rocksdb::Status SingleDeleteCF(uint32_t family, const rocksdb::Slice &key) override {
    return lock(family, key);
  }

 private:
  rocksdb::Status lock(uint32_t family, const rocksdb::Slice &key) {
    if (family == catalog_family_) return {};
    const LockKey lock_key{family, {key.data(), key.size()}};
    extents_->add(family, lock_key.key);
    return lock(lock_key);
  }
  rocksdb::Status lock(const LockKey &key) {
    if (table_->holds(owner_, key, LockMode::kExclusive)) return {};
    status_ = table_->lock_recovered(owner_, key);
    return status_.ok() ? rocksdb::Status::OK() : rocksdb::Status::Aborted();
  }

  LockTable *table_;
  LockOwner *owner_;
  WriteExtents *extents_;
  const uint32_t catalog_family_, marker_family_;
  Status status_;
};

}  // namespace

Status TransactionImpl::take_recovered_locks() {
  extents_ = std::make_unique<WriteExtents>();
  KeyLocker locker(manager_->locks(), &owner_, extents_.get(), manager_->rows());
  const rocksdb::Status status = two_phase_->GetWriteBatch()->GetWriteBatch()->Iterate(&locker);
  if (!locker.status().ok()) {
    return Status(Code::kCorruption, "two prepared transactions write the same row; one is '" + xid_ + "'");
  }
  for (const WriteExtent &extent : extents_->all()) {
    const auto &known = written_families_;
    if (std::find(known.begin(), known.end(), extent.family_id) == known.end())
      count_writer(extent.family_id);
  }
  return status.ok() ? Status::Ok() : lsm::from_rocksdb(status).with("prepared transaction '" + xid_ + "'");
}

Status Manager::open(lsm::Rows *rows, lsm::RunFiles *run_files, std::unique_ptr<Manager> *out) {
  auto manager = std::make_unique<ManagerImpl>(rows, run_files);
  ATOLL_RETURN_IF_ERROR(manager->recover());
  *out = std::move(manager);
  return Status::Ok();
}

void ManagerImpl::set_transaction_memory(uint64_t bytes) {
  constexpr uint64_t kRowLockBytes = 128;  // memory of one row lock
  locks_.set_row_locks_max(bytes / 4 / kRowLockBytes);
  spill_bytes_.store(bytes / 2, std::memory_order_relaxed);
}

ManagerImpl::~ManagerImpl() {
  for (auto &[xid, transaction] : prepared_) transaction->abandon();
  prepared_.clear();
}

Status ManagerImpl::recover() {
  std::vector<std::string> spilled;
  for (auto &one : rows_->prepared_sections()) ATOLL_RETURN_IF_ERROR(recover_one(std::move(one), &spilled));
  remove_unnamed_spills(spilled);
  return Status::Ok();
}

// The directory's name is a number. No prepared transaction of an earlier start has the same number, because
// recover_one() makes next_spill_ greater than the numbers of all of them.
std::string ManagerImpl::new_spill_directory() {
  return run_files_->spill_directory() + "/" + std::to_string(next_spill_.fetch_add(1));
}

std::unique_ptr<Transaction> ManagerImpl::begin(void *user) {
  return std::make_unique<TransactionImpl>(this, next_id_.fetch_add(1, std::memory_order_relaxed), user);
}

std::vector<std::string> ManagerImpl::prepared_xids() {
  std::vector<std::string> xids;
  MutexLock guard(prepared_mutex_);
  for (const auto &[xid, transaction] : prepared_) xids.push_back(xid);
  return xids;
}

void ManagerImpl::detach_prepared(std::unique_ptr<Transaction> transaction) {
  std::unique_ptr<TransactionImpl> mine(static_cast<TransactionImpl *>(transaction.release()));
  if (mine->is_prepared()) keep_prepared(std::move(mine));  // else the destructor rolls the transaction back
}

void ManagerImpl::keep_prepared(std::unique_ptr<TransactionImpl> transaction) {
  transaction->detach();
  MutexLock guard(prepared_mutex_);
  const std::string xid = transaction->xid();
  prepared_[xid] = std::move(transaction);
}

std::unique_ptr<Transaction> ManagerImpl::take_prepared(std::string_view xid) {
  MutexLock guard(prepared_mutex_);
  const auto it = prepared_.find(xid);
  if (it == prepared_.end()) return nullptr;
  std::unique_ptr<Transaction> taken = std::move(it->second);
  prepared_.erase(it);
  return taken;
}

std::vector<TransactionInfo> ManagerImpl::list() {
  std::vector<TransactionInfo> all;
  for (Registry &registry : registries_) {
    MutexLock guard(registry.mutex);
    for (const TransactionImpl *transaction : registry.transactions) all.push_back(transaction->describe());
  }
  return all;
}

void ManagerImpl::add(TransactionImpl *transaction) {
  Registry &registry = registry_of(transaction->id());
  MutexLock guard(registry.mutex);
  registry.transactions.push_back(transaction);
}

void ManagerImpl::remove(TransactionImpl *transaction) {
  Registry &registry = registry_of(transaction->id());
  MutexLock guard(registry.mutex);
  auto &all = registry.transactions;
  all.erase(std::find(all.begin(), all.end(), transaction));
}

}  // namespace atoll::txn
