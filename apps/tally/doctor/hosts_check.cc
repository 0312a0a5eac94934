#include "apps/tally/doctor/doctor.h"

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <thread>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/errors.h"
#include "base/file.h"
#include "net/stream.h"
#include "process/child_process.h"
#include "process/temp_dir.h"
#include "wire/bytes.h"

namespace tally::app::doctor {
namespace {

constexpr auto kAnswerTimeout = std::chrono::seconds(2);
constexpr std::size_t kAnswerBytes = 8;

std::int64_t time_of_day_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Listens on all IPv4 addresses of the host, or on all IPv6 addresses if it has no IPv4.
Result<net::Listener> bind_all_addresses() {
  auto ipv4 = net::Listener::bind({.host = "0.0.0.0", .port = 0});
  return ipv4.has_value() ? std::move(ipv4) : net::Listener::bind({.host = "::", .port = 0});
}

}  // namespace

Result<void> serve_probe(Deadline by) {
  TALLY_TRY(net::Listener listener, bind_all_addresses());
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
    // The write fails if the caller has closed the connection; the next caller is served anyway.
    [[maybe_unused]] const auto ignored =
        net::write_all(*stream, answer.view(), Deadline::after(kAnswerTimeout));
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
  // The listener read its clock at some time during the call. The middle of the call is wrong by at
  // most half of the call's duration, which includes the TCP handshake.
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
  return corrupt("no answer of a probe: " + text);
}

namespace {

constexpr auto kStartTimeout = std::chrono::seconds(10);
constexpr auto kCallTimeout = std::chrono::seconds(3);
constexpr auto kPollInterval = std::chrono::milliseconds(20);

std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

std::vector<std::string> command_on(const std::string& host, const HostsCheckOptions& options,
                                    const std::vector<std::string>& words) {
  std::vector<std::string> command = options.remote_shell;
  command.push_back(host);
  command.push_back(options.remote_tally);
  command.insert(command.end(), words.begin(), words.end());
  return command;
}

// Waits for the line that serve_probe() prints.
Result<std::uint16_t> port_of(process::ChildProcess& process, const std::string& log_file) {
  constexpr std::string_view kPrefix = "listening ";
  const SteadyClock clock;
  const Deadline by = clock.after(kStartTimeout);
  for (;;) {
    // Polled before the log is read, so that the log of a process that ended is complete.
    const bool ended = process.poll().has_value();
    const std::string text = file_contents(log_file).value_or("");
    if (const std::size_t begin = text.find(kPrefix); begin != std::string::npos)
      return static_cast<std::uint16_t>(std::atoi(text.c_str() + begin + kPrefix.size()));
    if (ended)
      return system_failure("the remote shell {}: {}", to_string(*process.poll()), last_line(text));
    if (by.passed(clock.now())) return system_failure("the remote shell gave no answer in 10 s");
    std::this_thread::sleep_for(kPollInterval);
  }
}

void add_path(const std::string& from, const Result<ProbeAnswer>& answer, PeerFacts& facts) {
  facts.paths.push_back({.from = from,
                         .trouble = answer.has_value() ? "" : last_line(answer.error().message),
                         .round_trip_ms = answer.has_value() ? answer->round_trip_ms : 0});
}

// Starts a listener on `host` and connects to it from here and from all other hosts, one after the
// other. The listener ends after `lifetime` even if this process is killed.
PeerFacts check_host(const std::string& host, const HostsCheckOptions& options,
                     const std::string& folder) {
  PeerFacts facts{.host = host};
  const auto lifetime = kStartTimeout + static_cast<int>(options.hosts.size()) * kCallTimeout;
  const std::string log_file = folder + "/listener";
  auto listener = process::ChildProcess::start(
      {.command = command_on(
           host, options,
           {"doctor-probe", "listen", std::to_string(lifetime / std::chrono::seconds(1))}),
       .log_file = log_file});
  const auto port = listener.has_value() ? port_of(**listener, log_file)
                                         : Result<std::uint16_t>(listener.error());
  // The listener of the next host appends to the same path.
  std::error_code ignored;
  std::filesystem::remove(log_file, ignored);
  if (!port.has_value()) {
    facts.trouble = port.error().message;
    return facts;
  }
  const auto answer = call_probe({.host = host, .port = *port}, Deadline::after(kCallTimeout));
  add_path("here", answer, facts);
  if (answer.has_value())
    facts.clock = {.ahead_ms = answer->clock_ahead_ms, .uncertainty_ms = answer->round_trip_ms / 2};
  for (const std::string& from : options.hosts) {
    if (from == host) continue;
    const auto output = process::output_of(
        command_on(from, options, {"doctor-probe", "call", host, std::to_string(*port)}),
        Deadline::after(kStartTimeout + kCallTimeout));
    add_path(from, output.has_value() ? parse_probe_answer(*output) : output.error(), facts);
  }
  return facts;
}

}  // namespace

std::vector<PeerFacts> check_hosts(const HostsCheckOptions& options) {
  const auto folder = process::TempDir::make();
  std::vector<PeerFacts> all;
  for (const std::string& host : options.hosts)
    all.push_back(folder.has_value() ? check_host(host, options, (*folder)->path())
                                     : PeerFacts{.host = host, .trouble = folder.error().message});
  return all;
}

}  // namespace tally::app::doctor
