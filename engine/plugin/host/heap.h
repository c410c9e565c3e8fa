// The C library's heap, which the server and this engine share.
#pragma once

#include "lsm/database.h"

namespace atoll::plugin {

// Makes the C library give memory that was freed back to the system. It is the whole server's, so only where
// the administrator asks (atoll_bound_heap). Call once, at start.
//
// It gives threads heaps of their own, of 64 MiB each. By default the limits from which a buffer is mapped by
// itself, and from which the free end of a heap is given back, grow with the largest buffer that was ever
// freed, up to 32 and 64 MiB: then a heap keeps all that its thread has freed, and the threads of later
// statements use other heaps. Here the limits are fixed, lower ones
// where the process may use less than 1 GiB, and there are as many heaps as cores, at least
// two, not eight for each core: what one thread has freed, others then use. The load of 6 TPC-C warehouses
// with caches of 128 MiB, on two cores, twice each: at most 416 and 373 MiB before, 327 and 350 with two
// heaps, CPU seconds 32.7 and 32.6, 30.2 and 31.3. Does nothing where the administrator has set one of these
// limits by MALLOC_TRIM_THRESHOLD_, MALLOC_MMAP_THRESHOLD_, MALLOC_ARENA_MAX or GLIBC_TUNABLES, and where the
// heap is another library's.
void bound_heap();

// Gives back what is free in the middle of heaps, if a good part more of the process is resident and in no
// buffer than the last time: the blocks that a scan's threads take into the block cache push out blocks that
// lie in the heaps of others. Counting that costs 50 ms for 200,000 free chunks; it is done every 2 seconds,
// when the process has grown, and each time while more than three quarters of memory_limit_bytes() are
// resident: there the kernel would end the process for what is in no buffer. Does nothing where /proc cannot
// be read. Returns the resident bytes that are left, 0: unknown. Call every kHeapLookMs. Threads: one.
uint64_t return_free_memory();
inline constexpr int kHeapLookMs = 250;

// Lowers the limit of the block cache while the process is near memory_limit_bytes() (cache_within_limit()),
// and raises it again up to `wanted_bytes`: a cache that was set too large for its container costs reads
// then, not the server. Buffers of loads and compactions, and what the heap cannot give back, come on top of
// the cache: LinkBench's load with a cache of 256 MiB was ended by the kernel at 512 MiB. Logs when it
// begins. Call every kHeapLookMs. Threads: one.
void bound_block_cache(lsm::Database *database, uint64_t wanted_bytes, uint64_t resident);

}  // namespace atoll::plugin
