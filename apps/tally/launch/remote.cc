#include "apps/tally/launch/remote.h"

#include <sys/socket.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <sstream>

#include "base/errors.h"
#include "group/host.h"
#include "net/socket.h"

namespace tally::launch {
namespace {

// Never prompts, because no user could answer; gives up a connection after 15 s of silence.
constexpr const char* kSsh =
    "ssh -T -x -o BatchMode=yes -o ConnectTimeout=15 -o ServerAliveInterval=5 "
    "-o ServerAliveCountMax=3";

bool starts_directly(const LaunchOptions& options, const std::string& host,
                     const std::string& own_name) {
  return options.remote_shell.empty() && means_this_machine(host, own_name);
}

// Returns the first host that is not started directly.
std::optional<std::string> first_elsewhere(const LaunchOptions& options,
                                           const std::string& own_name) {
  for (const HostRanks& place : options.places)
    if (!starts_directly(options, place.host, own_name)) return place.host;
  return std::nullopt;
}

}  // namespace

Result<std::string> own_address_towards(const std::string& host) {
  TALLY_TRY(const auto endpoints, net::resolve({.host = host, .port = 9}));
  for (const net::Endpoint& endpoint : endpoints) {
    const net::Socket socket(::socket(endpoint.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (::connect(socket.descriptor(), static_cast<const sockaddr*>(endpoint.data()),
                  static_cast<socklen_t>(endpoint.size())) != 0)
      continue;
    TALLY_TRY(const net::Address address, net::local_address(socket));
    return address.host;
  }
  return system_failure("no way to {}", host);
}

bool means_this_machine(const std::string& host, const std::string& own_name) {
  return host == "localhost" || host == "127.0.0.1" || host == "::1" || host == own_name;
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), {}};
}

std::string quoted(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("/._-+,:@%=").find(c) != std::string_view::npos;
  });
  if (plain) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::vector<std::string> agent_command(const LaunchOptions& options, const std::string& host,
                                       const std::string& own_name,
                                       const std::string& own_program) {
  if (starts_directly(options, host, own_name)) return {};
  const std::string& program = options.remote_tally.empty() ? own_program : options.remote_tally;
  const bool by_ssh = options.remote_shell.empty();
  std::vector<std::string> command = by_ssh ? words_of(kSsh) : options.remote_shell;
  command.push_back(host);
  // ssh passes all words to a remote shell; other programs get the words themselves.
  command.push_back(by_ssh ? quoted(program) : program);
  command.emplace_back("host-agent");
  return command;
}

Variables variables_to_pass_on(const std::vector<std::string>& environment) {
  Variables passed;
  for (const std::string& entry : environment) {
    const std::size_t equals = entry.find('=');
    if (equals == std::string::npos) continue;
    const std::string name = entry.substr(0, equals);
    const bool wanted = name == "PATH" || name == "LD_LIBRARY_PATH" ||
                        name.rfind("TALLY_", 0) == 0 || name.rfind("OMP_", 0) == 0;
    if (wanted) passed.emplace_back(name, entry.substr(equals + 1));
  }
  return passed;
}

Result<std::string> master_address(const LaunchOptions& options, const std::string& own_name) {
  if (!options.master_address.empty()) return options.master_address;
  const std::string& first = options.places.front().host;
  const auto other = first_elsewhere(options, own_name);
  if (!other) return std::string("127.0.0.1");
  if (!starts_directly(options, first, own_name)) return address_of(first);
  // The host name of this machine may resolve to the loopback interface, which other hosts cannot
  // reach.
  return own_address_towards(address_of(*other));
}

Result<std::string> own_address(const LaunchOptions& options, const std::string& own_name) {
  if (!options.own_address.empty()) return options.own_address;
  std::string found = "127.0.0.1";
  for (const HostRanks& place : options.places) {
    if (starts_directly(options, place.host, own_name)) continue;
    const auto towards = own_address_towards(address_of(place.host));
    // The name may be known to the remote shell only.
    if (!towards.has_value()) {
      TALLY_TRY(const auto addresses, group::interface_addresses());
      return group::choose_address(addresses, "");
    }
    found = *towards;
    // A host that is this machine under another name has a loopback route, which other hosts cannot
    // use.
    if (found.rfind("127.", 0) != 0 && found != "::1") return found;
  }
  return found;
}

}  // namespace tally::launch
