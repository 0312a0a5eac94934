#include "bench/server/raw.h"

#include <chrono>
#include <cstring>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "bench/server/cases.h"
#include "net/socket.h"
#include "process/child_process.h"

namespace tally::bench::servers {
namespace {

using namespace std::chrono_literals;

// Returns a port that was free a moment ago: iperf3 chooses none by itself.
Result<std::uint16_t> free_port() {
  TALLY_TRY(const net::Listener listener, net::Listener::bind({"127.0.0.1", 0}));
  return listener.address().port;
}

}  // namespace

Result<double> iperf3_rate(Duration time) {
  TALLY_TRY(const std::uint16_t port, free_port());
  const std::string number = std::to_string(port);
  TALLY_TRY(const auto server, process::ChildProcess::start({.command = {"iperf3", "-s", "-1", "-B",
                                                                         "127.0.0.1", "-p", number},
                                                             .log_file = "/dev/null"}));
  const Deadline by = Deadline::after(time + 10s);
  // The client retries until the server listens.
  Error last;
  while (!by.passed(SteadyClock().now())) {
    const auto output =
        process::output_of({"iperf3", "-c", "127.0.0.1", "-p", number, "-J", "-t",
                            fmt::format("{:.1f}", std::chrono::duration<double>(time).count())},
                           by);
    if (output.has_value()) {
      const auto read = nlohmann::json::parse(*output, nullptr, false);
      const auto pointer = nlohmann::json::json_pointer("/end/sum_received/bits_per_second");
      if (!read.is_discarded() && read.contains(pointer))
        return read.at(pointer).get<double>() / 8e9;
      last = {.code = ErrorCode::kSystem, .message = "iperf3 said something else than expected"};
    } else {
      last = output.error();
    }
  }
  return last;
}

double copy_rate(Duration time) {
  const std::vector<char> from(kDenseBytes, 1);
  std::vector<char> to(kDenseBytes, 2);
  const SteadyClock clock;
  std::memcpy(to.data(), from.data(), kDenseBytes);
  const TimePoint start = clock.now();
  int rounds = 0;
  do {
    std::memcpy(to.data(), from.data(), kDenseBytes);
    // Keeps the compiler from dropping unread writes.
    asm volatile("" : : "r"(to.data()) : "memory");
    ++rounds;
  } while (clock.now() - start < time);
  const double seconds = std::chrono::duration<double>(clock.now() - start).count();
  return rounds * static_cast<double>(kDenseBytes) / seconds / 1e9;
}

}  // namespace tally::bench::servers
