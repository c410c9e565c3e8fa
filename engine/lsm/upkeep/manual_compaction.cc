#include "lsm/upkeep/manual_compaction.h"

#include <chrono>

#include "base/border/border.h"
#include "base/interrupt.h"
#include "base/threads/start_threads.h"
#include "lsm/family.h"

namespace atoll::lsm {
namespace {

// How often a statement that waits for its compaction asks whether it was killed.
constexpr auto kInterruptInterval = std::chrono::milliseconds(100);

}  // namespace

Status ManualCompactions::run(Work work) {
  MutexLock lock(mutex_);
  forget_done();
  Job &job = jobs_.emplace_back();
  const size_t started = start_threads(&job.thread, 1, [this, &job, work = std::move(work)](size_t) {
    rocksdb::Status status = guarded([&] { return work(&job.cancelled); },
                                     [](const Status &) { return rocksdb::Status::MemoryLimit(); });
    const MutexLock guard(mutex_);
    job.status = std::move(status);
    job.done = true;
    changed_.notify_all();
  });
  if (started == 0) {
    jobs_.pop_back();
    return Status(Code::kNoMemory, "the server process got no thread for the compaction");
  }
  while (!changed_.wait_for(lock, kInterruptInterval, [&job] { return job.done; })) {
    if (!is_interrupted()) continue;
    job.cancelled = true;
    return Status(Code::kInterrupted, "the compaction was interrupted");
  }
  return from_rocksdb(job.status);
}

// Joins the threads of the jobs that are done and removes these jobs. The caller holds mutex_. The thread of
// such a job has set `done` and needs mutex_ no more, so join() ends at once.
void ManualCompactions::forget_done() {
  jobs_.remove_if([](Job &job) {
    if (job.done) job.thread.front().join();
    return job.done;
  });
}

void ManualCompactions::stop() {
  MutexLock lock(mutex_);
  for (Job &job : jobs_) job.cancelled = true;
  changed_.wait(lock, [this]() ATOLL_REQUIRES(mutex_) {
    forget_done();
    return jobs_.empty();
  });
}

}  // namespace atoll::lsm
