#include "lsm/upkeep/compaction_log.h"

#include <rocksdb/compaction_job_stats.h>

#include <algorithm>

#include "base/border/border.h"
#include "base/clock.h"

namespace atoll::lsm {
namespace {

constexpr size_t kKeptMax = 200;  // with so many compactions in the list, a new one replaces the oldest

}  // namespace

std::vector<Compaction> CompactionLog::list() const {
  MutexLock lock(mutex_);
  return {compactions_.begin(), compactions_.end()};
}

std::pair<uint64_t, uint64_t> CompactionLog::ended() const {
  MutexLock lock(mutex_);
  return {done_, failed_};
}

// An exception (no memory) is ignored: the list then lacks this compaction, which does no harm.
void CompactionLog::OnCompactionBegin(rocksdb::DB * /*db*/, const rocksdb::CompactionJobInfo &job) noexcept {
  guarded_or_nothing([&] { begin(job); });
}

void CompactionLog::OnCompactionCompleted(rocksdb::DB * /*db*/,
                                          const rocksdb::CompactionJobInfo &job) noexcept {
  guarded_or_nothing([&] { end(job); });
}

void CompactionLog::begin(const rocksdb::CompactionJobInfo &job) {
  Compaction compaction;
  compaction.job = job.job_id;
  compaction.family_id = job.cf_id;
  compaction.reason = rocksdb::GetCompactionReasonString(job.compaction_reason);
  compaction.input_level = job.base_input_level;
  compaction.output_level = job.output_level;
  compaction.input_files = job.input_files.size();
  compaction.started_us = now_us();
  MutexLock lock(mutex_);
  compactions_.push_back(std::move(compaction));
  if (compactions_.size() > kKeptMax) compactions_.pop_front();
}

void CompactionLog::end(const rocksdb::CompactionJobInfo &job) {
  MutexLock lock(mutex_);
  ++(job.status.ok() ? done_ : failed_);
  const auto found = std::find_if(compactions_.rbegin(), compactions_.rend(),
                                  [&](const Compaction &each) { return each.job == job.job_id; });
  if (found == compactions_.rend()) return;
  found->state = job.status.ok() ? Compaction::State::kDone : Compaction::State::kFailed;
  found->input_bytes = job.stats.total_input_bytes;
  found->output_bytes = job.stats.total_output_bytes;
  found->output_files = job.output_files.size();
  found->took_us = job.stats.elapsed_micros;
}

}  // namespace atoll::lsm
