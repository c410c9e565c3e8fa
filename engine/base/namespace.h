// Lets this code base call its namespace `atoll` although the C library has a function of that name
// at global scope (stdlib.h), which C++ does not allow.
//
// Both declarations of the function are read first, then the word is redirected for the rest of the
// translation unit. Every header that opens `namespace atoll` includes this one, directly or through
// base/status.h. std::atoll cannot be called afterwards; use std::from_chars.
#pragma once

#include <cstdlib>
#include <stdlib.h>

#define atoll atoll_engine
