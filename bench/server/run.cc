#include "bench/server/run.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <vector>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/errors.h"
#include "base/file.h"
#include "bench/common/words.h"
#include "bench/server/worker.h"
#include "group/secret_text.h"
#include "net/socket.h"
#include "process/child_process.h"
#include "process/interrupt.h"
#include "process/server_processes.h"
#include "process/temp_dir.h"

namespace tally::bench::servers {
namespace {

using namespace std::chrono_literals;

constexpr Duration kRawTime = 1s;
constexpr Duration kRunLimit = 120s;

// Returns the speed of iperf3 over one loopback connection in GB/s; kSystem if iperf3 is not
// installed.
Result<double> iperf3_rate() {
  std::uint16_t port = 0;
  {  // A port that was free a moment ago: iperf3 chooses none by itself.
    TALLY_TRY(const net::Listener listener, net::Listener::bind({"127.0.0.1", 0}));
    port = listener.address().port;
  }
  TALLY_TRY(const auto server,
            process::ChildProcess::start({.command = words("iperf3 -s -1 -B 127.0.0.1 -p {}", port),
                                          .log_file = "/dev/null"}));
  const Deadline by = Deadline::after(kRawTime + 10s);
  // The client retries until the server listens.
  Error last;
  while (!by.passed(SteadyClock().now())) {
    const auto output = process::output_of(words("iperf3 -c 127.0.0.1 -p {} -J -t 1.0", port), by);
    const auto read = Json::parse(output ? *output : "", nullptr, false);
    const auto pointer = Json::json_pointer("/end/sum_received/bits_per_second");
    if (!read.is_discarded() && read.contains(pointer)) return read.at(pointer).get<double>() / 8e9;
    last = output ? system_failure("iperf3 said something else than expected") : output.error();
  }
  return last;
}

// Returns the speed of memcpy of 64 MiB by one thread in GB/s.
double copy_rate() {
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
  } while (clock.now() - start < kRawTime);
  const double seconds = std::chrono::duration<double>(clock.now() - start).count();
  return rounds * static_cast<double>(kDenseBytes) / seconds / 1e9;
}

struct Processes {
  std::unique_ptr<process::TempDir> folder;
  std::unique_ptr<process::ServerProcesses> servers;
  std::vector<std::unique_ptr<process::ChildProcess>> workers;

  std::string log(std::size_t rank) const {
    return fmt::format("{}/worker{}", folder->path(), rank);
  }
};

Result<Processes> start(const Setting& setting) {
  Processes processes;
  TALLY_TRY(processes.folder, process::TempDir::make());
  process::ServerProcessesOptions options{.servers = setting.servers, .replicas = 1};
  process::Variables variables;
  if (setting.transport == "tls") {
    TALLY_TRY(options.secret, group::fresh_secret());
    const std::string path = processes.folder->path() + "/secret";
    std::ofstream(path) << group::to_hex(*options.secret);
    std::filesystem::permissions(path, std::filesystem::perms::owner_read);
    variables.emplace_back("TALLY_SECRET_FILE", path);
  }
  TALLY_TRY(processes.servers, process::ServerProcesses::start(options, {}));
  for (int rank = 0; rank < setting.workers; ++rank) {
    TALLY_TRY(processes.workers.emplace_back(),
              process::ChildProcess::start(
                  {.command = words("{} bench-server-worker --directory {} --rank {} --workers {} "
                                    "--transport {} --only {} --slice {}",
                                    process::own_program(), processes.servers->directory(), rank,
                                    setting.workers, setting.transport, setting.only,
                                    setting.slice.count()),
                   .variables = variables,
                   .log_file = processes.log(static_cast<std::size_t>(rank))}));
  }
  return processes;
}

// Parses "figure dense push=3.25".
void collect(const std::string& text, std::map<std::string, double>& sums) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    constexpr std::string_view kStart = "figure ";
    const std::size_t equals = line.find('=');
    if (line.rfind(kStart, 0) != 0 || equals == std::string::npos) continue;
    const std::string name = line.substr(kStart.size(), equals - kStart.size());
    const double value = std::strtod(line.c_str() + equals + 1, nullptr);
    double& sum = sums[name];
    sum = name.rfind("latency", 0) == 0 ? std::max(sum, value) : sum + value;
  }
}

}  // namespace

Result<Outcome> run_once(const Setting& setting) {
  Outcome outcome;
  TALLY_TRY(outcome.raw, setting.transport == "shm" ? copy_rate() : iperf3_rate());
  TALLY_TRY(const Processes processes, start(setting));
  const SteadyClock clock;
  const Deadline by = clock.after(kRunLimit);
  for (std::size_t rank = 0; rank < processes.workers.size(); ++rank) {
    std::optional<process::ExitStatus> status;
    while (!status && !by.passed(clock.now()) && process::interrupted() == 0)
      status = processes.workers[rank]->wait(earlier(by, clock.after(100ms)));
    const std::string output = file_contents(processes.log(rank)).value_or("");
    if (!status || !status->ok())
      return system_failure("worker {} over {} {}: {}", rank, setting.transport,
                            status ? to_string(*status) : "did not end", output);
    collect(output, outcome.sums);
  }
  return outcome;
}

}  // namespace tally::bench::servers
