#include "lsm/rows.h"

#include <rocksdb/utilities/transaction.h>
#include <rocksdb/write_batch.h>

#include "base/clock.h"
#include "base/work.h"
#include "lsm/commit_mark.h"
#include "lsm/raw.h"

namespace atoll::lsm {
namespace {

constexpr char kNoKey[] = "no key";  // of the marker family; nothing writes an entry with it
constexpr uint64_t kMarkAgeUs = 60ull * 1000 * 1000;

}  // namespace

rocksdb::Status Rows::write(Side side, const rocksdb::WriteOptions &options, rocksdb::WriteBatch *batch) {
  return Raw::below(this, side)->Write(options, batch);
}

const rocksdb::Snapshot *Rows::take_snapshot(Side side) { return Raw::below(this, side)->GetSnapshot(); }

void Rows::release_snapshot(Side side, const rocksdb::Snapshot *snapshot) {
  Raw::below(this, side)->ReleaseSnapshot(snapshot);
}

uint64_t Rows::newest_sequence() { return Raw::below(this, Side::kMain)->GetLatestSequenceNumber(); }

std::unique_ptr<rocksdb::Transaction> Rows::begin_section() {
  rocksdb::TransactionOptions options;
  options.skip_concurrency_control = true;
  return std::unique_ptr<rocksdb::Transaction>(
      Raw::of(this, Side::kMain)->BeginTransaction(rocksdb::WriteOptions(), options));
}

std::vector<std::unique_ptr<rocksdb::Transaction>> Rows::prepared_sections() {
  std::vector<rocksdb::Transaction *> found;
  Raw::of(this, Side::kMain)->GetAllPreparedTransactions(&found);
  return {found.begin(), found.end()};
}

rocksdb::ColumnFamilyHandle *Rows::marker_handle() {
  return Raw::below(this, Side::kMain)->DefaultColumnFamily();
}

rocksdb::Status Rows::get_marker(const rocksdb::Slice &key, std::string *value) {
  return Raw::below(this, Side::kMain)->Get(rocksdb::ReadOptions(), marker_handle(), key, value);
}

Status Rows::write_unlocked(rocksdb::WriteBatch *batch, bool sync) {
  // Cannot fail: only a batch with a size limit can refuse the mark, and Atoll's batches have no limit.
  (void)put_mark(batch, CommitMark());
  return write_marked(batch, sync);
}

// The entry bears a time long before any commit that could come into the log at the same time. Of two GTIDs
// the later one counts, by time or by number (crates/objstore/src/protocol/wal/position.rs), so this one
// counts only by its number, and never takes the place of a commit after it.
Status Rows::write_mark(const CommitMark &mark) {
  rocksdb::WriteBatch nothing;
  (void)nothing.Delete(marker_handle(), kNoKey);  // neither can fail, as in write_unlocked()
  (void)nothing.PutLogData(encode(mark, now_us() - kMarkAgeUs));
  return write_marked(&nothing, false);
}

// Writes a batch that has its mark.
Status Rows::write_marked(rocksdb::WriteBatch *batch, bool sync) {
  rocksdb::WriteOptions options;
  options.sync = sync;
  if (sync) count_work(WorkKind::kLogSyncs);
  rocksdb::TransactionDBWriteOptimizations plain;
  plain.skip_concurrency_control = true;
  const SharedLock gate(*commit_gate());
  return from_rocksdb(Raw::of(this, Side::kMain)->Write(options, plain, batch));
}

}  // namespace atoll::lsm
