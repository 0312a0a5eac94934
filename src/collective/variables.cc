#include "collective/variables.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/descriptor.h"
#include "base/errors.h"
#include "base/option_text.h"
#include "group/secret_text.h"

namespace tally::collective {

Result<int> number(const Variables& variable, const char* name, int lowest, int highest,
                   int fallback) {
  const char* const text = variable(name);
  if (text == nullptr) return fallback;
  const auto value = parse_as<int>(text);
  if (!value || *value < lowest || *value > highest)
    return invalid("{}={} is not a number from {} to {}", name, text, lowest, highest);
  return *value;
}

std::string text_of(const Variables& variable, const char* name) {
  const char* const text = variable(name);
  return text == nullptr ? "" : text;
}

bool is_private(mode_t mode, uid_t owner, uid_t me) {
  const bool lent_by_root = owner == 0 && me != 0;
  return (mode & (lent_by_root ? 037 : 077)) == 0;
}

Result<Secret> read_secret(const char* path) {
  const Descriptor file(open(path, O_RDONLY | O_CLOEXEC));
  struct stat info {};
  if (!file.open() || fstat(file.descriptor(), &info) != 0)
    return invalid("TALLY_SECRET_FILE={}: {}", path, std::strerror(errno));
  if (!is_private(info.st_mode, info.st_uid, geteuid()))
    return invalid("TALLY_SECRET_FILE={} can be read by others: chmod 600 it", path);
  std::array<char, 128> text{};
  const ssize_t bytes = read(file.descriptor(), text.data(), text.size());
  Secret secret;
  if (bytes == static_cast<ssize_t>(secret.bytes.size())) {
    std::memcpy(secret.bytes.data(), text.data(), secret.bytes.size());
    return secret;
  }
  const bool hex = bytes == 64 || (bytes == 65 && text[64] == '\n');
  const auto decoded = group::secret_from_hex({text.data(), 64});
  if (hex && decoded.has_value()) return decoded;
  return invalid("TALLY_SECRET_FILE={} holds neither 32 bytes nor 64 hexadecimal digits", path);
}

}  // namespace tally::collective
