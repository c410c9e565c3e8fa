// What a Database does below locks and transactions. In a file of its own: tests that stand in for a Database
// need it without the bucket.
#include <rocksdb/utilities/transaction.h>

#include "lsm/raw.h"

namespace atoll::lsm {

rocksdb::Status Database::write(Side side, const rocksdb::WriteOptions &options, rocksdb::WriteBatch *batch) {
  return Raw::below(this, side)->Write(options, batch);
}

const rocksdb::Snapshot *Database::take_snapshot(Side side) { return Raw::below(this, side)->GetSnapshot(); }

void Database::release_snapshot(Side side, const rocksdb::Snapshot *snapshot) {
  Raw::below(this, side)->ReleaseSnapshot(snapshot);
}

uint64_t Database::newest_sequence() { return Raw::below(this, Side::kMain)->GetLatestSequenceNumber(); }

std::unique_ptr<rocksdb::Transaction> Database::begin_section() {
  rocksdb::TransactionOptions options;
  options.skip_concurrency_control = true;
  return std::unique_ptr<rocksdb::Transaction>(
      Raw::of(this, Side::kMain)->BeginTransaction(rocksdb::WriteOptions(), options));
}

std::vector<std::unique_ptr<rocksdb::Transaction>> Database::prepared_sections() {
  std::vector<rocksdb::Transaction *> found;
  Raw::of(this, Side::kMain)->GetAllPreparedTransactions(&found);
  return {found.begin(), found.end()};
}

rocksdb::ColumnFamilyHandle *Database::marker_handle() {
  return Raw::below(this, Side::kMain)->DefaultColumnFamily();
}

rocksdb::Status Database::get_marker(const rocksdb::Slice &key, std::string *value) {
  return Raw::below(this, Side::kMain)->Get(rocksdb::ReadOptions(), marker_handle(), key, value);
}

}  // namespace atoll::lsm
