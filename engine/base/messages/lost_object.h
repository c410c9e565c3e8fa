// Recognizes the error about an object that is missing in the bucket or shorter than it must be. The object
// layer has logged it, once for each object. Everything works again as soon as the object is put back.
#pragma once

#include <cstring>

#include "base/status.h"

namespace atoll {

// Whether the message of a kCorruption is about such an object. crates/objstore (files/handle.rs) writes
// these words.
inline bool is_lost_object(const char *message) {
  return std::strstr(message, "damaged; run `atollctl verify`") != nullptr;
}

inline bool is_lost_object(const Status &status) {
  return status.code() == Code::kCorruption && is_lost_object(status.message());
}

}  // namespace atoll
