#include "apps/tally/sha256.h"

#include <openssl/evp.h>

#include <array>

#include <fmt/format.h>

#include "base/check.h"

namespace tally::app {

std::string sha256_of(std::span<const std::byte> bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  // Fails only where OpenSSL was built without SHA-256.
  TALLY_CHECK(
      EVP_Digest(bytes.data(), bytes.size(), digest.data(), &length, EVP_sha256(), nullptr) == 1);
  std::string text;
  for (unsigned i = 0; i < length; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

}  // namespace tally::app
