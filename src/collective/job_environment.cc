#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string_view>

#include "base/descriptor.h"
#include "tally/job.h"

namespace tally {
namespace {

using Variables = std::function<const char*(const char*)>;

Error invalid(std::string message) {
  return {.code = ErrorCode::kInvalid, .message = std::move(message)};
}

// The variable as a number in [lowest, highest]; `fallback` if it is not set.
Result<int> number(const Variables& variable, const char* name, int lowest, int highest,
                   int fallback) {
  const char* const text = variable(name);
  if (text == nullptr) return fallback;
  int value = 0;
  const char* const end = text + std::strlen(text);
  const auto [stop, problem] = std::from_chars(text, end, value);
  if (problem != std::errc() || stop != end || value < lowest || value > highest)
    return invalid(fmt::format("{}={} is not a number from {} to {}", name, text, lowest, highest));
  return value;
}

// The variable as seconds, perhaps with a fraction, from a hundredth to a day.
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

// 64 hexadecimal digits as bytes.
Result<Secret> secret_from_hex(std::string_view digits) {
  Secret secret;
  for (std::size_t i = 0; i < secret.bytes.size(); ++i) {
    unsigned value = 0;
    const char* const start = digits.data() + 2 * i;
    const auto [stop, problem] = std::from_chars(start, start + 2, value, 16);
    if (problem != std::errc() || stop != start + 2) return invalid("not a hexadecimal digit");
    secret.bytes[i] = static_cast<std::byte>(value);
  }
  return secret;
}

// 32 bytes, raw or in hexadecimal, in a file that nobody else may read.
Result<Secret> read_secret(const char* path) {
  const Descriptor file(open(path, O_RDONLY | O_CLOEXEC));
  struct stat info {};
  if (!file.open() || fstat(file.descriptor(), &info) != 0)
    return invalid(fmt::format("TALLY_SECRET_FILE={}: {}", path, std::strerror(errno)));
  if ((info.st_mode & 077) != 0)
    return invalid(fmt::format("TALLY_SECRET_FILE={} can be read by others: chmod 600 it", path));
  std::array<char, 128> text{};
  const ssize_t bytes = read(file.descriptor(), text.data(), text.size());
  Secret secret;
  if (bytes == static_cast<ssize_t>(secret.bytes.size())) {
    std::memcpy(secret.bytes.data(), text.data(), secret.bytes.size());
    return secret;
  }
  const bool hex = bytes == 64 || (bytes == 65 && text[64] == '\n');
  const auto decoded = secret_from_hex({text.data(), text.size()});
  if (hex && decoded.has_value()) return decoded;
  return invalid(
      fmt::format("TALLY_SECRET_FILE={} holds neither 32 bytes nor 64 hexadecimal digits", path));
}

}  // namespace

Result<JobOptions> options_from(const Variables& variable) {
  constexpr int kMany = 1 << 20;
  JobOptions options;
  if ((variable("RANK") == nullptr) != (variable("WORLD_SIZE") == nullptr))
    return invalid("RANK and WORLD_SIZE go together: one of them is not set");
  TALLY_TRY(options.size, number(variable, "WORLD_SIZE", 1, kMany, 1));
  TALLY_TRY(options.rank, number(variable, "RANK", 0, options.size - 1, 0));
  if (variable("LOCAL_RANK") != nullptr) {
    TALLY_TRY(options.local_rank, number(variable, "LOCAL_RANK", 0, kMany, 0));
  }
  if (const char* const address = variable("MASTER_ADDR")) options.master_address = address;
  // A job of one meets nobody: any port will do.
  TALLY_TRY(const int port,
            number(variable, "MASTER_PORT", 0, std::numeric_limits<std::uint16_t>::max(),
                   options.size == 1 ? 0 : options.master_port));
  options.master_port = static_cast<std::uint16_t>(port);
  TALLY_TRY(const int generation,
            number(variable, "TALLY_GENERATION", 1, std::numeric_limits<int>::max(), 1));
  options.generation = static_cast<std::uint32_t>(generation);
  if (const char* const path = variable("TALLY_SECRET_FILE")) {
    TALLY_TRY(options.secret, read_secret(path));
  }
  if (const char* const name = variable("TALLY_TRANSPORT")) {
    TALLY_TRY(options.transport, transport_named(name));
  }
  if (const char* const name = variable("TALLY_ENGINE")) {
    TALLY_TRY(options.engine, engine_named(name));
  }
  if (const char* const name = variable("TALLY_MPI_INSIDE")) {
    TALLY_TRY(options.mpi_inside, inside_named(name));
  }
  if (const char* const label = variable("TALLY_HOST_LABEL")) options.host_label = label;
  TALLY_TRY(options.host_cores, number(variable, "TALLY_HOST_CORES", 0, kMany, 0));
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
