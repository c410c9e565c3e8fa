# Files of RocksDB that cannot share a translation unit with others, for its jumbo build.
# xxhash.cc defines the implementation of a header that others include as declarations only.
set_source_files_properties(util/xxhash.cc PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
