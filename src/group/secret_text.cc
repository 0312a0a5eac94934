#include "group/secret_text.h"

#include <fmt/format.h>

#include "base/errors.h"
#include "base/option_text.h"
#include "group/host.h"

namespace tally::group {

Result<Secret> fresh_secret() {
  Secret secret;
  TALLY_TRY(fill_randomly(secret.bytes));
  return secret;
}

std::string to_hex(const Secret& secret) {
  std::string digits;
  for (const std::byte byte : secret.bytes) digits += fmt::format("{:02x}", byte);
  return digits;
}

Result<Secret> secret_from_hex(std::string_view digits) {
  Secret secret;
  if (digits.size() != 2 * secret.bytes.size()) return invalid("not 64 hexadecimal digits");
  for (std::size_t i = 0; i < secret.bytes.size(); ++i) {
    const auto value = parse_as<std::uint8_t>(digits.substr(2 * i, 2), 16);
    if (!value) return invalid("not 64 hexadecimal digits");
    secret.bytes[i] = std::byte{*value};
  }
  return secret;
}

}  // namespace tally::group
