// What the server says with handler::extra() while it fills a new table: by ALTER with ALGORITHM=COPY, or
// CREATE TABLE
// ... SELECT.
#pragma once

#include "handler/server.h"

namespace atoll::handler {

enum class CopyStep {
  kNone,         // another operation of extra()
  kBegin,        // rows follow
  kBeginIgnore,  // rows follow, of which those with a known unique key are left out; 11.8 does not say so
  kEnd,
  kAbort,
};

inline CopyStep copy_step(ha_extra_function operation) {
  switch (operation) {
#if MYSQL_VERSION_ID < 110000
    case HA_EXTRA_BEGIN_COPY:
      return CopyStep::kBegin;
    case HA_EXTRA_BEGIN_ALTER_IGNORE_COPY:
      return CopyStep::kBeginIgnore;
    case HA_EXTRA_END_COPY:
      return CopyStep::kEnd;
    case HA_EXTRA_ABORT_COPY:
      return CopyStep::kAbort;
#else
    case HA_EXTRA_BEGIN_ALTER_COPY:
      return CopyStep::kBegin;
    case HA_EXTRA_END_ALTER_COPY:
      return CopyStep::kEnd;
    case HA_EXTRA_ABORT_ALTER_COPY:
      return CopyStep::kAbort;
#endif
    default:
      return CopyStep::kNone;
  }
}

}  // namespace atoll::handler
