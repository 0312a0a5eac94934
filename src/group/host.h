#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "tally/error.h"

namespace tally::group {

// The same text in all processes that can share memory and find each other's processes: same boot,
// same namespaces, same user, same `label`.
Result<std::string> host_identity(const std::string& label);

std::string host_name();

// The same text in all processes that read the same steady clock: those of one boot of one machine.
std::string machine_identity();

// Fills `bytes` with random numbers of the system.
Result<void> fill_randomly(std::span<std::byte> bytes);
// A random, unique name for a local socket.
Result<std::string> random_name();

// An address of a network interface of this host that is up.
struct InterfaceAddress {
  std::string interface;
  std::string address;  // numeric
  bool is_ipv6 = false;
  bool is_loopback = false;
  bool is_link_local = false;
};

// All such addresses, in the system's order.
Result<std::vector<InterfaceAddress>> interface_addresses();

// The address by which other hosts are likely to reach this one. `wanted` is an interface or an
// address. If it is empty, the result is the first address that is neither loopback nor link-local
// nor of a container bridge, IPv4 before IPv6, or loopback if there is no other. A text with a dot
// or a colon that is no interface's name is taken as an address. kInvalid for any other text.
Result<std::string> choose_address(const std::vector<InterfaceAddress>& addresses,
                                   const std::string& wanted);

}  // namespace tally::group
