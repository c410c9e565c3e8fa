// See transaction.h for the contract, transaction_impl.h for the invariants.

#include <rocksdb/write_batch.h>

#include <algorithm>
#include <limits>

#include "base/clock.h"
#include "base/mutex.h"
#include "txn/kept_lock.h"
#include "txn/reads/merged_iterator.h"
#include "txn/transaction_impl.h"

namespace atoll::txn {

namespace {

constexpr size_t kXidBytesMax = 512;            // RocksDB's limit for the name of a transaction
constexpr size_t kRestoreBatchBytes = 1 << 20;  // restore_temp() writes batches of this size
// The largest key or value: WriteSet and RocksDB store lengths in 4 bytes.
constexpr size_t kFieldBytesMax = std::numeric_limits<uint32_t>::max();

std::unique_ptr<rocksdb::Iterator> bounded_iterator(const lsm::Family *family, rocksdb::ReadOptions read,
                                                    const ScanOptions &options, const CursorBounds *bounds) {
  if (!options.lower.empty()) read.iterate_lower_bound = &bounds->lower_slice;
  if (!options.upper.empty()) read.iterate_upper_bound = &bounds->upper_slice;
  read.fill_cache = options.fill_cache;
  read.readahead_size = options.readahead_bytes;
  read.max_skippable_internal_keys = options.hidden_max;
  return family->iterator(read);
}

}  // namespace

Status not_found() {
  static const Status status(Code::kNotFound, "no such key");
  return status;
}

Status own_result(const OwnWrite &own, rocksdb::PinnableSlice *value) {
  if (own.removed) return not_found();
  value->PinSelf(own.value());
  return Status::Ok();
}

Status dropped_family() {
  return Status(Code::kBug, "it was dropped while it was in use; repeat the statement");
}

Status read_result(const rocksdb::Status &status) {
  if (status.ok()) return Status::Ok();
  if (status.IsNotFound()) return not_found();
  return lsm::from_rocksdb(status);
}

TransactionImpl::TransactionImpl(ManagerImpl *manager, uint64_t id, void *user)
    : manager_(manager), id_(id), started_us_(now_us()), owner_(id, user) {
  manager_->add(this);
}

TransactionImpl::TransactionImpl(ManagerImpl *manager, uint64_t id,
                                 std::unique_ptr<rocksdb::Transaction> recovered)
    : manager_(manager),
      id_(id),
      started_us_(now_us()),
      owner_(id, nullptr),
      two_phase_(std::move(recovered)),
      xid_(two_phase_->GetName()),
      prepared_(true) {
  writes_shown_ = two_phase_->GetWriteBatch()->GetWriteBatch()->Count();
  manager_->add(this);
}

TransactionImpl::~TransactionImpl() {
  if (is_prepared()) {
    auto heir = std::make_unique<TransactionImpl>(manager_, id_, nullptr);
    heir->become(this);
    manager_->keep_prepared(std::move(heir));
  }
  finish();
  manager_->remove(this);
}

void TransactionImpl::become(TransactionImpl *prepared) {
  std::scoped_lock guard(writes_mutex_, prepared->writes_mutex_);
  owner_.swap(prepared->owner_);
  writes_ = std::move(prepared->writes_);
  extents_ = std::move(prepared->extents_);
  spill_ = std::move(prepared->spill_);
  ingestion_ = std::move(prepared->ingestion_);
  lost_ = prepared->lost_;
  written_families_.swap(prepared->written_families_);
  two_phase_ = std::move(prepared->two_phase_);
  xid_ = prepared->xid_;
  writes_shown_.store(prepared->write_count());
  prepared_.store(true);
  prepared->prepared_.store(false);
}

void TransactionImpl::make_snapshot() {
  if (snapshot_ == nullptr) snapshot_ = manager_->rows()->take_snapshot(lsm::Side::kMain);
}

void TransactionImpl::release_snapshot() {
  if (snapshot_ == nullptr) return;
  manager_->rows()->release_snapshot(lsm::Side::kMain, snapshot_);
  snapshot_ = nullptr;
}

const rocksdb::Snapshot *TransactionImpl::snapshot(lsm::Side side) {
  return side == lsm::Side::kMain ? snapshot_ : nullptr;
}

rocksdb::ReadOptions TransactionImpl::read_options(const lsm::Family *family, ReadAt at) const {
  rocksdb::ReadOptions options;
  options.total_order_seek = true;
  if (at == ReadAt::kSnapshot && family->side() == lsm::Side::kMain) options.snapshot = snapshot_;
  return options;
}

Status TransactionImpl::get(lsm::Family *family, std::string_view key, ReadAt at,
                            rocksdb::PinnableSlice *value) {
  value->Reset();
  if (writes_ != nullptr) {
    bool found = false;
    const Status own = find_own(family, key, &found, value);
    if (found || !own.ok()) return own;
  }
  if (family->handle() == nullptr) return dropped_family();
  count_work(WorkKind::kPointGets);
  return read_result(family->get(read_options(family, at), key, value));
}

std::unique_ptr<Cursor> TransactionImpl::scan(lsm::Family *family, ReadAt at, const ScanOptions &options) {
  auto bounds = std::make_unique<CursorBounds>();
  if (family->handle() == nullptr) {
    return std::make_unique<Cursor>(std::move(bounds), nullptr,
                                    std::unique_ptr<rocksdb::Iterator>(rocksdb::NewErrorIterator(
                                        rocksdb::Status::ColumnFamilyDropped(dropped_family().message()))),
                                    false);
  }
  bounds->set(options.lower, options.upper);
  const rocksdb::ReadOptions read = read_options(family, at);
  std::unique_ptr<HeadSearch> heads;
  if (family->side() == lsm::Side::kMain && !options.unique_start) {
    heads = std::make_unique<HeadSearch>(manager_, family, read.snapshot);
    heads->note_view();
  }
  auto entries = bounded_iterator(family, read, options, bounds.get());
  WriteSet::FamilyWrites *own = writes_ == nullptr ? nullptr : writes_->find_family(family);
  const bool in_memory = own != nullptr && !own->index.empty();
  const bool on_disk = spill_ != nullptr && spill_->has_family(family);
  const bool has_own_writes = !options.committed_only && (in_memory || on_disk);
  if (has_own_writes) {
    OwnCursor cursor(in_memory ? writes_ : nullptr, in_memory ? own : nullptr,
                     on_disk ? spill_->runs() : nullptr, family, options);
    entries =
        std::make_unique<MergedIterator>(std::move(entries), std::move(cursor), bounds.get(), heads.get());
  }
  return std::make_unique<Cursor>(std::move(bounds), std::move(heads), std::move(entries), has_own_writes);
}

bool TransactionImpl::has_writes(lsm::Side side) const {
  if (writes_ != nullptr && writes_->has_writes(side)) return true;
  if (spill_ != nullptr && spill_->has_runs(side)) return true;
  return side == lsm::Side::kMain && two_phase_ != nullptr;
}

void TransactionImpl::set_write_count() {
  writes_shown_.store(writes_ == nullptr ? 0 : writes_->write_count(), std::memory_order_relaxed);
}

Status TransactionImpl::check_write(std::string_view key, std::string_view value) const {
  if (is_prepared()) return Status(Code::kBug, "a prepared transaction cannot write");
  if (key.size() > kFieldBytesMax || value.size() > kFieldBytesMax) {
    return Status(Code::kInvalid,
                  "the row is too large: a row must be smaller than 4 GiB; store it as several");
  }
  const uint64_t bytes_max = manager_->write_bytes_max();
  const uint64_t bytes = writes_ == nullptr ? 0 : writes_->memory_bytes();
  if (bytes_max > 0 && bytes + key.size() + value.size() > bytes_max) {
    return Status(Code::kInvalid, "the transaction's uncommitted changes exceed the limit of " +
                                      std::to_string(bytes_max >> 20) + " MiB; commit in smaller steps");
  }
  return Status::Ok();
}

void TransactionImpl::write_locked(lsm::Family *family, std::string_view key, const NewWrite &write) {
  use_family(family);
  count_work(WorkKind::kWrites);
  writes_->write(family, key, write);
  set_write_count();
}

Status TransactionImpl::write(lsm::Family *family, std::string_view key, const NewWrite &write) {
  ATOLL_RETURN_IF_ERROR(check_write(key, write.value));
  {
    MutexLock guard(writes_mutex_);
    write_locked(family, key, write);
  }
  return bound_memory();
}

Status TransactionImpl::put(lsm::Family *family, std::string_view key, std::string_view value,
                            size_t unique_length) {
  return write(family, key, {value, false, unique_length});
}

Status TransactionImpl::remove(lsm::Family *family, std::string_view key, size_t unique_length) {
  return write(family, key, {{}, true, unique_length});
}

size_t TransactionImpl::set_savepoint() {
  MutexLock guard(writes_mutex_);
  if (writes_ == nullptr) writes_ = std::make_shared<WriteSet>();
  writes_->set_savepoint();
  return writes_->savepoints() - 1;
}

Status TransactionImpl::rollback_to_savepoint(size_t number) {
  if (writes_ == nullptr || number >= writes_->savepoints()) {
    return Status(Code::kBug, "rollback to a savepoint that is not set");
  }
  MutexLock guard(writes_mutex_);
  if (spill_ != nullptr) spill_->drop_from(writes_->savepoint_sequence(number));
  writes_->rollback_to_savepoint(number);
  set_write_count();
  return Status::Ok();
}

void TransactionImpl::release_savepoint(size_t number) {
  if (writes_ != nullptr) writes_->release_savepoint(number);
}

void TransactionImpl::forget_savepoint(size_t number) {
  if (writes_ != nullptr) writes_->forget_savepoint(number);
}

rocksdb::Status TransactionImpl::fill_batch(lsm::Side side, rocksdb::WriteBatch *batch) const {
  rocksdb::Status status;
  writes_->each(side, [&](lsm::Family *family, std::string_view key, const OwnWrite &write) {
    rocksdb::ColumnFamilyHandle *handle = family->handle();
    if (!status.ok() || handle == nullptr) return;  // a dropped family: nobody can see its rows
    status = write.removed ? batch->Delete(handle, key) : batch->Put(handle, key, write.value());
  });
  return status;
}

// Writes the own writes of one side to RocksDB as one batch. `sync` applies to main only, because temp has no
// WAL.
Status TransactionImpl::write_side(lsm::Side side, bool sync) {
  rocksdb::WriteBatch batch(writes_->batch_bytes(side));
  rocksdb::Status status = fill_batch(side, &batch);
  if (status.ok() && side == lsm::Side::kMain) status = lsm::put_mark(&batch, mark_);
  // RocksDB is about to copy the batch into its memtables. So a large write set would be a third copy of the
  // writes; this function frees it.
  if (side == lsm::Side::kMain && !writes_->has_writes(lsm::Side::kTemp)) keep_extents();
  rocksdb::WriteOptions options;
  options.sync = sync && side == lsm::Side::kMain;
  options.disableWAL = side == lsm::Side::kTemp;
  if (side == lsm::Side::kMain) count_work(WorkKind::kLogBytes, batch.GetDataSize());
  if (options.sync) count_work(WorkKind::kLogSyncs);
  const SharedLock gate(*manager_->rows()->commit_gate());
  if (status.ok()) status = manager_->rows()->write(side, options, &batch);
  return status.ok() ? Status::Ok() : lsm::from_rocksdb(status);
}

// Gives the temp rows that this transaction wrote the values back that they have in the snapshot `before`.
Status TransactionImpl::restore_temp(const rocksdb::Snapshot *before) {
  lsm::Rows *const rows = manager_->rows();
  rocksdb::ReadOptions at;
  at.snapshot = before;
  rocksdb::WriteBatch batch;
  rocksdb::WriteOptions options;
  options.disableWAL = true;
  std::string old;
  ATOLL_RETURN_IF_ERROR(visit_temp_keys([&](lsm::Family *family, std::string_view key) {
    rocksdb::Status status = family->get(at, key, &old);
    if (status.ok())
      status = batch.Put(family->handle(), key, old);
    else if (status.IsNotFound())
      status = batch.Delete(family->handle(), key);
    if (status.ok() && batch.GetDataSize() > kRestoreBatchBytes) {
      status = rows->write(lsm::Side::kTemp, options, &batch);
      batch.Clear();
    }
    return lsm::from_rocksdb(status);
  }));
  return lsm::from_rocksdb(rows->write(lsm::Side::kTemp, options, &batch));
}

// Writes temp first. Only this connection sees temp tables, so this write can be undone before anybody else
// sees it. Then calls `commit_main`. If that fails, undoes the write to temp.
Status TransactionImpl::commit_with_temp(const std::function<Status()> &commit_main) {
  for (const uint32_t family_id : written_families_) manager_->queue_heads()->note_commit(*this, family_id);
  if (!has_writes(lsm::Side::kTemp)) return commit_main();
  const auto release = [rows = manager_->rows()](const rocksdb::Snapshot *snapshot) {
    rows->release_snapshot(lsm::Side::kTemp, snapshot);
  };
  const std::unique_ptr<const rocksdb::Snapshot, decltype(release)> before(
      manager_->rows()->take_snapshot(lsm::Side::kTemp), release);
  ATOLL_RETURN_IF_ERROR(is_spilled() ? write_spilled_temp() : write_side(lsm::Side::kTemp, false));
  const Status status = commit_main();
  if (status.ok()) return status;
  if (Status undone = restore_temp(before.get()); !undone.ok()) {
    return Status(status.code(), std::string(status.message()) +
                                     "; temporary tables could not be rolled back: " + undone.message());
  }
  return status;
}

Status TransactionImpl::commit(bool sync) {
  if (is_prepared()) return commit_prepared(sync);
  Status status = is_spilled() ? spill_rest() : Status::Ok();
  if (status.ok())
    status = commit_with_temp([&]() -> Status {
      if (!has_writes(lsm::Side::kMain)) return Status::Ok();
      if (is_spilled()) return commit_spilled(sync);
      ATOLL_RETURN_IF_ERROR(write_side(lsm::Side::kMain, sync));
      commit_position_ = manager_->wal_position();
      return Status::Ok();
    });
  finish();
  return status;
}

void TransactionImpl::rollback() {
  if (is_prepared() && !rollback_prepared().ok()) return;
  finish();
}

void TransactionImpl::finish() {
  two_phase_.reset();
  prepared_.store(false, std::memory_order_relaxed);
  xid_.clear();
  mark_ = {};
  ingestion_.reset();
  if (spill_ != nullptr) spill_->set_keep(false);
  spill_.reset();
  lost_ = Status::Ok();
  forget_writes();
  set_write_count();
  release_snapshot();
  manager_->locks()->unlock_all(&owner_);
}

// Writes a prepared section to the WAL, with the changes that `fill` adds to it. Does not sync.
Status TransactionImpl::prepare_section(std::string_view xid, const SectionFiller &fill) {
  std::unique_ptr<rocksdb::Transaction> transaction = manager_->rows()->begin_section();
  if (!transaction->SetName(std::string(xid)).ok()) {
    return Status(Code::kInvalid, "a prepared transaction with this XA identifier exists");
  }
  transaction->DisableIndexing();
  rocksdb::Status status = fill(transaction.get());
  if (status.ok()) status = transaction->Prepare();
  if (!status.ok()) return lsm::from_rocksdb(status);
  two_phase_ = std::move(transaction);
  return Status::Ok();
}

// A lock on a unique start is on no key that the transaction writes. So that a restart finds the lock, the
// section deletes a key of the default family that names the lock and that never exists (kept_lock.h).
Status TransactionImpl::prepare_main(std::string_view xid, bool keeps_unique_starts) {
  rocksdb::ColumnFamilyHandle *const markers = manager_->rows()->marker_handle();
  return prepare_section(xid, [=, this](rocksdb::Transaction *section) {
    rocksdb::Status status;
    writes_->each(lsm::Side::kMain, [&](lsm::Family *family, std::string_view key, const OwnWrite &write) {
      rocksdb::ColumnFamilyHandle *handle = family->handle();
      if (!status.ok() || handle == nullptr) return;
      status = write.removed ? section->DeleteUntracked(handle, key)
                             : section->PutUntracked(handle, key, write.value());
      if (!status.ok() || !keeps_unique_starts || write.removed || write.unique_length == 0) return;
      const LockKey lock{family->id(), key.substr(0, write.unique_length)};
      status = section->DeleteUntracked(markers, kept_lock_key(lock));
    });
    return status;
  });
}

Status TransactionImpl::prepare(std::string_view xid, bool sync, bool is_decided_at_start, KeptLocks kept) {
  if (is_prepared()) return Status(Code::kBug, "the transaction is prepared already");
  if (xid.empty() || xid.size() > kXidBytesMax) {
    return Status(Code::kInvalid, "an XA identifier must have 1 to 512 bytes");
  }
  if (is_spilled()) ATOLL_RETURN_IF_ERROR(spill_rest());
  if (has_writes(lsm::Side::kMain)) {
    ATOLL_RETURN_IF_ERROR(is_spilled() ? prepare_spilled(xid) : prepare_main(xid, !is_decided_at_start));
  }
  kept = note_written_locks(kept);
  // RocksDB has the changes now, so a large write set is not needed any more. writes_shown_ keeps the number
  // of writes.
  if (writes_ != nullptr && !writes_->has_writes(lsm::Side::kTemp)) keep_extents();
  xid_ = xid;
  prepared_.store(true, std::memory_order_relaxed);
  // The sync is shared with other threads, and is made outside of RocksDB's queue of writers. A write that
  // syncs would hold up all writes after it in the queue; with a binary log, these include the commits of a
  // group, which are written one after the other.
  if (sync && two_phase_ != nullptr) {
    count_work(WorkKind::kLogSyncs);
    ATOLL_RETURN_IF_ERROR(manager_->rows()->sync_wal());
  }
  manager_->locks()->release_rest(&owner_, kept);
  return Status::Ok();
}

Status TransactionImpl::commit_prepared(bool sync) {
  if (!is_prepared()) return Status(Code::kBug, "the transaction is not prepared");
  const Status status = commit_with_temp([&]() -> Status {
    if (two_phase_ == nullptr) return Status::Ok();
    return commit_prepared_main(sync);
  });
  if (status.ok()) finish();
  return status;
}

Status TransactionImpl::rollback_prepared() {
  if (!is_prepared()) return Status(Code::kBug, "the transaction is not prepared");
  if (two_phase_ != nullptr) {
    if (rocksdb::Status status = two_phase_->Rollback(); !status.ok()) return lsm::from_rocksdb(status);
  }
  finish();
  return Status::Ok();
}

void TransactionImpl::detach() {
  owner_.set_user(nullptr);
  release_snapshot();
  // The client's temp tables are gone. RocksDB has the writes of main; the write set keeps them for range
  // locks only.
  if (writes_ != nullptr && writes_->has_writes(lsm::Side::kTemp)) {
    MutexLock guard(writes_mutex_);
    writes_->forget(lsm::Side::kTemp);
  }
}

void TransactionImpl::abandon() {
  // Does not call Rollback(), so the WAL gets no record of a rollback. The prepared section stays in the WAL,
  // and its spilled files stay on disk.
  ingestion_.reset();
  if (spill_ != nullptr) spill_->set_keep(true);
  spill_.reset();
  two_phase_.reset();
  prepared_.store(false, std::memory_order_relaxed);
}

TransactionInfo TransactionImpl::describe() const {
  return {id_, owner_.user(), started_us_, owner_.locks_held(), write_count(), is_prepared()};
}

}  // namespace atoll::txn
