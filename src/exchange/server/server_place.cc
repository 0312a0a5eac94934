#include "exchange/server/server_place.h"

#include <algorithm>
#include <array>
#include <exception>
#include <thread>

#include "base/clock.h"
#include "base/errors.h"

namespace tally::exchange {
namespace {

constexpr auto kJoinTimeout = std::chrono::seconds(60);
constexpr auto kFarewell = std::chrono::seconds(30);
// HOST:PORT, padded with zeros.
constexpr std::size_t kAddressBytes = 300;

Result<std::string> address_from_first(Communicator& world, const std::string& address) {
  std::array<char, kAddressBytes> text{};
  if (address.size() >= text.size())
    return make_error(ErrorCode::kInvalid, "the address {} is too long", address);
  std::copy(address.begin(), address.end(), text.begin());
  TALLY_TRY(world.run({.operation = Operation::kBroadcast,
                       .input = text.data(),
                       .output = text.data(),
                       .count = text.size(),
                       .type = DataType::kUInt8,
                       .root = 0}));
  return std::string(text.data());
}

}  // namespace

Result<ServerOptions> with_launcher(ServerOptions options,
                                    const std::function<const char*(const char*)>& variable) {
  const char* const directory = variable("TALLY_DIRECTORY");
  if (directory == nullptr || !options.directory.empty() || options.count > 0) return options;
  options.directory = directory;
  if (options.secret) return options;
  TALLY_TRY(const JobOptions job, options_from(variable));
  options.secret = job.secret;
  return options;
}

server::DirectoryOptions directory_options(const ServerOptions& options, int servers) {
  return {.listen = options.host + ":0",
          .secret = options.secret,
          .servers = servers,
          .replicas = options.replicas,
          .silence_limit = options.silence_limit};
}

ServerPlace::ServerPlace(bool colocated)
    : colocated_(colocated),
      exceptions_(std::uncaught_exceptions()),
      is_leaving_(std::make_shared<std::atomic<bool>>(false)) {}

Result<std::unique_ptr<ServerPlace>> ServerPlace::make(Communicator& world,
                                                       const ServerOptions& options,
                                                       const server::EventSink& on_event) {
  std::unique_ptr<ServerPlace> place(new ServerPlace(options.directory.empty()));
  // An orderly departure is no event; neither are servers that end while this worker leaves.
  const server::EventSink tell = [on_event,
                                  leaving = place->is_leaving_](const std::string& event) {
    if (on_event && !leaving->load() && !event.ends_with("it left")) on_event(event);
  };
  std::string directory = options.directory;
  if (place->colocated_) {
    const int servers = options.count > 0 ? options.count : world.size();
    if (servers > world.size())
      return make_error(ErrorCode::kInvalid, "{} servers inside {} workers: at most one in each",
                        servers, world.size());
    if (world.rank() == 0) {
      TALLY_TRY(place->directory_,
                server::Directory::start(directory_options(options, servers), tell));
      directory = place->directory_->address();
    }
    TALLY_TRY(directory, address_from_first(world, directory));
    if (world.rank() < servers) {
      TALLY_TRY(place->server_, server::Server::start({.directory = directory,
                                                       .listen = options.host + ":0",
                                                       .secret = options.secret,
                                                       .threads = 1,
                                                       .snapshots = options.snapshots},
                                                      tell));
    }
  }
  TALLY_TRY(place->client_,
            server::Client::connect(
                {.directory = directory, .secret = options.secret, .rank = world.rank()}, tell));
  TALLY_TRY(place->wait_for_all(world.size()));
  return place;
}

// From here on workers agree with all workers of the job, not only with those that joined first.
Result<void> ServerPlace::wait_for_all(int workers) const {
  const Deadline by = Deadline::after(kJoinTimeout);
  while (client_->membership().workers < workers) {
    if (by.passed(SteadyClock().now()))
      return make_error(ErrorCode::kTimeout, "only {} of {} workers have joined the servers",
                        client_->membership().workers, workers);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return {};
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

}  // namespace tally::exchange
