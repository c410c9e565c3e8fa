// Keeps the C library's heap small. The server and this engine share that heap.
#pragma once

#include "lsm/upkeep/upkeep.h"

namespace atoll::plugin {

// Makes the C library give freed memory back to the system. The library's heap belongs to the whole server,
// so this is called only when the administrator asks for it (atoll_bound_heap). Call once, at start.
//
// The library gives threads heaps of their own, of 64 MiB each. It has two limits: the size from which a
// buffer is mapped by itself, and the size from which the free end of a heap is given back. By default both
// grow with the largest buffer that was ever freed, up to 32 and 64 MiB. Then a heap keeps everything that
// its thread has freed, while the threads of later statements use other heaps. This function fixes the
// limits, at lower values where the process may use less than 1 GiB. It also allows only as many heaps as
// cores, at least two, instead of eight for each core, so that threads use what other threads have freed.
// Measured: the load of 6 TPC-C warehouses with caches of 128 MiB, on two cores, two runs each. Before: at
// most 416 and 373 MiB, 32.7 and 32.6 CPU seconds; with two heaps: 327 and 350 MiB, 30.2 and 31.3 CPU
// seconds. The function does nothing when the administrator has set one of these limits by
// MALLOC_TRIM_THRESHOLD_, MALLOC_MMAP_THRESHOLD_, MALLOC_ARENA_MAX or GLIBC_TUNABLES. It has no effect when
// another library provides the heap.
void bound_heap();

// Gives free memory in the middle of heaps back to the system, if unused memory (resident, but in no buffer)
// has grown by an eighth of the resident memory, and by at least 32 MiB, since the last time. Unused memory
// grows, for example, when a scan's threads put blocks into the block cache, and this evicts blocks that lie
// in the heaps of other threads. Counting the bytes in buffers costs 50 ms for 200,000 free chunks. So the
// bytes are counted only every 2 seconds, and also when the process has grown by that much, and on each call
// while more than three quarters of memory_limit_bytes() are resident: then a growth of 8 MiB is enough,
// because unused memory could make the kernel end the process. Does nothing where /proc cannot be read.
// Returns the resident bytes that are left; 0: unknown. Call every kHeapLookMs. Threads: one.
uint64_t return_free_memory();
inline constexpr int kHeapLookMs = 250;

// Lowers the limit of the block cache while the process is near memory_limit_bytes() (cache_within_limit()),
// and raises it again up to `wanted_bytes`. So a cache that was set too large for its container costs reads,
// but the kernel does not end the server. Buffers of loads and compactions, and memory that the heap cannot
// give back, come on top of the cache: the kernel ended a load of LinkBench with a cache of 256 MiB in a
// container of 512 MiB. `resident`: what return_free_memory() returned. Logs a warning when the cache is
// first held below `wanted_bytes`. Call every kHeapLookMs. Threads: one.
void bound_block_cache(lsm::Upkeep *upkeep, uint64_t wanted_bytes, uint64_t resident);

}  // namespace atoll::plugin
