#include "process/local_job.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

namespace tally::process {
namespace {

Error system_error(const std::string& what) {
  return Error{.code = ErrorCode::kSystem, .message = fmt::format("{}: {}", what, strerror(errno))};
}

// Returns a port that was free a moment ago. If another process takes it before rank 0, the job
// fails to join with an error.
Result<std::uint16_t> free_loopback_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return system_error("cannot open a socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  const bool found = ::bind(fd, generic, length) == 0 && ::getsockname(fd, generic, &length) == 0;
  Error error = system_error("no free port on the loopback interface");
  ::close(fd);
  if (!found) return error;
  return ntohs(address.sin_port);
}

// Writes 32 random bytes, as options_from() reads them.
Result<void> write_secret(const std::string& path) {
  std::array<unsigned char, 32> bytes{};
  const auto size = static_cast<ssize_t>(bytes.size());
  if (::getrandom(bytes.data(), bytes.size(), 0) != size) {
    return system_error("no random bytes for the secret");
  }
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return system_error("cannot make the secret's file");
  const bool written = ::write(fd, bytes.data(), bytes.size()) == size;
  Error error = system_error("cannot write the secret's file");
  ::close(fd);
  if (!written) return error;
  return {};
}

}  // namespace

Result<std::unique_ptr<LocalJob>> LocalJob::make(int size) {
  TALLY_TRY(const std::uint16_t port, free_loopback_port());
  TALLY_TRY(std::unique_ptr<TempDir> folder, TempDir::make());
  std::unique_ptr<LocalJob> job(new LocalJob(size, port, std::move(folder)));
  TALLY_TRY(write_secret(job->secret_file()));
  return job;
}

Variables LocalJob::variables(Rank rank) const {
  const std::string rank_text = std::to_string(rank);
  const std::string size_text = std::to_string(size_);
  return {{"RANK", rank_text},
          {"WORLD_SIZE", size_text},
          {"LOCAL_RANK", rank_text},
          {"LOCAL_WORLD_SIZE", size_text},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", std::to_string(port_)},
          {"TALLY_SECRET_FILE", secret_file()}};
}

}  // namespace tally::process
