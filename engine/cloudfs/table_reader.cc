#include "cloudfs/table_reader.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/interrupt.h"
#include "base/work.h"
#include "bridge/result.h"
#include "cloudfs/file_name.h"
#include "cloudfs/io_status.h"
#include "cloudfs/table_footer.h"

namespace atoll::cloudfs {

using rocksdb::FSReadRequest;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

namespace {

// A point read asks for one block, which is smaller than this. Larger reads belong to scans and compactions.
constexpr size_t kScanReadBytesMin = 64 * 1024;
// How far ahead of a scan the store fetches: four of RocksDB's largest reads (1 MiB in options.cc). With
// 100 ms per request to the bucket, this gives about 40 MB/s per scan; parallel scans multiply it.
constexpr uint64_t kAheadBytes = 4 * 1024 * 1024;

}  // namespace

TableReader::TableReader(atoll_file *file, uint64_t number, uint64_t file_bytes)
    : file_(file), number_(number), file_bytes_(file_bytes) {}

TableReader::~TableReader() { atoll_file_close(file_); }

IOStatus TableReader::Read(uint64_t offset, size_t length, const IOOptions &options, Slice *result,
                           char *scratch, IODebugContext * /*debug*/) const {
  count_work(WorkKind::kFileReads);
  if (length >= kScanReadBytesMin) read_ahead(offset, length);
  IOStatus status = read(offset, length, options.verify_and_reconstruct_read, result, scratch);
  if (!status.ok() || problem_of(offset, *result) == nullptr) return status;
  // Perhaps only the copy on this machine is damaged, so fetch the bytes from the bucket again, as for any
  // block with a wrong checksum.
  status = read(offset, length, /*refetch=*/true, result, scratch);
  const char *problem = status.ok() ? problem_of(offset, *result) : nullptr;
  if (problem == nullptr) return status;
  *result = Slice();
  return IOStatus::Corruption("the footer of table file " + table_file_name(number_) + " is damaged",
                              problem);
}

IOStatus TableReader::read(uint64_t offset, size_t length, bool refetch, Slice *result, char *scratch) const {
  uint64_t bytes = 0;
  // RocksDB reads the end of a table file when it opens the file. It then holds a mutex for which other
  // statements wait, and a KILL cannot end their wait. MakeWayScope ends this read when a statement was
  // killed. A scan's last read also reaches the end of the file; RocksDB holds no such mutex then, but the
  // read is treated in the same way.
  std::optional<MakeWayScope> opening;
  if (offset + length >= file_bytes_) opening.emplace();
  const atoll_result answer = atoll_file_read(file_, offset, length, scratch, &bytes, refetch ? 1 : 0);
  *result = Slice(scratch, bridge::ok(answer) ? bytes : 0);
  return bridge::ok(answer) ? IOStatus::OK() : to_io_status(answer);
}

const char *TableReader::problem_of(uint64_t offset, const Slice &bytes) const {
  if (offset + bytes.size() != file_bytes_ || bytes.size() < kTableFooterBytes) return nullptr;
  const char *const footer = bytes.data() + bytes.size() - kTableFooterBytes;
  return problem_of_footer({footer, kTableFooterBytes}, file_bytes_);
}

IOStatus TableReader::MultiRead(FSReadRequest *requests, size_t count, const IOOptions &options,
                                IODebugContext *debug) {
  if (options.verify_and_reconstruct_read) {
    for (size_t i = 0; i < count; ++i) {
      FSReadRequest &request = requests[i];
      request.status = Read(request.offset, request.len, options, &request.result, request.scratch, debug);
    }
    return IOStatus::OK();
  }
  count_work(WorkKind::kFileReads, count);
  std::vector<atoll_read> reads(count);
  for (size_t i = 0; i < count; ++i) {
    reads[i].offset = requests[i].offset;
    reads[i].length = requests[i].len;
    reads[i].buffer = requests[i].scratch;
  }
  atoll_file_read_many(file_, reads.data(), count);
  for (size_t i = 0; i < count; ++i) {
    const bool ok = bridge::ok(reads[i].result);
    requests[i].status = ok ? IOStatus::OK() : to_io_status(reads[i].result);
    requests[i].result = Slice(requests[i].scratch, ok ? reads[i].read : 0);
  }
  return IOStatus::OK();
}

void TableReader::read_ahead(uint64_t offset, size_t length) const {
  uint64_t from = 0;
  uint64_t until = 0;
  {
    MutexLock lock(streams_mutex_);
    // Several streams can end where this read starts. Then the stream with the most reads is the scan to
    // which this read belongs; the others were single reads.
    auto stream = streams_.end();
    for (auto each = streams_.begin(); each != streams_.end(); ++each) {
      if (each->run == 0 || each->next != offset) continue;
      if (stream == streams_.end() || stream->run < each->run) stream = each;
    }
    if (stream == streams_.end()) {
      stream = streams_.begin() + static_cast<ptrdiff_t>(victim_++ % kStreams);
      *stream = Stream{};
    }
    stream->next = offset + length;
    if (++stream->run < 2) return;
    from = std::max(stream->next, stream->fetched);
    until = std::min(stream->next + kAheadBytes, file_bytes_);
    // Too few bytes for a request of their own: a later read of this scan fetches them together with more.
    if (until < from + kAheadBytes / 2 && until < file_bytes_) return;
    if (until <= from) return;
    stream->fetched = until;
  }
  atoll_file_prefetch(file_, from, until - from);
}

IOStatus TableReader::Prefetch(uint64_t /*offset*/, size_t /*length*/, const IOOptions & /*options*/,
                               IODebugContext * /*debug*/) {
  return IOStatus::NotSupported("the store reads ahead by itself");
}

IOStatus TableReader::GetFileSize(uint64_t *result) noexcept {
  *result = file_bytes_;
  return IOStatus::OK();
}

}  // namespace atoll::cloudfs
