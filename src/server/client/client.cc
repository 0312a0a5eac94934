#include <utility>

#include <fmt/format.h>

#include "group/reporter.h"
#include "server/client/client_node.h"
#include "server/client/progress.h"
#include "server/link/socket_transport.h"
#include "tally/server.h"

namespace tally::server {
namespace {

// For servers on this host to close a link that was ended.
constexpr Duration kTimeToNotice = std::chrono::seconds(1);

}  // namespace

class Client::Impl final {
 public:
  Impl(std::unique_ptr<SocketTransport> transport, const ClientOptions& options,
       const EventSink& on_event)
      : options_(options),
        transport_(std::move(transport)),
        node_(*transport_,
              {.rank = options.rank,
               .in_flight_bytes = options.in_flight_bytes,
               .allocate = [this](std::size_t bytes) { return transport_->allocate(bytes); }},
              on_event, [this] { progress_.note(); }),
        notifying_node_(node_, progress_) {
    transport_->start(notifying_node_);
  }
  ~Impl() {
    node_.leave();
    transport_->stop();
  }

  Result<void> join() {
    const Deadline by = Deadline::after(options_.join_timeout);
    TALLY_TRY(const net::Address directory, group::address_from(options_.directory));
    TALLY_TRY(transport_->join(directory, by));
    node_.join();
    progress_.wait([this] { return node_.joined() || node_.closed(); }, by);
    if (node_.joined()) return {};
    if (auto why = node_.closed()) return *std::move(why);
    return Error{.code = ErrorCode::kTimeout,
                 .message = fmt::format("the directory at {} has not enough servers yet",
                                        options_.directory)};
  }

  // Waits until the request is done; else until nobody uses its memory any more, if all servers are
  // alive.
  Result<void> finish(Ticket ticket, Deadline by) {
    if (progress_.wait([&] { return node_.done(ticket); }, by)) return {};
    node_.abandon(ticket);
    const bool free =
        progress_.wait([&] { return !node_.awaits_release(); }, Deadline::after(kTimeToNotice));
    return Error{.code = ErrorCode::kTimeout,
                 .message = fmt::format("a request was not answered in time{}",
                                        free ? ""
                                             : "; a server on this host stands still, and "
                                               "may yet be at memory that was allocated")};
  }

  ClientNode& node() { return node_; }
  SocketTransport& transport() { return *transport_; }
  Deadline usual() const { return Deadline::after(options_.request_timeout); }

 private:
  const ClientOptions options_;
  const std::unique_ptr<SocketTransport> transport_;
  Progress progress_;
  ClientNode node_;
  NotifyingNode notifying_node_;
};

Result<std::unique_ptr<Client>> Client::connect(const ClientOptions& options, EventSink on_event) {
  TALLY_TRY(auto transport,
            SocketTransport::make(
                {.role = Role::kWorker, .secret = options.secret, .transport = options.transport},
                on_event));
  auto impl = std::make_unique<Impl>(std::move(transport), options, on_event);
  TALLY_TRY(impl->join());
  return std::unique_ptr<Client>(new Client(std::move(impl)));
}

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Client::~Client() = default;

Result<TableId> Client::define(const TableSpec& spec, Deadline by) {
  const Ticket ticket = impl_->node().define(spec);
  TALLY_TRY(impl_->finish(ticket, by));
  return impl_->node().take_define(ticket);
}

std::uint32_t Client::parts(TableId table) const { return impl_->node().parts(table); }
std::size_t Client::part_elements(TableId table) const {
  return impl_->node().part_elements(table);
}

bool Client::keeps_residual(TableId table) const { return impl_->node().keeps_residual(table); }

Result<std::span<std::byte>> Client::allocate(std::size_t bytes) {
  return impl_->transport().allocate(bytes);
}

Ticket Client::push(const Range& range, const PushFacts& options,
                    std::span<const std::byte> gradient) {
  return impl_->node().push(range, options, gradient);
}
Ticket Client::pull(const Range& range, const PullFacts& options, std::span<std::byte> values) {
  return impl_->node().pull(range, options, values);
}
Ticket Client::push_pull(const Range& range, const PushFacts& push, const PullFacts& pull,
                         std::span<const std::byte> gradient, std::span<std::byte> values) {
  return impl_->node().push_pull(range, push, pull, gradient, values);
}
Ticket Client::push_encoded(const Range& range, const PushFacts& options, Messages gradient) {
  return impl_->node().push_encoded(range, options, gradient);
}
Ticket Client::push_pull_encoded(const Range& range, const PushFacts& push, const PullFacts& pull,
                                 Messages gradient, std::span<std::byte> values) {
  return impl_->node().push_pull_encoded(range, push, pull, gradient, values);
}
Ticket Client::push_average(const Range& range, const PushFacts& push, const PullFacts& pull,
                            Messages gradient, std::span<std::byte> values,
                            std::span<Average> averages) {
  return impl_->node().push_average(range, push, pull, gradient, values, averages);
}
Ticket Client::push(TableId table, const PushFacts& options, std::span<const std::uint64_t> keys,
                    std::span<const float> rows) {
  return impl_->node().push(table, options, keys, rows);
}
Ticket Client::pull(TableId table, const PullFacts& options, std::span<const std::uint64_t> keys,
                    std::span<float> rows) {
  return impl_->node().pull(table, options, keys, rows);
}
Ticket Client::push_pull(TableId table, const PushFacts& push, const PullFacts& pull,
                         std::span<const std::uint64_t> keys, std::span<const float> gradient,
                         std::span<float> rows) {
  return impl_->node().push_pull(table, push, pull, keys, gradient, rows);
}
Ticket Client::clock(TableId table, std::uint64_t clock) {
  return impl_->node().clock(table, clock);
}

Result<Completion> Client::wait(Ticket ticket, Deadline by) {
  TALLY_TRY(impl_->finish(ticket, by));
  return impl_->node().take(ticket);
}
Result<Completion> Client::wait(Ticket ticket) { return wait(ticket, impl_->usual()); }
bool Client::done(Ticket ticket) const { return impl_->node().done(ticket); }

std::uint64_t Client::newest_version(TableId table) const {
  return impl_->node().newest_version(table);
}

Result<std::vector<double>> Client::agree(std::span<const double> values, Deadline by) {
  const Ticket ticket = impl_->node().agree(values);
  TALLY_TRY(impl_->finish(ticket, by));
  return impl_->node().take_agree(ticket);
}

Result<void> Client::barrier(Deadline by) {
  TALLY_TRY(agree({}, by));
  return {};
}

Client::Crew Client::crew() const { return impl_->node().crew(); }

Result<Client::Size> Client::size(TableId table, Deadline by) {
  const Ticket ticket = impl_->node().size(table);
  TALLY_TRY(impl_->finish(ticket, by));
  return impl_->node().take_size(ticket);
}

Result<std::filesystem::path> Client::snapshot(const std::string& name, Deadline by) {
  const Ticket ticket = impl_->node().snapshot(name);
  TALLY_TRY(impl_->finish(ticket, by));
  return impl_->node().take_snapshot(ticket);
}

Result<void> Client::restore(const std::filesystem::path& snapshot, Deadline by,
                             const std::vector<std::string>& only) {
  TALLY_TRY(wait(impl_->node().restore(snapshot, only), by));
  return {};
}

Result<void> Client::read_state(const Range& range, int array, std::span<std::byte> state,
                                Deadline by) {
  TALLY_TRY(wait(impl_->node().read_state(range, array, state), by));
  return {};
}

Result<void> Client::write_state(const Range& range, int array, std::span<const std::byte> state,
                                 Deadline by) {
  TALLY_TRY(wait(impl_->node().write_state(range, array, state), by));
  return {};
}

Result<void> Client::set_version(TableId table, std::uint64_t version, Deadline by) {
  TALLY_TRY(wait(impl_->node().set_version(table, version), by));
  return {};
}

Client::Traffic Client::traffic() const {
  const LinkCounters& counters = impl_->transport().counters();
  return {.bytes_sent = counters.bytes_sent.load(),
          .bytes_received = counters.bytes_received.load()};
}

}  // namespace tally::server
