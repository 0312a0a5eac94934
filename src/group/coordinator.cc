#include "group/coordinator.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "base/errors.h"
#include "base/log.h"
#include "group/bodies.h"

namespace tally::group {
namespace {

Result<void> check(const CoordinatorOptions& options) {
  if (!is_job_name(options.job))
    return invalid(
        "'{}' is no name for a job: 1 to 64 letters, digits, dots, underscores and dashes",
        options.job);
  if (options.size < 1 || options.size > kMaxRanks)
    return invalid("a job of {} ranks, 1 to {} are possible", options.size, kMaxRanks);
  if (options.heartbeat <= Duration::zero() || options.missed_heartbeats < 1)
    return invalid("heartbeats need a time between them");
  if (!options.secret && !net::on_loopback(options.listen))
    return invalid("a coordinator at {} needs a secret: others can reach it",
                   to_string(options.listen));
  return {};
}

}  // namespace

Coordinator::Coordinator(const CoordinatorOptions& options, net::Listener listener,
                         LocalAccess local, net::StreamFactory streams, Descriptor wake,
                         CoordinatorService::OnEvent on_event)
    : options_(options),
      listener_(std::move(listener)),
      local_(std::move(local)),
      streams_(std::move(streams)),
      acceptor_({.listener = &listener_,
                 .local_listener = &local_.listener,
                 .streams = &streams_,
                 .places = net::Acceptor::kSpare + static_cast<std::size_t>(options.size)}),
      wake_(std::move(wake)),
      service_(options, to_string(listener_.address()), std::move(on_event), SteadyClock().now()) {}

Coordinator::~Coordinator() {
  thread_.request_stop();
  wake();
}

Result<std::unique_ptr<Coordinator>> Coordinator::start(
    const CoordinatorOptions& options, std::function<void(const CoordinatorEvent&)> on_event) {
  TALLY_TRY(check(options));
  std::optional<SavedState> state;
  if (!options.state_file.empty()) {
    TALLY_TRY(state, load_state(options.state_file));
    if (state && state->job != options.job)
      return invalid("{} is the state of job {}, this is {}", options.state_file, state->job,
                     options.job);
    // A later generation may have fewer ranks: survivors form one without the lost.
    if (state && !state->over() &&
        (state->size > options.size ||
         (state->size != options.size && state->generation == options.generation)))
      return invalid(
          "{} is the state of a job of {} ranks, this one has {}: remove it if that job is over",
          options.state_file, state->size, options.size);
  }
  TALLY_TRY(net::Listener listener, net::Listener::bind(options.listen));
  TALLY_TRY(LocalAccess local, open_local_access(options.job));
  TALLY_TRY(auto streams, net::StreamFactory::make(options.secret, "tally coordinator"));
  Descriptor wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.open()) return net::socket_error("eventfd", errno);
  std::unique_ptr<Coordinator> made(new Coordinator(options, std::move(listener), std::move(local),
                                                    std::move(streams), std::move(wake),
                                                    std::move(on_event)));
  CoordinatorService& service = made->service_;
  if (state && !state->over() && state->generation >= options.generation)
    service.resume(*state, SteadyClock().now());
  if (made->local_name() != options.job)
    service.say(fmt::format("another job here is called {}: this one is {} for tally status",
                            options.job, made->local_name()));
  made->thread_ =
      std::jthread([self = made.get()](const std::stop_token& stop) { self->work(stop); });
  return made;
}

void Coordinator::begin_generation(std::uint32_t generation, int size) {
  post([generation, size](CoordinatorService& service, TimePoint) {
    service.begin_generation(generation, size);
  });
}

void Coordinator::process_ended(Rank rank, const std::string& how) {
  post([rank, how](CoordinatorService& service, TimePoint now) {
    service.process_ended(rank, how, now);
  });
}

void Coordinator::post(Command command) {
  {
    MutexLock lock(mutex_);
    commands_.push_back(std::move(command));
  }
  wake();
}

void Coordinator::work(const std::stop_token& stop) {
  const Duration pause = std::clamp<Duration>(options_.heartbeat / 4, std::chrono::milliseconds(10),
                                              std::chrono::milliseconds(250));
  TimePoint next_tick = SteadyClock().now() + pause;
  while (!stop.stop_requested()) {
    next_tick = std::min(next_tick, service_.next_loss());
    wait(next_tick);
    const TimePoint now = SteadyClock().now();
    obey(now);
    accept(now);
    for (const auto& session : service_.sessions()) service_.serve(*session, now);
    // Ticks come after reading, so that messages count that arrived while this thread did not run.
    if (now >= next_tick) {
      service_.tick(now);
      next_tick = now + pause;
    }
    service_.tidy(now);
  }
}

void Coordinator::wait(TimePoint until) {
  entries_.clear();
  entries_.push_back({wake_.descriptor(), POLLIN, 0});
  const TimePoint now = SteadyClock().now();
  acceptor_.add_to(entries_, now);
  if (acceptor_.paused_until() > now) until = std::min(until, acceptor_.paused_until());
  bool pending = false;
  for (const auto& session : service_.sessions()) {
    session->connection.add_to(entries_);
    pending = pending || session->connection.pending();
  }
  const int timeout = pending ? 0 : net::poll_timeout(Deadline::at(until));
  if (::poll(entries_.data(), entries_.size(), timeout) < 1) return;
  eventfd_t count = 0;
  if (entries_[0].revents != 0) eventfd_read(wake_.descriptor(), &count);
}

void Coordinator::obey(TimePoint now) {
  std::vector<Command> commands;
  {
    MutexLock lock(mutex_);
    commands.swap(commands_);
  }
  for (const Command& command : commands) command(service_, now);
}

void Coordinator::accept(TimePoint now) {
  auto accepted = acceptor_.accept(now);
  if (!accepted.has_value()) {
    if (!complained_)
      log_warning(
          fmt::format("the coordinator cannot take in everybody: {}", accepted.error().message));
    complained_ = true;
    return;
  }
  for (const auto& refusal : accepted->refused)
    service_.refused(refusal.from, refusal.why.message, now);
  for (net::Arrival& arrival : accepted->arrivals)
    service_.sessions().push_back(std::make_unique<CoordinatorSession>(std::move(arrival), now));
}

}  // namespace tally::group
