#include "apps/tally/launch/attempt.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>

#include <fmt/format.h>

#include "apps/tally/launch/rank_process.h"
#include "apps/tally/launch/remote.h"
#include "group/host.h"
#include "net/socket.h"
#include "process/child_process.h"

namespace tally::launch {
namespace {

using Kind = AttemptEnd::Kind;

// Time for killed ranks and agents to disappear.
constexpr auto kGiveUpTime = std::chrono::seconds(15);
// Pings sent during one lease.
constexpr int kPingsPerLease = 6;

}  // namespace

Attempt::Attempt(const LaunchOptions& options, const JobStart& start, const Surroundings& with,
                 Deadline by)
    : options_(options),
      start_(start),
      with_(with),
      by_(by),
      own_name_(group::host_name()),
      ranks_(static_cast<std::size_t>(options.size())) {
  for (std::size_t host = 0; host < options.places.size(); ++host) {
    const HostRanks& place = options.places[host];
    host_names_.push_back(place.host);
    for (Rank rank = place.first; rank < place.first + place.count; ++rank) of(rank).host = host;
  }
}

AttemptEnd Attempt::run() {
  if (const auto started = start_agents(); !started) {
    verdict_ = {.kind = Kind::kNotStarted, .reason = started.error().message};
  } else {
    start_by_ = clock_.after(options_.start_timeout);
    ping_at_ = clock_.after(options_.lease / kPingsPerLease);
    while (running()) step();
  }
  if (options_.hooks.ended) options_.hooks.ended();
  end_agents();
  if (verdict_ && verdict_->kind != Kind::kRankFailed) return *std::move(verdict_);
  const bool good = failed_.empty() || (options_.goes_on_without_failed && succeeded_ > 0);
  AttemptEnd end{.kind = good ? Kind::kDone : Kind::kRankFailed};
  if (good) end.failed = failed_;
  if (good) return end;
  const auto cause = failed_.begin() + static_cast<std::ptrdiff_t>(choose_cause(failed_));
  std::rotate(failed_.begin(), cause, cause + 1);
  end.failed = std::move(failed_);
  return end;
}

Result<void> Attempt::start_agents() {
  TALLY_TRY(master_address_, master_address(options_, own_name_));
  for (const HostRanks& place : options_.places) {
    const auto command = agent_command(options_, place.host, own_name_, process::own_program());
    if (options_.verbose)
      with_.console.say(fmt::format(
          "host {}: ranks {} to {}, agent started {}", place.host, place.first,
          place.first + place.count - 1,
          command.empty() ? "directly" : fmt::format("by {}", fmt::join(command, " "))));
    TALLY_TRY(std::unique_ptr<AgentLink> link,
              AgentLink::start(place, command, options_.agent_program));
    if (!link->remote()) host_names_[agents_.size()] = own_name_;
    agents_.push_back(std::move(link));
  }
  agents_.front()->send(Reserve{});
  if (!options_.hooks.before_start) return {};
  JobStart start = start_;
  TALLY_TRY(start.own_address, own_address(options_, own_name_));
  TALLY_TRY(hook_variables_, options_.hooks.before_start(start, with_.console));
  return {};
}

Variables Attempt::common_variables() const {
  Variables variables = options_.variables;
  set_variable(variables, "WORLD_SIZE", std::to_string(options_.size()));
  set_variable(variables, "MASTER_ADDR", master_address_);
  set_variable(variables, "MASTER_PORT", std::to_string(master_port_));
  set_variable(variables, "TALLY_JOB", start_.job);
  set_variable(variables, "TALLY_GENERATION", std::to_string(start_.generation));
  set_variable(variables, "TALLY_RESTART", std::to_string(start_.restart));
  for (const auto& [name, value] : hook_variables_) set_variable(variables, name, value);
  return variables;
}

void Attempt::launch_ranks() {
  if (launched_ || verdict_ || greeted_.size() < agents_.size() || master_port_ == 0) return;
  launched_ = true;
  start_by_ = Deadline::never();
  const Variables common = common_variables();
  Variables far = variables_to_pass_on(environment_with({}));
  for (const auto& [name, value] : common) set_variable(far, name, value);
  for (const auto& agent : agents_) {
    const auto lease = std::chrono::ceil<std::chrono::milliseconds>(options_.lease).count();
    // On this machine the end of the launcher closes the agent's stdin, so no lease is needed.
    agent->send(Launch{.command = options_.command,
                       .variables = agent->remote() ? far : common,
                       .folder = options_.folder,
                       .first_rank = agent->place().first,
                       .ranks = agent->place().count,
                       .binding = options_.binding,
                       .secret = start_.secret,
                       .lease_ms = agent->remote() ? static_cast<std::uint32_t>(lease) : 0});
  }
}

bool Attempt::running() const {
  if (give_up_at_.passed(clock_.now())) return false;
  if (verdict_ && !launched_) return false;
  return ended_ < static_cast<int>(ranks_.size());
}

Deadline Attempt::next_moment() const {
  Deadline next = earlier(earlier(kill_at_, give_up_at_), earlier(look_end_, ping_at_));
  if (!verdict_) next = earlier(next, earlier(by_, start_by_));
  return next;
}

void Attempt::step() {
  // While the job runs, a console that is full blocks the ranks. While the job ends, their output
  // is still read but no longer shown on a full console.
  const bool full = with_.console.full();
  const bool read = !full || verdict_;
  with_.output.hide(full);
  std::vector<pollfd> entries = {
      {.fd = with_.signals.descriptor(), .events = POLLIN, .revents = 0},
      {.fd = with_.console.room_descriptor(), .events = POLLIN, .revents = 0}};
  for (const auto& agent : agents_) agent->add_to(entries, read);
  ::poll(entries.data(), entries.size(), net::poll_timeout(next_moment()));
  if (entries[1].revents != 0) with_.console.note_room();
  take_signals();
  for (std::size_t host = 0; host < agents_.size(); ++host) {
    const auto outcome = agents_[host]->exchange(
        read, [this, host](const Message& message) { take(host, message); });
    if (!outcome) lose(host, outcome.error().message);
  }
  keep_time();
}

void Attempt::keep_time() {
  const TimePoint now = clock_.now();
  if (ping_at_.passed(now)) {
    tell_all(Ping{});
    const Duration interval = options_.lease / kPingsPerLease;
    // If the launcher itself was suspended, silence of the agents means nothing.
    const bool slept = now - ping_at_.when() > interval;
    ping_at_ = clock_.after(interval);
    for (std::size_t host = 0; host < agents_.size(); ++host) {
      AgentLink& agent = *agents_[host];
      if (slept) agent.forgive_silence();
      if (agent.remote() && agent.open() && now - agent.heard_at() > options_.lease)
        lose(host, "it has been silent for longer than the lease");
    }
  }
  if (!verdict_ && by_.passed(now)) stop(Kind::kTimedOut, SIGTERM);
  if (!verdict_ && start_by_.passed(now)) {
    std::string silent;
    for (const auto& agent : agents_)
      if (!agent->introduced()) silent += " " + agent->place().host;
    verdict_ = {.kind = Kind::kNotStarted,
                .reason = fmt::format("no answer within the time to start from:{}", silent)};
  }
  if (look_end_.passed(now)) {
    look_end_ = Deadline::never();
    if (!verdict_) {
      note_silent_ranks();
      stop(Kind::kRankFailed, SIGTERM);
    }
  }
  if (kill_at_.passed(now)) stop_now();
}

void Attempt::take_signals() {
  while (const auto number = with_.signals.next()) {
    if (*number == SIGTSTP) {
      pause();
      continue;
    }
    const bool again = verdict_ && verdict_->kind == Kind::kInterrupted;
    if (again || !launched_) with_.console.say("ending everything now");
    if (!again) {
      if (launched_)
        with_.console.say(
            fmt::format("{}: the ranks have {:.3g} s to stop; once more ends them now",
                        *number == SIGINT ? "interrupted" : "told to end",
                        std::chrono::duration<double>(options_.grace).count()));
      stop(Kind::kInterrupted, *number);
      verdict_->signal = *number;
    } else {
      stop_now();
    }
  }
}

// Ctrl-Z stops the ranks on all hosts before the launcher.
void Attempt::pause() {
  tell_all(Signal{.number = SIGSTOP});
  ::raise(SIGSTOP);
  for (const auto& agent : agents_) agent->forgive_silence();
  tell_all(Signal{.number = SIGCONT});
}

void Attempt::tell_all(const Message& message) {
  for (const auto& agent : agents_) agent->send(message);
}

// Records how the attempt ends and asks the ranks to stop.
void Attempt::stop(Kind kind, int signal) {
  verdict_ = {.kind = kind};
  if (options_.hooks.stopping) options_.hooks.stopping();
  look_end_ = Deadline::never();
  tell_all(Signal{.number = signal == SIGHUP ? SIGTERM : signal});
  kill_at_ = clock_.after(options_.grace);
}

void Attempt::stop_now() {
  kill_at_ = Deadline::never();
  give_up_at_ = earlier(give_up_at_, clock_.after(kGiveUpTime));
  tell_all(Signal{.number = SIGKILL});
}

// Agents end when their stdin does, and kill their descendants. Processes that they could not end
// are searched once more on this host.
void Attempt::end_agents() {
  for (const auto& agent : agents_) {
    agent->close();
    // An agent that never answered has started nothing.
    if (!agent->introduced()) agent->kill();
  }
  const Deadline by = clock_.after(kGiveUpTime);
  for (const auto& agent : agents_)
    if (!agent->ended_by(by))
      with_.console.say(fmt::format("the agent on {} does not end", agent->place().host));
  agents_.clear();
  kill_descendants(by, with_.bystanders);
}

std::string Attempt::host_of(Rank rank) const {
  return host_names_[ranks_[static_cast<std::size_t>(rank)].host];
}

}  // namespace tally::launch
