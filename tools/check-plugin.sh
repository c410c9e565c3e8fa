#!/bin/bash
# Checks a linked plugin before a server ever loads it.
#
#   tools/check-plugin.sh build/ha_atoll.so
#
# 1. It exports only the plugin declaration and the pointers to the server's services. The server sets these
#    pointers at load; if they were hidden, they would stay empty and their first use would crash. An exported
#    RocksDB or C++ name could collide with one of ha_rocksdb.so.
# 2. Every undefined symbol exists in the server or in a library that the plugin names. Otherwise the dynamic
#    linker would refuse the plugin at load, or end the server at the first call.
. "$(dirname "${BASH_SOURCE[0]}")/setup/common.sh"

plugin=$1
server=$(mariadbd_file "$SERIES_BUILD/mariadb")

names_of() { sed -E 's/@.*//' | sort -u; }

exported() { nm -D --defined-only "$plugin" | awk '{print $NF}' | names_of; }

undefined() { nm -D --undefined-only "$plugin" | awk '$1 == "U" {print $NF}' | names_of; }

offered() {
  nm -D --defined-only "$server" | awk '{print $NF}'
  ldd "$plugin" | awk '$3 ~ /^\// {print $3}' | while read -r library; do
    nm -D --defined-only "$library" | awk '{print $NF}'
  done
  nm -D --defined-only "$(ldd "$plugin" | awk '/ld-linux/ {print $1; exit}')" | awk '{print $NF}'
}

declaration='^_maria_(plugin_interface_version_|sizeof_struct_st_plugin_|plugin_declarations_)$'
unexpected=$(exported | grep -vE "$declaration" | grep -vE '^[a-z0-9_]+_service$' || true)
if [ -n "$unexpected" ]; then
  die "$plugin exports names it must hide" "$(head -n 10 <<<"$unexpected")" "see cmake/plugin.map"
fi
[ "$(exported | grep -cE "$declaration")" = 3 ] || die "$plugin lacks a plugin declaration (maria_declare_plugin)"

missing=$(comm -23 <(undefined) <(offered | names_of) || true)
if [ -n "$missing" ]; then
  die "neither $server nor a needed library has these symbols of $plugin" "$(head -n 20 <<<"$missing" | c++filt)"
fi
