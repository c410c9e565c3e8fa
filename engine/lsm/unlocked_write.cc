// Database::write_unlocked(). In a file of its own: tests that stand in for a Database need it without the
// bucket.
#include <rocksdb/write_batch.h>

#include "lsm/commit_mark.h"
#include "lsm/database.h"
#include "lsm/raw.h"

namespace atoll::lsm {

Status Database::write_unlocked(rocksdb::WriteBatch *batch, bool sync) {
  rocksdb::WriteOptions options;
  options.sync = sync;
  rocksdb::TransactionDBWriteOptimizations plain;
  plain.skip_concurrency_control = true;
  // A batch that cannot take the mark cannot be written either.
  (void)put_mark(batch, CommitMark());
  const SharedLock gate(*commit_gate());
  return from_rocksdb(Raw::of(this, Side::kMain)->Write(options, plain, batch));
}

}  // namespace atoll::lsm
