# Compile flags of all C++ code.
#
# NDEBUG and DBUG_OFF must match Debian's server: without DBUG_OFF sizeof(THD) differs and nothing complains until a
# field is read at the wrong place. Checks that protect data use ATOLL_ASSERT, which NDEBUG does not remove.
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

# -g1: line numbers in back traces at a fraction of the size of full debug information.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1 -DNDEBUG -D_FORTIFY_SOURCE=2")

add_compile_options(
  -Wall -Wextra -Wno-unused-parameter -Wnon-virtual-dtor -Woverloaded-virtual -Wvla -Werror=switch -Werror=return-type
  -fno-omit-frame-pointer -fstack-protector-strong -fno-gnu-unique -fno-semantic-interposition)
# The C library has a function called atoll, our namespace's name. With optimisation any standard header may declare it,
# so the header that settles the matter comes first everywhere.
add_compile_options("SHELL:-include ${CMAKE_CURRENT_SOURCE_DIR}/engine/base/namespace.h")
add_compile_definitions(_FILE_OFFSET_BITS=64 DBUG_OFF)

if(ATOLL_SANITIZE)
  add_compile_definitions(ATOLL_PARANOID)  # engine/base/border/assert.h
endif()
if(ATOLL_SANITIZE STREQUAL "address")
  set(CMAKE_CXX_FLAGS_RELEASE "-O1 -g -DNDEBUG")
  # vptr and function checks need type information of the server, which is not instrumented.
  add_compile_options(-fsanitize=address,undefined -fno-sanitize=vptr -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=address,undefined)
elseif(ATOLL_SANITIZE STREQUAL "thread")
  set(CMAKE_CXX_FLAGS_RELEASE "-O1 -g -DNDEBUG")
  add_compile_options(-fsanitize=thread -Wno-tsan)
  add_link_options(-fsanitize=thread)
elseif(ATOLL_SANITIZE)
  message(FATAL_ERROR "ATOLL_SANITIZE is ${ATOLL_SANITIZE}: it may be address, thread or OFF.")
endif()
