// Fails to compile when the classes in the server's headers have other sizes than in Debian's build of the
// server.
//
// The server and this plugin share objects of these classes, so both must have the same layout of them. The
// server checks only the version number when it loads the plugin. With a wrong setting (DBUG_OFF missing,
// another my_config.h), the plugin would read fields at wrong offsets. The sizes were taken from Debian's own
// builds of 10.11.18 and 11.8.6 on x86-64. A later patch release of 10.11 is accepted when its classes have
// the same sizes. Of 11.8 only this release is accepted, because virtual functions have changed in later
// ones.
//
// When a class has another size, the compiler's messages show both numbers. Compare the headers of the two
// versions and `nm -DS build/mariadb/sbin/mariadbd` for the vtables of handler, Field and Item, then add a
// block here and the sizes of the vtables to tools/setup/mariadb.sh.
#include "handler/server.h"

namespace {

// A failing static_assert names this function with both numbers, so the compiler's message shows the size
// that was found and the size that was expected.
template <size_t found, size_t expected>
constexpr bool same_size() {
  static_assert(found == expected,
                "a class of the server has another size than in Debian's build of the server");
  return found == expected;
}

#if MYSQL_VERSION_ID >= 101118 && MYSQL_VERSION_ID < 101200
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
#elif MYSQL_VERSION_ID == 110806
#if defined(__x86_64__)
static_assert(same_size<sizeof(THD), 27552>());
static_assert(same_size<sizeof(handler), 1416>());
static_assert(same_size<sizeof(handlerton), 440>());
static_assert(same_size<sizeof(TABLE), 1008>());
static_assert(same_size<sizeof(TABLE_SHARE), 1304>());
static_assert(same_size<sizeof(Field), 200>());
static_assert(same_size<sizeof(KEY), 200>());
static_assert(same_size<sizeof(HA_CREATE_INFO), 576>());
static_assert(same_size<sizeof(Alter_inplace_info), 192>());
#endif
#else
#error \
    "Atoll does not know this MariaDB version: add its class sizes to engine/plugin/abi_check.cc (see the comment there)"
#endif

}  // namespace
