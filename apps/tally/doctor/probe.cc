#include "apps/tally/doctor/probe.h"

#include <array>
#include <chrono>
#include <cstdio>
#include <sstream>

#include <fmt/format.h>

#include "net/stream.h"
#include "wire/bytes.h"

namespace tally::app::doctor {
namespace {

constexpr auto kAnswerTime = std::chrono::seconds(2);
constexpr std::size_t kAnswerBytes = 8;

std::int64_t time_of_day_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// IPv4 if the host has it, else IPv6.
Result<net::Listener> bind_everywhere() {
  auto usual = net::Listener::bind({.host = "0.0.0.0", .port = 0});
  return usual.has_value() ? std::move(usual) : net::Listener::bind({.host = "::", .port = 0});
}

}  // namespace

Result<void> serve_probe(Deadline by) {
  TALLY_TRY(net::Listener listener, bind_everywhere());
  fmt::print("listening {}\n", listener.address().port);
  std::fflush(stdout);
  for (;;) {
    auto socket = listener.accept(by);
    if (!socket.has_value()) {
      if (socket.error().code == ErrorCode::kTimeout) return {};
      return socket.error();
    }
    const auto stream = net::plain_stream(*std::move(socket));
    wire::Writer answer;
    answer.u64(static_cast<std::uint64_t>(time_of_day_ns()));
    // A caller that went away is ignored.
    [[maybe_unused]] const auto told =
        net::write_all(*stream, answer.view(), Deadline::after(kAnswerTime));
  }
}

Result<ProbeAnswer> call_probe(const net::Address& address, Deadline by) {
  const std::int64_t before = time_of_day_ns();
  TALLY_TRY(net::Socket socket, net::connect(address, by));
  const auto stream = net::plain_stream(std::move(socket));
  std::array<std::byte, kAnswerBytes> bytes{};
  TALLY_TRY(net::read_all(*stream, bytes, by));
  const std::int64_t after = time_of_day_ns();
  wire::Reader reader(bytes);
  TALLY_TRY(const std::uint64_t theirs, reader.u64());
  const std::int64_t ours = before + (after - before) / 2;
  const auto ms = [](std::int64_t ns) { return static_cast<double>(ns) / 1e6; };
  return ProbeAnswer{.round_trip_ms = ms(after - before),
                     .clock_ahead_ms = ms(static_cast<std::int64_t>(theirs) - ours)};
}

std::string to_string(const ProbeAnswer& answer) {
  return fmt::format("{:.3f} {:.3f}", answer.round_trip_ms, answer.clock_ahead_ms);
}

Result<ProbeAnswer> parse_probe_answer(const std::string& text) {
  ProbeAnswer answer;
  std::istringstream words(text);
  if (words >> answer.round_trip_ms >> answer.clock_ahead_ms) return answer;
  return Error{.code = ErrorCode::kCorrupt, .message = "no answer of a probe: " + text};
}

}  // namespace tally::app::doctor
