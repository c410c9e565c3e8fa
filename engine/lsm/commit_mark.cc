// See commit_mark.h.
#include "lsm/commit_mark.h"

#include "base/bytes.h"
#include "base/clock.h"

namespace atoll::lsm {
namespace {

// The upper half of a mark's first byte is the version of the format. The lower half consists of flags:
// whether a GTID and a binary log position follow, and whether recovery made the commit.
constexpr uint8_t kVersion = 0x10;
constexpr uint8_t kHasGtid = 1, kHasBinlog = 2, kIsRecovered = 4;
constexpr size_t kTimeBytes = 7;  // enough until the year 4253

}  // namespace

std::string encode(const CommitMark &mark, uint64_t time_us) {
  std::string bytes(1 + kTimeBytes, '\0');
  bytes[0] = static_cast<char>(kVersion | (mark.gtid ? kHasGtid : 0) | (mark.binlog ? kHasBinlog : 0) |
                               (mark.is_recovered ? kIsRecovered : 0));
  store_le_bytes(reinterpret_cast<uint8_t *>(bytes.data()) + 1, time_us, kTimeBytes);
  if (mark.gtid) {
    append_varint(&bytes, mark.gtid->domain);
    append_varint(&bytes, mark.gtid->server);
    append_varint(&bytes, mark.gtid->sequence);
  }
  if (mark.binlog) {
    append_varint(&bytes, mark.binlog->file);
    append_varint(&bytes, mark.binlog->offset);
  }
  return bytes;
}

rocksdb::Status put_mark(rocksdb::WriteBatch *batch, const CommitMark &mark) {
  return batch->PutLogData(encode(mark, now_us()));
}

}  // namespace atoll::lsm
