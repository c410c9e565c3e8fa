# atoll_folder(NAME [SERVER] USES target...)
#
# Makes the library atoll_NAME of all .cc below engine/NAME but *_test.cc, and the test program atoll_NAME_test of the
# latter. USES is the dependency rule of the code base: a folder sees RocksDB's or the server's headers only when it
# is said here.
#
# SERVER marks handler/ and plugin/: object files, because the server's loader finds their declarations by name. Symbols of all other folders are hidden; there they are not, because type information of
# the server's classes must stay a reference to the server, and the version script of the plugin does the hiding.
set(ATOLL_TEST_PROGRAMS "" CACHE INTERNAL "test programs, for `make unit`")

function(atoll_folder name)
  cmake_parse_arguments(ARG "SERVER" "" "USES" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cc")
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "(_test|/main)\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")

  if(ARG_SERVER AND NOT sources)
    return()
  elseif(sources)
    set(kind STATIC)
    if(ARG_SERVER)
      set(kind OBJECT)
    endif()
    add_library(atoll_${name} ${kind} ${sources})
    set(scope PUBLIC)
  else()
    add_library(atoll_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(atoll_${name} ${scope} "${CMAKE_CURRENT_SOURCE_DIR}")
  target_link_libraries(atoll_${name} ${scope} ${ARG_USES})
  if(sources AND NOT ARG_SERVER)
    set_target_properties(atoll_${name} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  endif()

  if(tests AND TARGET GTest::gmock)
    add_executable(atoll_${name}_test EXCLUDE_FROM_ALL ${tests})
    if(ARG_SERVER)
      # A program without a server cannot have the whole folder: x_test.cc gets x.cc, which must do without MariaDB.
      foreach(test ${tests})
        string(REPLACE "_test.cc" ".cc" tested "${test}")
        if(EXISTS "${tested}")
          target_sources(atoll_${name}_test PRIVATE "${tested}")
        endif()
      endforeach()
      list(REMOVE_ITEM ARG_USES atoll::server)
      target_include_directories(atoll_${name}_test PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
      target_link_libraries(atoll_${name}_test PRIVATE ${ARG_USES} GTest::gmock GTest::gtest_main)
    else()
      target_link_libraries(atoll_${name}_test PRIVATE atoll_${name} GTest::gmock GTest::gtest_main)
    endif()
    set(ATOLL_TEST_PROGRAMS ${ATOLL_TEST_PROGRAMS} atoll_${name}_test CACHE INTERNAL "")
  endif()
endfunction()
