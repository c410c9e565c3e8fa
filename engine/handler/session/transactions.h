// XIDs as the transactions below the handler know them.
#pragma once

#include <string>

namespace atoll::handler {

// As XA statements take it: 'gtrid','bqual',format; what is not readable in hexadecimal. An XID of the
// server's own two-phase commit has no such form and gives its bytes.
std::string xid_text(const std::string &bytes);

}  // namespace atoll::handler
