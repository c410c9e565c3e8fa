# What the engine is linked with, as targets:
#   atoll::rocksdb   static, hidden symbols        atoll::objstore  the Rust object layer, static
#   atoll::server    MariaDB's private headers     GTest::gmock, GTest::gtest_main (when found)
#
# RocksDB and the Rust part are static so that the plugin is one file; zstd, lz4 and zlib are shared because the
# server (or Debian's base) has them loaded anyway and gets security fixes for them.
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(GTest QUIET)
find_library(ATOLL_ZSTD zstd REQUIRED)
find_library(ATOLL_LZ4 lz4 REQUIRED)

add_library(atoll::rocksdb STATIC IMPORTED GLOBAL)
set_target_properties(atoll::rocksdb PROPERTIES
  IMPORTED_LOCATION "${ATOLL_ROCKSDB_DIR}/librocksdb.a"
  INTERFACE_INCLUDE_DIRECTORIES "${ATOLL_ROCKSDB_DIR}/include"
  INTERFACE_LINK_LIBRARIES "${ATOLL_ZSTD};${ATOLL_LZ4};ZLIB::ZLIB;Threads::Threads;${CMAKE_DL_LIBS}")

add_library(atoll::objstore STATIC IMPORTED GLOBAL)
set_target_properties(atoll::objstore PROPERTIES
  IMPORTED_LOCATION "${ATOLL_OBJSTORE_LIB}"
  INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS};m")

add_library(atoll::server INTERFACE IMPORTED GLOBAL)
target_include_directories(atoll::server SYSTEM INTERFACE
  "${ATOLL_MARIADB_DIR}/wsrep-lib/include"
  "${ATOLL_MARIADB_DIR}/wsrep-lib/wsrep-API/v26"
  "${ATOLL_MARIADB_DIR}/generated"
  "${ATOLL_MARIADB_DIR}/include/providers"
  "${ATOLL_MARIADB_DIR}/include"
  "${ATOLL_MARIADB_DIR}/sql")
target_compile_definitions(atoll::server INTERFACE HAVE_CONFIG_H MYSQL_DYNAMIC_PLUGIN MYSQL_SERVER=1)

# Not that of an installed MariaDB, which may be another version.
find_library(ATOLL_SERVICES_LIB mysqlservices PATHS "${ATOLL_SERVICES_DIR}" NO_DEFAULT_PATH REQUIRED)
