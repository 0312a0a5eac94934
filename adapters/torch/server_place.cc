#include "adapters/torch/server_place.h"

#include <algorithm>
#include <array>
#include <exception>
#include <thread>

#include <fmt/format.h>

#include "adapters/torch/tensors.h"
#include "base/clock.h"

namespace tally::adapter {
namespace {

constexpr auto kJoinTimeout = std::chrono::seconds(60);
constexpr auto kFarewell = std::chrono::seconds(30);
// HOST:PORT, padded with zeros.
constexpr std::size_t kAddressBytes = 300;

std::string from_first(Job& job, const std::string& address) {
  std::array<char, kAddressBytes> text{};
  if (address.size() >= text.size()) refuse(ErrorCode::kInvalid, "the address is too long");
  std::copy(address.begin(), address.end(), text.begin());
  or_throw(job.world().run({.operation = Operation::kBroadcast,
                            .input = text.data(),
                            .output = text.data(),
                            .count = text.size(),
                            .type = DataType::kUInt8,
                            .root = 0}));
  return text.data();
}

}  // namespace

server::DirectoryOptions directory_options(const ServerOptions& options, int servers) {
  return {.listen = options.host + ":0",
          .secret = options.secret,
          .servers = servers,
          .replicas = options.replicas,
          .silence_limit = options.silence_limit};
}

ServerOptions with_launcher(ServerOptions options,
                            const std::function<const char*(const char*)>& variable) {
  const char* const directory = variable("TALLY_DIRECTORY");
  if (directory == nullptr || !options.directory.empty() || options.count > 0) return options;
  options.directory = directory;
  if (!options.secret) options.secret = or_throw(options_from(variable)).secret;
  return options;
}

ServerPlace::ServerPlace(Job& job, const ServerOptions& options, const server::EventSink& on_event)
    : colocated_(options.directory.empty()),
      exceptions_(std::uncaught_exceptions()),
      is_leaving_(std::make_shared<std::atomic<bool>>(false)) {
  // An orderly departure is no event; neither are servers that end while this worker leaves.
  const server::EventSink tell = [on_event, leaving = is_leaving_](const std::string& event) {
    if (on_event && !leaving->load() && !event.ends_with("it left")) on_event(event);
  };
  std::string directory = options.directory;
  if (colocated_) {
    const int servers = options.count > 0 ? options.count : job.size();
    if (servers > job.size())
      refuse(ErrorCode::kInvalid,
             fmt::format("{} servers inside {} workers: at most one in each", servers, job.size()));
    if (job.rank() == 0) {
      directory_ = or_throw(server::Directory::start(directory_options(options, servers), tell));
      directory = directory_->address();
    }
    directory = from_first(job, directory);
    if (job.rank() < servers)
      server_ = or_throw(server::Server::start({.directory = directory,
                                                .listen = options.host + ":0",
                                                .secret = options.secret,
                                                .threads = 1,
                                                .snapshots = options.snapshots},
                                               tell));
  }
  client_ = or_throw(server::Client::connect(
      {.directory = directory, .secret = options.secret, .rank = job.rank()}, tell));
  wait_for_all(job.size());
}

// From here on workers agree with all workers of the job, not only with those that joined first.
void ServerPlace::wait_for_all(int workers) const {
  const Deadline by = Deadline::after(kJoinTimeout);
  while (client_->membership().workers < workers) {
    if (by.passed(SteadyClock().now()))
      refuse(ErrorCode::kTimeout, fmt::format("only {} of {} workers have joined the servers",
                                              client_->membership().workers, workers));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

ServerPlace::~ServerPlace() {
  const bool is_whole = std::uncaught_exceptions() == exceptions_;
  // A failure means that other workers are gone, so there is nothing to wait for.
  if (colocated_ && client_ && is_whole) (void)client_->barrier(Deadline::after(kFarewell));
  is_leaving_->store(true);
  client_.reset();
  server_.reset();
  directory_.reset();
}

}  // namespace tally::adapter
