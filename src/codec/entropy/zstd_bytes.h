#pragma once
#include <cstddef>
#include <span>

#include "tally/error.h"

namespace tally::codec {

// A frame of the zstd library at its fastest ordinary level. Other versions of the library may make
// other bytes; every one reads them. As rans_encode() and rans_decode().
std::size_t zstd_encode(std::span<const std::byte> in, std::span<std::byte> out);
Result<void> zstd_decode(std::span<const std::byte> in, std::span<std::byte> out);

}  // namespace tally::codec
