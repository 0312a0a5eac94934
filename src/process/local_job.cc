#include "process/local_job.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/descriptor.h"
#include "base/errors.h"
#include "group/secret_text.h"
#include "net/socket.h"

namespace tally::process {
namespace {

// Returns a port that was free a moment ago. If another process takes it before rank 0, the job
// fails to join with an error.
Result<std::uint16_t> free_loopback_port() {
  TALLY_TRY(const net::Listener listener, net::Listener::bind({.host = "127.0.0.1", .port = 0}));
  return listener.address().port;
}

// Writes a fresh secret, as options_from() reads it.
Result<void> write_secret(const std::string& path) {
  TALLY_TRY(const Secret secret, group::fresh_secret());
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  const auto size = static_cast<ssize_t>(secret.bytes.size());
  if (file.open() && ::write(file.descriptor(), secret.bytes.data(), secret.bytes.size()) == size)
    return {};
  return system_failure("cannot write {}: {}", path, strerror(errno));
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
