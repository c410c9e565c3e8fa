// Refuses to compile against headers whose classes have other sizes than the server's.
//
// The server and this plugin share these classes by layout, and nothing checks that at load but the version
// number. A wrong setting (DBUG_OFF missing, another my_config.h) would show as a field read at the wrong
// place. The sizes were taken from Debian's own builds of the versions below on x86-64.
//
// A new patch release of the server: print the sizes with the compiler's messages below (they show both
// numbers), compare `nm -DS /usr/sbin/mariadbd` for the vtables of handler, Field and Item with the last
// version, then add a block here and the version to MARIADB_TESTED in tools/setup/versions.env.
#include "handler/server.h"

namespace {

// The failing instance shows both numbers in the compiler's message.
template <size_t found, size_t expected>
constexpr bool same_size() {
  static_assert(found == expected,
                "a class of the server has another size than in Debian's build of this version");
  return found == expected;
}

#if MYSQL_VERSION_ID == 101118
#if defined(__x86_64__)
static_assert(same_size<sizeof(THD), 27312>());
static_assert(same_size<sizeof(handler), 1328>());
static_assert(same_size<sizeof(handlerton), 456>());
static_assert(same_size<sizeof(TABLE), 992>());
static_assert(same_size<sizeof(TABLE_SHARE), 1168>());
static_assert(same_size<sizeof(Field), 200>());
static_assert(same_size<sizeof(KEY), 192>());
static_assert(same_size<sizeof(HA_CREATE_INFO), 576>());
static_assert(same_size<sizeof(Alter_inplace_info), 168>());
#endif
#else
#error \
    "Atoll does not know this MariaDB version: add its class sizes to engine/plugin/abi_check.cc (see the comment there)"
#endif

}  // namespace
