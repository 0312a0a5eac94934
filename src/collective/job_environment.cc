#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string_view>

#include "collective/choose_bootstrap.h"
#include "collective/launch_facts.h"
#include "collective/variables.h"
#include "tally/job.h"

namespace tally {
namespace {

using collective::number;
using collective::Variables;

// The variable as seconds, from 0.01 to one day.
Result<std::chrono::milliseconds> seconds_in(const Variables& variable, const char* name,
                                             std::chrono::milliseconds fallback) {
  constexpr double kLeast = 0.01;
  constexpr double kMost = 86400;
  const char* const text = variable(name);
  if (text == nullptr) return fallback;
  double value = 0;
  const char* const end = text + std::strlen(text);
  const auto [stop, problem] = std::from_chars(text, end, value);
  if (problem != std::errc() || stop != end || !(value >= kLeast && value <= kMost))
    return invalid(
        fmt::format("{}={} is not a number of seconds from {} to {}", name, text, kLeast, kMost));
  return std::chrono::milliseconds(static_cast<std::int64_t>(value * 1000));
}

Result<TransportKind> transport_named(std::string_view name) {
  if (name == "auto") return TransportKind::kAuto;
  if (name == "shm") return TransportKind::kShm;
  if (name == "tcp") return TransportKind::kTcp;
  if (name == "tls") return TransportKind::kTls;
  return invalid(fmt::format("TALLY_TRANSPORT={} is none of auto, shm, tcp, tls", name));
}

Result<int> tcp_threads_named(std::string_view name) {
  if (name == "auto") return 0;
  if (name == "1") return 1;
  if (name == "2") return 2;
  return invalid(fmt::format("TALLY_TCP_THREADS={} is none of auto, 1, 2", name));
}

Result<Engine> engine_named(std::string_view name) {
  if (name == "tally") return Engine::kTally;
  if (name == "mpi") return Engine::kMpi;
  return invalid(fmt::format("TALLY_ENGINE={} is none of tally, mpi", name));
}

Result<MpiInside> inside_named(std::string_view name) {
  if (name == "auto") return MpiInside::kAuto;
  if (name == "shm") return MpiInside::kShm;
  if (name == "mpi") return MpiInside::kMpi;
  return invalid(fmt::format("TALLY_MPI_INSIDE={} is none of auto, shm, mpi", name));
}

}  // namespace

Result<JobOptions> options_from(const Variables& variable) {
  constexpr int kMany = 1 << 20;
  JobOptions options;
  TALLY_TRY(const collective::LaunchFacts facts, collective::launch_facts(variable));
  options.rank = facts.rank;
  options.size = facts.size;
  options.local_rank = facts.local_rank;
  options.local_size = facts.local_size;
  options.launcher = to_string(facts.launcher);
  TALLY_TRY(collective::choose_bootstrap(facts, variable, options));
  TALLY_TRY(const int generation,
            number(variable, "TALLY_GENERATION", 1, std::numeric_limits<int>::max(), 1));
  options.generation = static_cast<std::uint32_t>(generation);
  if (const char* const path = variable("TALLY_SECRET_FILE")) {
    TALLY_TRY(options.secret, collective::read_secret(path));
  }
  if (const char* const name = variable("TALLY_TRANSPORT")) {
    TALLY_TRY(options.transport, transport_named(name));
  }
  if (const char* const name = variable("TALLY_TCP_THREADS")) {
    TALLY_TRY(options.tcp_threads, tcp_threads_named(name));
  }
  if (const char* const name = variable("TALLY_ENGINE")) {
    TALLY_TRY(options.engine, engine_named(name));
  }
  if (const char* const name = variable("TALLY_MPI_INSIDE")) {
    TALLY_TRY(options.mpi_inside, inside_named(name));
  }
  if (const char* const label = variable("TALLY_HOST_LABEL")) options.host_label = label;
  TALLY_TRY(const int seconds, number(variable, "TALLY_TIMEOUT", 1, kMany, 300));
  options.operation_timeout = std::chrono::seconds(seconds);
  TALLY_TRY(const int join_seconds, number(variable, "TALLY_JOIN_TIMEOUT", 1, kMany, 60));
  options.join_timeout = std::chrono::seconds(join_seconds);
  if (const char* const name = variable("TALLY_JOB")) options.name = name;
  if (const char* const address = variable("TALLY_COORDINATOR")) options.coordinator = address;
  TALLY_TRY(options.heartbeat, seconds_in(variable, "TALLY_HEARTBEAT", options.heartbeat));
  return options;
}

Result<std::unique_ptr<Job>> Job::join() {
  TALLY_TRY(const JobOptions options,
            options_from([](const char* name) { return std::getenv(name); }));
  return join(options);
}

}  // namespace tally
