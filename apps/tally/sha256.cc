#include <openssl/evp.h>

#include <array>

#include <fmt/format.h>

#include "apps/tally/data_fetch.h"
#include "base/check.h"

namespace tally::app {

std::string sha256_of(std::span<const std::byte> bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  // Fails only where OpenSSL was built without SHA-256.
  TALLY_CHECK(
      EVP_Digest(bytes.data(), bytes.size(), digest.data(), &length, EVP_sha256(), nullptr) == 1);
  return fmt::format("{:02x}", fmt::join(digest.data(), digest.data() + length, ""));
}

}  // namespace tally::app
