#include "apps/train/own_address.h"

#include <netdb.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <memory>
#include <system_error>

#include <fmt/format.h>

#include "base/descriptor.h"

namespace tally::app {
namespace {

// Connecting a datagram socket only determines the route; its local address is the result.
std::string own_end(const addrinfo& far) {
  const Descriptor datagrams(::socket(far.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!datagrams.open() || ::connect(datagrams.descriptor(), far.ai_addr, far.ai_addrlen) != 0)
    return "";
  sockaddr_storage own{};
  socklen_t bytes = sizeof(own);
  std::array<char, NI_MAXHOST> text{};
  auto* const address = reinterpret_cast<sockaddr*>(&own);
  if (::getsockname(datagrams.descriptor(), address, &bytes) != 0 ||
      ::getnameinfo(address, bytes, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0)
    return "";
  return text.data();
}

}  // namespace

Result<std::string> address_towards(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  constexpr const char* kDiscard = "9";
  if (const int outcome = ::getaddrinfo(host.c_str(), kDiscard, &hints, &found); outcome != 0)
    return Error{.code = ErrorCode::kSystem,
                 .message = fmt::format("{}: {}", host, ::gai_strerror(outcome))};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(found, &::freeaddrinfo);
  for (const addrinfo* each = list.get(); each != nullptr; each = each->ai_next)
    if (std::string own = own_end(*each); !own.empty())
      return own.find(':') == std::string::npos ? own : "[" + own + "]";
  return Error{
      .code = ErrorCode::kSystem,
      .message = fmt::format("no way to {}: {}", host, std::generic_category().message(errno))};
}

}  // namespace tally::app
