// Lets this code base call its namespace `atoll`. The C library has a function of that name at global scope
// (stdlib.h), and C++ does not allow both.
//
// This header first includes both declarations of the function. Then a macro replaces the word `atoll` in the
// rest of the translation unit. Every header that opens `namespace atoll` includes this one, directly or
// through base/status.h. Afterwards std::atoll cannot be called; use std::from_chars.
#pragma once

#include <cstdlib>
#include <stdlib.h>

#define atoll atoll_engine
