// Transactions larger than memory: when their writes go to local disk, how these writes are read there, and
// how they are committed (docs/internals/huge-transactions.md). The files themselves are in spill.cc.
//
// The marker of a prepared transaction is a key in the default family. It exists from the moment when the
// database has ingested the transaction's files until the WAL has the record that ends the transaction. So
// after a crash, a prepared transaction with a marker was committed.

#include <charconv>
#include <filesystem>

#include "base/file.h"
#include "txn/reads/own_cursor.h"
#include "txn/transaction_impl.h"

namespace atoll::txn {

namespace {

constexpr std::string_view kMarkerPrefix = "spilled/";

std::string marker_key(const std::string &name) { return std::string(kMarkerPrefix) + name; }

// Finds out which marker the batch of a prepared transaction removes.
class MarkerFinder final : public PreparedBatchReader {
 public:
  const std::string &name() const { return name_; }
  rocksdb::Status PutCF(uint32_t, const rocksdb::Slice &, const rocksdb::Slice &) override { return {}; }
  rocksdb::Status DeleteCF(uint32_t family, const rocksdb::Slice &key) override {
    const std::string_view bytes = key.ToStringView();
    if (family == 0 && bytes.starts_with(kMarkerPrefix)) name_ = bytes.substr(kMarkerPrefix.size());
    return {};
  }
  rocksdb::Status SingleDeleteCF(uint32_t, const rocksdb::Slice &) override { return {}; }

 private:
  std::string name_;
};

// Commits the prepared transaction with `mark`. RocksDB writes the transaction's commit-time batch to the log
// before the commit record. Clears the batch first, because it still has the mark of an earlier commit of
// this transaction, if that commit failed.
Status commit_with_mark(rocksdb::Transaction *prepared, const lsm::CommitMark &mark) {
  rocksdb::WriteBatch *record = prepared->GetCommitTimeWriteBatch();
  record->Clear();
  ATOLL_RETURN_IF_ERROR(lsm::from_rocksdb(lsm::put_mark(record, mark)));
  return lsm::from_rocksdb(prepared->Commit());
}

// Returns the directory that a prepared transaction names; empty: the transaction has no spilled writes.
std::string spill_name(rocksdb::Transaction *prepared) {
  MarkerFinder finder;
  (void)prepared->GetWriteBatch()->GetWriteBatch()->Iterate(&finder);
  return finder.name();
}

}  // namespace

// ---- While the transaction runs ------------------------------------------------------------------

bool TransactionImpl::is_spilled() const {
  if (spill_ == nullptr) return false;
  return !lost_.ok() || spill_->has_runs(lsm::Side::kMain) || spill_->has_runs(lsm::Side::kTemp);
}

Status TransactionImpl::bound_memory() {
  const uint64_t most = manager_->spill_bytes();
  return most == 0 || writes_->memory_bytes() < most ? Status::Ok() : spill();
}

// Writes the write set to disk and puts an empty one in its place. Cursors that read the old write set keep
// it alive.
Status TransactionImpl::spill() {
  if (spill_ == nullptr) {
    spill_ =
        std::make_unique<Spill>(manager_->rows(), manager_->run_files(), manager_->new_spill_directory());
  }
  ATOLL_RETURN_IF_ERROR(spill_->add(*writes_));
  auto extents =
      extents_ == nullptr ? std::make_unique<WriteExtents>() : std::make_unique<WriteExtents>(*extents_);
  writes_->each(lsm::Side::kMain, [&](const lsm::Family *family, std::string_view key, const OwnWrite &) {
    extents->add(family->id(), key);
  });
  std::shared_ptr<WriteSet> done = writes_->successor();
  const MutexLock guard(writes_mutex_);
  extents_ = std::move(extents);
  done.swap(writes_);
  return Status::Ok();
}

// Call when the transaction writes nothing more. Moves all of its writes to disk, in files of the form in
// which the database ingests them.
Status TransactionImpl::spill_rest() {
  ATOLL_RETURN_IF_ERROR(spill());
  return spill_->merge_many();
}

Status TransactionImpl::find_own(const lsm::Family *family, std::string_view key, bool *found,
                                 rocksdb::PinnableSlice *value) const {
  *found = false;
  if (const OwnWrite *own = writes_->find(family, key); own != nullptr) {
    *found = true;
    return own_result(*own, value);
  }
  if (spill_ == nullptr) return Status::Ok();
  bool removed = false;
  ATOLL_RETURN_IF_ERROR(spill_->find(family, key, found, &removed, value->GetSelf()));
  if (!*found) return Status::Ok();
  if (removed) return own_result(OwnWrite{.removed = true}, value);
  value->PinSelf();
  return Status::Ok();
}

Status TransactionImpl::has_written(const lsm::Family *family, std::string_view key, bool *found) const {
  *found = false;
  if (writes_ == nullptr) return Status::Ok();
  rocksdb::PinnableSlice value;
  const Status status = find_own(family, key, found, &value);
  return status.code() == Code::kNotFound ? Status::Ok() : status;
}

bool TransactionImpl::has_written_in(const lsm::Family *family, std::string_view lower,
                                     std::string_view upper) const {
  if (spill_ != nullptr && spill_->has_family(family)) return true;
  return writes_ != nullptr && has_write(*writes_, family, lower, upper);
}

// ---- Preparing and committing spilled writes -----------------------------------------------------

// Calls visit() for each temp key that the transaction has written. Visits a key several times if several
// runs have it.
Status TransactionImpl::visit_temp_keys(const std::function<Status(lsm::Family *, std::string_view)> &visit) {
  Status status;
  writes_->each(lsm::Side::kTemp, [&](lsm::Family *family, std::string_view key, const OwnWrite &) {
    if (status.ok()) status = visit(family, key);
  });
  if (spill_ == nullptr || !status.ok()) return status;
  const std::shared_ptr<const Runs> runs = spill_->runs();
  for (const auto &run : *runs) {
    for (const SpilledRun::Part &part : run->parts()) {
      if (part.family->side() != lsm::Side::kTemp) continue;
      const auto cursor = part.file->cursor();
      for (cursor->to_first(); cursor->valid(); cursor->next()) {
        ATOLL_RETURN_IF_ERROR(visit(part.family, cursor->key()));
      }
      ATOLL_RETURN_IF_ERROR(cursor->status());
    }
  }
  return status;
}

Status TransactionImpl::write_spilled_temp() {
  const auto files = spill_->files(lsm::Side::kTemp);
  if (files.empty()) return Status::Ok();
  lsm::Ingestion ingestion;
  ATOLL_RETURN_IF_ERROR(ingestion.prepare(manager_->rows(), lsm::Side::kTemp, files, true));
  return ingestion.commit();
}

Status TransactionImpl::prepare_ingestion(bool with_marker) {
  std::vector<lsm::FamilyFiles> files = spill_->files(lsm::Side::kMain);
  if (with_marker) {
    const std::string path = spill_->directory() + "/marker.sst";
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
    lsm::RunFileWriter marker(manager_->run_files()->run_file_options(), path);
    ATOLL_RETURN_IF_ERROR(marker.add(marker_key(spill_->name()), "", false));
    ATOLL_RETURN_IF_ERROR(marker.finish());
    rocksdb::ColumnFamilyHandle *const markers = manager_->rows()->marker_handle();
    const auto own = std::find_if(files.begin(), files.end(), [markers](const lsm::FamilyFiles &family) {
      return family.family->GetID() == markers->GetID();
    });
    if (own == files.end())
      files.push_back({markers, {path}});
    else
      own->paths.push_back(path);
  }
  auto ingestion = std::make_unique<lsm::Ingestion>();
  ATOLL_RETURN_IF_ERROR(ingestion->prepare(manager_->rows(), lsm::Side::kMain, files, false));
  ingestion_ = std::move(ingestion);
  return Status::Ok();
}

Status TransactionImpl::commit_ingestion() {
  const Status status = manager_->run_files()->commit_ingestion(ingestion_.get());
  ingestion_.reset();
  return status;
}

// Writes a record to the WAL after the ingestion. The record gives the commit a position in the WAL. Atoll
// needs such positions to measure the lag of the bucket.
Status TransactionImpl::commit_spilled(bool sync) {
  ATOLL_RETURN_IF_ERROR(prepare_ingestion(false));
  ATOLL_RETURN_IF_ERROR(commit_ingestion());
  rocksdb::WriteOptions options;
  options.sync = sync;
  lsm::Rows *const rows = manager_->rows();
  rocksdb::WriteBatch batch;
  // The transaction is committed already, so errors are ignored: RocksDB itself reports a WAL that cannot be
  // written.
  (void)batch.Delete(rows->marker_handle(), marker_key(spill_->name()));
  (void)lsm::put_mark(&batch, mark_);
  const SharedLock gate(*rows->commit_gate());
  (void)rows->write(lsm::Side::kMain, options, &batch);
  commit_position_ = manager_->wal_position();
  return Status::Ok();
}

Status TransactionImpl::prepare_spilled(std::string_view xid) {
  ATOLL_RETURN_IF_ERROR(spill_->save_list());
  ATOLL_RETURN_IF_ERROR(prepare_ingestion(true));
  ATOLL_RETURN_IF_ERROR(prepare_section(xid, [this](rocksdb::Transaction *section) {
    return section->DeleteUntracked(manager_->rows()->marker_handle(), marker_key(spill_->name()));
  }));
  spill_->set_keep(true);
  return Status::Ok();
}

Status TransactionImpl::commit_prepared_main(bool sync) {
  two_phase_->GetWriteOptions()->sync = sync;
  // Tables of the transaction can have been dropped before its commit was decided. Then nobody can see their
  // rows, so RocksDB leaves them out.
  two_phase_->GetWriteOptions()->ignore_missing_column_families = true;
  if (!is_spilled()) {
    const SharedLock gate(*manager_->rows()->commit_gate());
    ATOLL_RETURN_IF_ERROR(commit_with_mark(two_phase_.get(), mark_));
    commit_position_ = manager_->wal_position();
    return Status::Ok();
  }
  ATOLL_RETURN_IF_ERROR(lost_);
  if (ingestion_ == nullptr) ATOLL_RETURN_IF_ERROR(prepare_ingestion(true));
  ATOLL_RETURN_IF_ERROR(commit_ingestion());
  const SharedLock gate(*manager_->rows()->commit_gate());
  // From here on the transaction is committed. If the commit record cannot be written, the marker tells the
  // next start that the transaction is committed.
  (void)commit_with_mark(two_phase_.get(), mark_);
  commit_position_ = manager_->wal_position();
  return Status::Ok();
}

// ---- Recovery of prepared transactions at open ---------------------------------------------------

// Takes over the spilled files of a prepared transaction found at open, and locks the rows in them. If the
// files are gone (the local disk was lost), the transaction can only be rolled back.
Status TransactionImpl::take_spilled(const std::string &name) {
  spill_ = std::make_unique<Spill>(manager_->rows(), manager_->run_files(),
                                   manager_->run_files()->spill_directory() + "/" + name);
  spill_->set_keep(true);
  extents_ = std::make_unique<WriteExtents>();
  lost_ = spill_->load().with(
      "its changes were on the local disk of the machine that prepared it and are gone. Start the server "
      "once "
      "with --tc-heuristic-recover=ROLLBACK, then without; if the binary log has the transaction, apply it "
      "again "
      "from there");
  for (const auto &run : *spill_->runs()) {
    for (const SpilledRun::Part &part : run->parts()) {
      // The catalog's family has counters, which are written without locks (see KeyLocker).
      if (part.family == manager_->rows()->catalog_family()) continue;
      const auto cursor = part.file->cursor();
      for (cursor->to_first(); cursor->valid(); cursor->next()) {
        extents_->add(part.family->id(), cursor->key());
        const LockKey key{part.family->id(), cursor->key()};
        if (!manager_->locks()->lock_recovered(&owner_, key).ok()) {
          return Status(Code::kCorruption,
                        "two prepared transactions write the same row; one is '" + xid_ + "'");
        }
      }
      ATOLL_RETURN_IF_ERROR(cursor->status());
      if (!is_writer_of(part.family)) count_writer(part.family->id());
    }
  }
  return Status::Ok();
}

Status ManagerImpl::recover_one(std::unique_ptr<rocksdb::Transaction> prepared,
                                std::vector<std::string> *spilled) {
  const std::string name = spill_name(prepared.get());
  if (!name.empty()) {
    std::string marker;
    const rocksdb::Status found = rows_->get_marker(marker_key(name), &marker);
    if (found.ok()) {
      lsm::CommitMark mark;
      mark.is_recovered = true;
      return commit_with_mark(prepared.get(), mark).with("ending a committed transaction");
    }
    if (!found.IsNotFound()) return lsm::from_rocksdb(found);
    spilled->push_back(name);
    uint64_t number = 0;
    std::from_chars(name.data(), name.data() + name.size(), number);
    next_spill_.store(std::max(next_spill_.load(), number + 1));
  }
  auto transaction = std::make_unique<TransactionImpl>(this, next_id_.fetch_add(1), std::move(prepared));
  TransactionImpl *added = transaction.get();
  const std::string xid = added->xid();
  {
    const MutexLock guard(prepared_mutex_);
    prepared_.emplace(xid, std::move(transaction));
  }
  return name.empty() ? added->take_recovered_locks() : added->take_spilled(name);
}

void ManagerImpl::remove_unnamed_spills(const std::vector<std::string> &named) {
  std::vector<std::filesystem::path> unnamed;
  for (const std::filesystem::path &entry : entries_of(run_files_->spill_directory()))
    if (std::find(named.begin(), named.end(), entry.filename().string()) == named.end())
      unnamed.push_back(entry);
  for (const auto &path : unnamed) (void)remove_tree(path);
}

}  // namespace atoll::txn
