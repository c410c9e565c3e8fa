// Encodes and decodes a TableDescription: table FMT-C6 of docs/internals/formats-catalog.md. Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "catalog/description/table_description.h"

namespace atoll::catalog {

// Requires: check() accepts the description.
std::string encode(const TableDescription &description);
// Errors: kCorruption: bytes that encode() does not write, or an impossible description.
Status decode(std::string_view fields, TableDescription *out);

}  // namespace atoll::catalog
