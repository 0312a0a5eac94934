#include "group/host.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>

#include "base/errors.h"
#include "net/socket.h"

namespace tally::group {
namespace {

std::string namespace_of(const char* kind) {
  struct stat info {};
  if (stat(fmt::format("/proc/self/ns/{}", kind).c_str(), &info) != 0) return "?";
  return std::to_string(info.st_ino);
}

// Bridges for containers: other hosts have networks with the same addresses.
bool is_for_containers(const std::string& interface) {
  for (const char* start : {"docker", "br-", "virbr", "veth", "cni", "lxc", "podman"})
    if (interface.rfind(start, 0) == 0) return true;
  return false;
}

const InterfaceAddress* best_of(const std::vector<InterfaceAddress>& addresses,
                                const std::string& interface) {
  for (const bool ipv6 : {false, true}) {
    const auto found =
        std::find_if(addresses.begin(), addresses.end(), [&](const InterfaceAddress& candidate) {
          if (candidate.is_ipv6 != ipv6 || candidate.is_link_local) return false;
          if (!interface.empty()) return candidate.interface == interface;
          return !candidate.is_loopback && !is_for_containers(candidate.interface);
        });
    if (found != addresses.end()) return &*found;
  }
  return nullptr;
}

InterfaceAddress described(const ifaddrs& entry) {
  InterfaceAddress result{.interface = entry.ifa_name,
                          .address = {},
                          .is_ipv6 = entry.ifa_addr->sa_family == AF_INET6,
                          .is_loopback = (entry.ifa_flags & IFF_LOOPBACK) != 0};
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (result.is_ipv6) {
    sockaddr_in6 address{};
    std::memcpy(&address, entry.ifa_addr, sizeof(address));
    result.is_link_local = IN6_IS_ADDR_LINKLOCAL(&address.sin6_addr);
    inet_ntop(AF_INET6, &address.sin6_addr, text.data(), text.size());
  } else {
    sockaddr_in address{};
    std::memcpy(&address, entry.ifa_addr, sizeof(address));
    result.is_link_local = (ntohl(address.sin_addr.s_addr) >> 16) == 0xA9FE;
    inet_ntop(AF_INET, &address.sin_addr, text.data(), text.size());
  }
  result.address = text.data();
  return result;
}

}  // namespace

Result<std::string> host_identity(const std::string& label) {
  const std::string boot = machine_identity();
  if (boot == "?") return make_error(ErrorCode::kSystem, "no boot id in /proc");
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

Result<void> fill_randomly(std::span<std::byte> bytes) {
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return make_error(ErrorCode::kSystem, "no random numbers from the system");
  return {};
}

Result<std::string> random_name() {
  std::array<std::uint64_t, 2> bits{};
  TALLY_TRY(fill_randomly(std::as_writable_bytes(std::span(bits))));
  return fmt::format("tally-{:016x}{:016x}", bits[0], bits[1]);
}

Result<std::vector<InterfaceAddress>> interface_addresses() {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return net::socket_error("addresses of this host", errno);
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(first, freeifaddrs);
  std::vector<InterfaceAddress> addresses;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family == AF_INET || family == AF_INET6) addresses.push_back(described(*entry));
  }
  return addresses;
}

Result<std::string> choose_address(const std::vector<InterfaceAddress>& addresses,
                                   const std::string& wanted) {
  if (const InterfaceAddress* const best = best_of(addresses, wanted)) return best->address;
  if (wanted.empty()) return std::string("127.0.0.1");
  // A host name has a dot, an address a dot or a colon.
  if (wanted.find_first_of(".:") != std::string::npos || wanted == "localhost") return wanted;
  std::string known;
  for (const InterfaceAddress& each : addresses)
    if (known.find(each.interface) == std::string::npos) known += " " + each.interface;
  return invalid("no network interface {} with an address; there are:{}", wanted, known);
}

}  // namespace tally::group
