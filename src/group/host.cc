#include "group/host.h"

#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>

namespace tally::group {
namespace {

std::string namespace_of(const char* kind) {
  struct stat info {};
  if (stat(fmt::format("/proc/self/ns/{}", kind).c_str(), &info) != 0) return "?";
  return std::to_string(info.st_ino);
}

}  // namespace

Result<std::string> host_identity(const std::string& label) {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  if (!(file >> boot)) return Error{.code = ErrorCode::kSystem, .message = "no boot id in /proc"};
  return fmt::format("{}/{}/{}/{}/{}", boot, namespace_of("net"), namespace_of("pid"), geteuid(),
                     label);
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? std::string(name.data()) : "?";
}

std::string machine_identity() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  return file >> boot ? boot : "?";
}

Result<std::string> random_name() {
  std::array<std::uint64_t, 2> bits{};
  if (getrandom(bits.data(), sizeof(bits), 0) != static_cast<ssize_t>(sizeof(bits)))
    return Error{.code = ErrorCode::kSystem, .message = "no random numbers from the system"};
  return fmt::format("tally-{:016x}{:016x}", bits[0], bits[1]);
}

}  // namespace tally::group
