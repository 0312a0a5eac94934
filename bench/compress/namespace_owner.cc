#include "bench/compress/namespace_owner.h"

#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <sstream>

#include <fmt/format.h>

#include "base/file.h"

namespace tally::bench::compress {
namespace {

constexpr std::string_view kPrefix = "tally-bench-";
// Fields between the state of a process and its start time in /proc/PID/stat.
constexpr int kWordsBetween = 18;

// Takes a number and the following '-' from the front of `text`.
template <typename T>
bool take_number(std::string_view& text, T& number) {
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr == end || *parsed.ptr != '-') return false;
  text.remove_prefix(static_cast<std::size_t>(parsed.ptr - text.data()) + 1);
  return true;
}

}  // namespace

std::optional<std::uint64_t> began_ticks_of(pid_t pid) {
  // "PID (NAME) STATE ...", where the name may contain any character.
  const std::string stat = file_contents(fmt::format("/proc/{}/stat", pid)).value_or("");
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream words(stat.substr(name_end + 1));
  char state = 'Z';
  words >> state;
  if (state == 'Z' || state == 'X') return std::nullopt;
  std::string between;
  for (int i = 0; i < kWordsBetween; ++i) words >> between;
  std::uint64_t began = 0;
  return words >> began ? std::optional(began) : std::nullopt;
}

Result<NamespaceOwner> this_owner() {
  struct stat info {};
  const auto began = began_ticks_of(::getpid());
  if (::stat("/proc/self/ns/pid", &info) != 0 || !began)
    return Error{.code = ErrorCode::kSystem, .message = "/proc does not tell about this process"};
  return NamespaceOwner{.pid_namespace = info.st_ino, .pid = ::getpid(), .began_ticks = *began};
}

std::string namespace_name(const NamespaceOwner& owner, char host) {
  return fmt::format("{}{}-{}-{}-{}", kPrefix, owner.pid_namespace, owner.pid, owner.began_ticks,
                     host);
}

std::optional<NamespaceOwner> owner_of(std::string_view name) {
  if (name.substr(0, kPrefix.size()) != kPrefix) return std::nullopt;
  std::string_view rest = name.substr(kPrefix.size());
  NamespaceOwner owner;
  const bool whole = take_number(rest, owner.pid_namespace) && take_number(rest, owner.pid) &&
                     take_number(rest, owner.began_ticks) && rest.size() == 1;
  // The name is formatted again and compared: no signs, leading zeros or impossible numbers.
  if (!whole || owner.pid <= 0 || namespace_name(owner, rest.front()) != name) return std::nullopt;
  return rest == "a" || rest == "b" ? std::optional(owner) : std::nullopt;
}

bool is_gone(const NamespaceOwner& owner, std::uint64_t own_pid_namespace,
             std::optional<std::uint64_t> now_there) {
  return owner.pid_namespace == own_pid_namespace && now_there != owner.began_ticks;
}

}  // namespace tally::bench::compress
