// The server's collations as the codec wants them. One object per CHARSET_INFO, made on first use, never
// freed (the server never frees its collations either). Thread-safe.
#pragma once

#include "codec/key_codec.h"

struct charset_info_st;

namespace atoll::handler {

const codec::Collation *collation_for(const charset_info_st *charset);

}  // namespace atoll::handler
