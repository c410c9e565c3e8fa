// COMPRESSION and the other options of CREATE TABLE ... ENGINE=ATOLL.
#pragma once

#include <string>

#include "base/status.h"
#include "lsm/family.h"

struct ha_table_option_struct;

namespace atoll::handler {

// Returns in *out the compression that the options ask for. *given: false if they contain no compression
// option.
// Errors: kInvalid (a level that the algorithm does not have).
Status compression_of(const ha_table_option_struct *options, lsm::Compression *out, bool *given);

}  // namespace atoll::handler
