#include <algorithm>
#include <atomic>
#include <utility>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "group/reporter.h"
#include "server/link/driver.h"
#include "server/node/server_node.h"
#include "tally/server.h"

namespace tally::server {
namespace {

constexpr int kMostThreadsByDefault = 4;

int threads_for(int wanted) {
  if (wanted > 0) return wanted;
  return std::clamp(usable_cores(), 1, kMostThreadsByDefault);
}

}  // namespace

class Server::Impl final {
 public:
  Impl(std::unique_ptr<Driver> driver, const ServerOptions& options, const EventSink& on_event)
      : driver_(std::move(driver)),
        node_(*driver_,
              {.self = driver_->info(),
               .memory_limit_bytes = options.memory_limit_bytes,
               .snapshots = options.snapshots,
               .clock = [] { return SteadyClock().now(); }},
              on_event) {
    driver_->start(node_);
  }
  ~Impl() {
    driver_->send(kDirectory, {.kind = MessageKind::kLeave}, {});
    driver_->stop();
  }

  Result<void> join(const net::Address& directory, Deadline by) {
    TALLY_TRY(driver_->join(directory, by));
    node_.join();
    return {};
  }

  std::string address() const { return driver_->address(); }
  bool expelled() const { return node_.expelled(); }

 private:
  const std::unique_ptr<Driver> driver_;
  ServerNode node_;
};

Result<std::unique_ptr<Server>> Server::start(const ServerOptions& options, EventSink on_event) {
  TALLY_TRY(const net::Address directory, group::address_from(options.directory));
  TALLY_TRY(const net::Address listen, group::address_from(options.listen));
  TALLY_TRY(auto driver, Driver::make({.role = Role::kServes,
                                       .listen = listen,
                                       .secret = options.secret,
                                       .threads = threads_for(options.threads)},
                                      on_event));
  auto impl = std::make_unique<Impl>(std::move(driver), options, on_event);
  TALLY_TRY(impl->join(directory, Deadline::after(options.join_timeout)));
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;
std::string Server::address() const { return impl_->address(); }
bool Server::expelled() const { return impl_->expelled(); }

}  // namespace tally::server
