#include "bench/server/contest.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <memory>
#include <sstream>

#include <fmt/format.h>

#include "apps/tally/child_process.h"
#include "apps/tally/interrupt.h"
#include "apps/tally/launch/server_processes.h"
#include "apps/tally/temp_dir.h"
#include "base/clock.h"
#include "base/file.h"
#include "bench/server/cases.h"
#include "bench/server/raw.h"
#include "group/secret_text.h"

namespace tally::bench::servers {
namespace {

using namespace std::chrono_literals;

constexpr Duration kRawTime = 1s;
constexpr Duration kRunLimit = 120s;

struct Crew {
  std::unique_ptr<app::TempDir> folder;
  std::unique_ptr<launch::ServerProcesses> servers;
  std::vector<std::unique_ptr<app::ChildProcess>> workers;

  std::string log(std::size_t rank) const {
    return fmt::format("{}/worker{}", folder->path(), rank);
  }
};

Result<Crew> start(const Setting& setting) {
  Crew crew;
  TALLY_TRY(crew.folder, app::TempDir::make());
  launch::ServerProcessesOptions options{.servers = setting.servers, .replicas = 1};
  std::vector<std::pair<std::string, std::string>> variables;
  if (setting.transport == "tls") {
    TALLY_TRY(options.secret, group::fresh_secret());
    const std::string path = crew.folder->path() + "/secret";
    std::ofstream(path) << group::to_hex(*options.secret);
    std::filesystem::permissions(path, std::filesystem::perms::owner_read);
    variables.emplace_back("TALLY_SECRET_FILE", path);
  }
  TALLY_TRY(crew.servers, launch::ServerProcesses::start(options, {}));
  for (int rank = 0; rank < setting.workers; ++rank) {
    TALLY_TRY(
        auto worker,
        app::ChildProcess::start(
            {.command = {app::own_program(), "bench-server-worker", "--directory",
                         crew.servers->directory(), "--rank", std::to_string(rank), "--workers",
                         std::to_string(setting.workers), "--transport", setting.transport,
                         "--only", setting.only, "--slice", std::to_string(setting.slice.count())},
             .variables = variables,
             .log_file = crew.log(static_cast<std::size_t>(rank))}));
    crew.workers.push_back(std::move(worker));
  }
  return crew;
}

// "figure dense push=3.25"
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
  if (setting.transport == "shm") {
    outcome.raw = copy_rate(kRawTime);
  } else {
    TALLY_TRY(outcome.raw, iperf3_rate(kRawTime));
  }
  TALLY_TRY(const Crew crew, start(setting));
  const SteadyClock clock;
  const Deadline by = clock.after(kRunLimit);
  for (std::size_t rank = 0; rank < crew.workers.size(); ++rank) {
    std::optional<app::ExitStatus> status;
    while (!status && !by.passed(clock.now()) && app::interrupted() == 0)
      status = crew.workers[rank]->wait(earlier(by, clock.after(100ms)));
    const std::string output = file_contents(crew.log(rank)).value_or("");
    if (!status || !status->ok())
      return Error{
          .code = ErrorCode::kSystem,
          .message = fmt::format("worker {} over {} {}: {}", rank, setting.transport,
                                 status ? app::to_string(*status) : "did not end", output)};
    collect(output, outcome.sums);
  }
  return outcome;
}

}  // namespace tally::bench::servers
