// Writes XIDs as text. The layers below the handler know an XID only as bytes.
#pragma once

#include <string>

namespace atoll::handler {

// Returns the XID in the form that XA statements take: 'gtrid','bqual',format. A part that has unprintable
// characters is in hexadecimal, as in an XID of the server's own two-phase commit; so are bytes that are no
// XID.
std::string xid_text(const std::string &bytes);

}  // namespace atoll::handler
