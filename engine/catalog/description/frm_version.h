// Tells which server has written a .frm image.
#pragma once

#include <cstdint>
#include <string_view>

namespace atoll::catalog {

// Returns the version of the server that has written the .frm image, for example 101118 for 10.11.18; 0:
// `frm` is no whole .frm image. The header of a .frm has it in the bytes 51 to 54, little-endian. Source:
// MariaDB 10.11.18, sql/table.cc (prepare_frm_header, init_from_binary_frm_image).
constexpr uint32_t server_version_in(std::string_view frm) {
  constexpr size_t kOffset = 51, kHeaderBytes = 64;
  if (frm.size() < kHeaderBytes) return 0;
  uint32_t version = 0;
  for (size_t i = 0; i < sizeof(version); i++)
    version |= static_cast<uint32_t>(static_cast<uint8_t>(frm[kOffset + i])) << (8 * i);
  return version;
}

}  // namespace atoll::catalog
