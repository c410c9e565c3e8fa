// The server's collations in the form that the codec needs. There is one object per CHARSET_INFO, made on
// first use and never freed (the server does not free its collations either). Thread-safe.
#pragma once

#include "codec/key_codec.h"

struct charset_info_st;

namespace atoll::handler {

const codec::Collation *collation_for(const charset_info_st *charset);

}  // namespace atoll::handler
