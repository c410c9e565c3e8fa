// For tests: an operator new that fails when the test asks for it. Exactly one file of a test program
// includes this header, because it defines the operators.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace atoll::failing_new {

// Which allocation of the calling thread fails. n > 0: the n-th from now on; 0: none; below 0: each.
inline thread_local int64_t request = 0;

inline void *allocate(size_t bytes) {
  const bool fails = request < 0 || (request > 0 && --request == 0);
  void *place = fails ? nullptr : std::malloc(bytes);
  if (place == nullptr) throw std::bad_alloc();
  return place;
}

}  // namespace atoll::failing_new

void *operator new(size_t bytes) { return atoll::failing_new::allocate(bytes); }
void *operator new[](size_t bytes) { return atoll::failing_new::allocate(bytes); }
void operator delete(void *place) noexcept { std::free(place); }
void operator delete[](void *place) noexcept { std::free(place); }
void operator delete(void *place, size_t) noexcept { std::free(place); }
void operator delete[](void *place, size_t) noexcept { std::free(place); }
