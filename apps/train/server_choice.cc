#include "apps/train/server_choice.h"

#include <charconv>

#include <fmt/format.h>

namespace tally::app {
namespace {

constexpr int kMostServers = 4096;

Error invalid_servers(std::string_view text) {
  return Error{.code = ErrorCode::kInvalid,
               .message = fmt::format("'{}': expected a number from 1 to {}, as in 2 or "
                                      "2,colocated, or the HOST:PORT of a directory",
                                      text, kMostServers)};
}

bool is_port(std::string_view text) {
  unsigned port = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), port);
  return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() && port > 0 &&
         port < 65536;
}

}  // namespace

Result<ServerChoice> parse_servers(std::string_view text) {
  using Kind = ServerChoice::Kind;
  if (text.empty()) return ServerChoice{};
  if (const std::size_t colon = text.rfind(':'); colon != std::string_view::npos) {
    if (colon == 0 || !is_port(text.substr(colon + 1))) return invalid_servers(text);
    return ServerChoice{.kind = Kind::kElsewhere, .address = std::string(text)};
  }
  const std::size_t comma = text.find(',');
  const std::string_view number = text.substr(0, comma);
  const bool colocated = comma != std::string_view::npos;
  if (colocated && text.substr(comma + 1) != "colocated") return invalid_servers(text);
  int count = 0;
  const auto parsed = std::from_chars(number.data(), number.data() + number.size(), count);
  if (parsed.ec != std::errc() || parsed.ptr != number.data() + number.size() || count < 1 ||
      count > kMostServers)
    return invalid_servers(text);
  return ServerChoice{.kind = colocated ? Kind::kColocated : Kind::kProcesses, .count = count};
}

}  // namespace tally::app
