// Writes files that the server reads, whole or not at all: the server must never see half a file.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/status.h"

namespace atoll::plugin {

// Returns the error for `error`, a value of errno: kNoSpace, kReadOnly or kInvalid. `what`: the path.
Status from_errno(int error, const std::string &what);

// Creates the file, or replaces its content, durably. Errors: as from_errno(); the former content is left.
Status write_whole_file(const std::string &path, const std::string &content, mode_t mode);

}  // namespace atoll::plugin
