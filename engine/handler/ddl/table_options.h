// COMPRESSION and the other options of CREATE TABLE ... ENGINE=ATOLL.
#pragma once

#include <string>

#include "base/status.h"
#include "lsm/family.h"

struct ha_table_option_struct;

namespace atoll::handler {

// What the options ask for. *given: false when no compression option was written.
// Errors: kInvalid (a level that the algorithm does not have).
Status compression_of(const ha_table_option_struct *options, lsm::Compression *out, bool *given);

}  // namespace atoll::handler
