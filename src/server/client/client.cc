#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/clock.h"
#include "base/cpu.h"
#include "group/reporter.h"
#include "server/client/client_node.h"
#include "server/link/socket_transport.h"

namespace tally::server {
namespace {

// About 20 microseconds.
constexpr int kLooks = 500;

// Time for servers on this host to close an ended link.
constexpr Duration kTimeToNotice = std::chrono::seconds(1);

// Wakes callers that wait for requests, once for all answers of a burst. Threads: safe.
class Progress final {
 public:
  // A request may be done: the next publish() wakes callers, or this call outside of a burst.
  void note() {
    noted_.store(true);
    if (!burst_.load()) publish();
  }

  void publish() {
    burst_.store(false);
    if (!noted_.exchange(false)) return;
    changes_.fetch_add(1);
    if (sleepers_.load() == 0) return;
    // A caller that is about to sleep holds the mutex until it does.
    { const MutexLock lock(mutex_); }
    changed_.notify_all();
  }

  // A publish() will follow. Called by one thread.
  void begin_burst() {
    if (!burst_.load(std::memory_order_relaxed)) burst_.store(true);
  }

  // Waits until done(); false at the deadline. Spins first where there are several cores.
  bool wait(const std::function<bool()>& done, Deadline by) {
    while (true) {
      const std::uint64_t seen = changes_.load();
      if (done()) return true;
      if (by.passed(SteadyClock().now())) return false;
      wait_for_change(seen, by);
    }
  }

 private:
  void wait_for_change(std::uint64_t seen, Deadline by) {
    static const bool alone = usable_cores() < 2;
    for (int i = 0; i < kLooks && !alone; ++i) {
      if (changes_.load() != seen) return;
      spin_pause();
    }
    mutex_.lock();
    sleepers_.fetch_add(1);
    while (changes_.load() == seen && !by.passed(SteadyClock().now()))
      changed_.wait_for(
          mutex_, std::min<Duration>(by.remaining(SteadyClock().now()), std::chrono::seconds(1)));
    sleepers_.fetch_sub(1);
    mutex_.unlock();
  }

  std::atomic<std::uint64_t> changes_{0};
  std::atomic<int> sleepers_{0};
  std::atomic<bool> noted_{false};
  std::atomic<bool> burst_{false};
  Mutex mutex_;
  ConditionVariable changed_;
};

// A node that publishes its progress after each burst of messages.
class NotifyingNode final : public Node {
 public:
  NotifyingNode(Node& node, Progress& progress) : node_(node), progress_(progress) {}

  void on_message(NodeId from, const Message& message) override {
    progress_.begin_burst();
    node_.on_message(from, message);
  }

  std::span<std::byte> place(NodeId from, const MessageHeader& header) override {
    return node_.place(from, header);
  }

  void on_linked(NodeId peer) override { node_.on_linked(peer); }
  void on_lost(NodeId peer, const Error& why) override { node_.on_lost(peer, why); }
  void settle(TimePoint now) override {
    node_.settle(now);
    progress_.publish();
  }

 private:
  Node& node_;
  Progress& progress_;
};

}  // namespace

class Client::Impl final {
 public:
  Impl(std::unique_ptr<SocketTransport> transport, const ClientOptions& options,
       const EventSink& on_event)
      : options_(options),
        transport_(std::move(transport)),
        node_(*transport_,
              {.rank = options.rank,
               .host = transport_->info().host,
               .pid = ::getpid(),
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
    return make_error(ErrorCode::kTimeout, "the directory at {} has not enough servers yet",
                      options_.directory);
  }

  // Waits until the request is done. At the deadline abandons it and waits until no server uses its
  // memory.
  Result<void> finish(Ticket ticket, Deadline by) {
    if (progress_.wait([&] { return node_.done(ticket); }, by)) return {};
    node_.abandon(ticket);
    const bool free =
        progress_.wait([&] { return !node_.awaits_release(); }, Deadline::after(kTimeToNotice));
    return make_error(ErrorCode::kTimeout, "a request was not answered in time{}",
                      free ? ""
                           : "; a server on this host does not respond, "
                             "and may still use memory of allocate()");
  }

  // The result of the request, as `take` of the node returns it.
  template <typename T>
  Result<T> await(Ticket ticket, Deadline by, Result<T> (ClientNode::*take)(Ticket)) {
    TALLY_TRY(finish(ticket, by));
    return (node_.*take)(ticket);
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
  return impl_->await(impl_->node().define(spec), by, &ClientNode::take_define);
}

std::uint32_t Client::parts(TableId table) const { return impl_->node().parts(table); }
std::size_t Client::part_elements(TableId table) const {
  return impl_->node().part_elements(table);
}

bool Client::keeps_residual(TableId table) const { return impl_->node().keeps_residual(table); }

Result<std::span<std::byte>> Client::allocate(std::size_t bytes) {
  return impl_->transport().allocate(bytes);
}

Ticket Client::push(const PartRange& range, const PushOptions& options,
                    std::span<const std::byte> gradient) {
  return impl_->node().push(range, options, gradient);
}
Ticket Client::pull(const PartRange& range, const PullOptions& options,
                    std::span<std::byte> values) {
  return impl_->node().pull(range, options, values);
}
Ticket Client::push_pull(const PartRange& range, const PushOptions& push, const PullOptions& pull,
                         std::span<const std::byte> gradient, std::span<std::byte> values) {
  return impl_->node().push_pull(range, push, pull, gradient, values);
}
Ticket Client::push_encoded(const PartRange& range, const PushOptions& options, Messages gradient) {
  return impl_->node().push_encoded(range, options, gradient);
}
Ticket Client::push_pull_encoded(const PartRange& range, const PushOptions& push,
                                 const PullOptions& pull, Messages gradient,
                                 std::span<std::byte> values) {
  return impl_->node().push_pull_encoded(range, push, pull, gradient, values);
}
Ticket Client::push_average(const PartRange& range, const PushOptions& push,
                            const PullOptions& pull, Messages gradient, std::span<std::byte> values,
                            std::span<Average> averages) {
  return impl_->node().push_average(range, push, pull, gradient, values, averages);
}
Ticket Client::push(TableId table, const PushOptions& options, std::span<const std::uint64_t> keys,
                    std::span<const float> rows) {
  return impl_->node().push(table, options, keys, rows);
}
Ticket Client::pull(TableId table, const PullOptions& options, std::span<const std::uint64_t> keys,
                    std::span<float> rows) {
  return impl_->node().pull(table, options, keys, rows);
}
Ticket Client::push_pull(TableId table, const PushOptions& push, const PullOptions& pull,
                         std::span<const std::uint64_t> keys, std::span<const float> gradient,
                         std::span<float> rows) {
  return impl_->node().push_pull(table, push, pull, keys, gradient, rows);
}
Ticket Client::measure(TableId table, const MeasureOptions& options, std::span<Measured> parts) {
  return impl_->node().measure(table, options, parts);
}
Ticket Client::finish(TableId table, const FinishOptions& options, std::span<Measured> parts) {
  return impl_->node().finish(table, options, parts);
}
Ticket Client::clock(TableId table, std::uint64_t clock) {
  return impl_->node().clock(table, clock);
}

Result<Completion> Client::wait(Ticket ticket, Deadline by) {
  return impl_->await(ticket, by, &ClientNode::take);
}
Result<Completion> Client::wait(Ticket ticket) { return wait(ticket, impl_->usual()); }
bool Client::done(Ticket ticket) const { return impl_->node().done(ticket); }

std::uint64_t Client::newest_version(TableId table) const {
  return impl_->node().newest_version(table);
}

Result<std::vector<double>> Client::agree(std::span<const double> values, Deadline by) {
  return impl_->await(impl_->node().agree(values), by, &ClientNode::take_agree);
}

Result<void> Client::barrier(Deadline by) {
  TALLY_TRY(agree({}, by));
  return {};
}

Client::Membership Client::membership() const { return impl_->node().membership(); }

Result<Client::Size> Client::size(TableId table, Deadline by) {
  return impl_->await(impl_->node().size(table), by, &ClientNode::take_size);
}

Result<std::filesystem::path> Client::snapshot(const std::string& name, Deadline by) {
  return impl_->await(impl_->node().snapshot(name), by, &ClientNode::take_snapshot);
}

Result<void> Client::restore(const std::filesystem::path& snapshot, Deadline by,
                             const std::vector<std::string>& only) {
  TALLY_TRY(wait(impl_->node().restore(snapshot, only), by));
  return {};
}

Result<void> Client::read_state(const PartRange& range, int array, std::span<std::byte> state,
                                Deadline by) {
  TALLY_TRY(wait(impl_->node().read_state(range, array, state), by));
  return {};
}

Result<void> Client::write_state(const PartRange& range, int array,
                                 std::span<const std::byte> state, Deadline by) {
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
