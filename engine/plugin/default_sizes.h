// Defaults of system variables that depend on the machine.
#pragma once

#include "base/namespace.h"

namespace atoll::plugin {

// A quarter of the memory, 64 MiB to 1 GiB, because a server has other caches, too. Little memory is needed
// for other things first.
unsigned long long default_block_cache_size();

// A sixteenth of the memory, 64 MiB to 1 GiB. A transaction that uses more than half of this writes its
// changes to local disk and commits by ingestion; few transactions should need that.
unsigned long long default_transaction_memory();

// All cores, but at most 8: with more threads, one scan would slow down all other connections.
unsigned int default_scan_threads();

}  // namespace atoll::plugin
