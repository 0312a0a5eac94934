#include "group/secret_text.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <charconv>

#include "base/errors.h"

namespace tally::group {

Result<Secret> fresh_secret() {
  Secret secret;
  if (getrandom(secret.bytes.data(), secret.bytes.size(), 0) !=
      static_cast<ssize_t>(secret.bytes.size()))
    return make_error(ErrorCode::kSystem, "no random numbers from the system");
  return secret;
}

std::string to_hex(const Secret& secret) {
  std::string digits;
  for (const std::byte byte : secret.bytes) digits += fmt::format("{:02x}", byte);
  return digits;
}

Result<Secret> secret_from_hex(std::string_view digits) {
  Secret secret;
  const Error wrong{.code = ErrorCode::kInvalid, .message = "not 64 hexadecimal digits"};
  if (digits.size() != 2 * secret.bytes.size()) return wrong;
  for (std::size_t i = 0; i < secret.bytes.size(); ++i) {
    unsigned value = 0;
    const char* const start = digits.data() + 2 * i;
    const auto [stop, problem] = std::from_chars(start, start + 2, value, 16);
    if (problem != std::errc() || stop != start + 2) return wrong;
    secret.bytes[i] = static_cast<std::byte>(value);
  }
  return secret;
}

}  // namespace tally::group
