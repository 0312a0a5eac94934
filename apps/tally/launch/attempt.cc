#include "apps/tally/launch/attempt.h"

#include <algorithm>
#include <chrono>
#include <csignal>

#include <fmt/format.h>

#include "apps/tally/launch/remote.h"
#include "group/host.h"
#include "net/socket.h"
#include "process/child_process.h"

namespace tally::launch {
namespace {

using Kind = AttemptEnd::Kind;

// Time for killed ranks and agents to disappear.
constexpr auto kGiveUpTime = std::chrono::seconds(15);
// Time between lines about ranks that have not joined yet.
constexpr auto kCountInterval = std::chrono::seconds(5);
// Pings sent during one lease.
constexpr int kPingsPerLease = 6;
// Ranks that fail within this time after the first are examined together: a rank that lost a peer
// reports it within about 20 ms. It also lets them report before they are asked to stop.
constexpr auto kLook = std::chrono::milliseconds(200);
// While all of them say that they lost another rank, the launcher waits longer for the end of that
// rank, which may free much memory first.
constexpr auto kLongLook = std::chrono::seconds(5);

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
  with_.watch.end_servers();
  end_agents();
  if (verdict_ && verdict_->kind != Kind::kRankFailed) return *std::move(verdict_);
  const bool good = failed_.empty() || (options_.goes_on_without_failed && succeeded_ > 0);
  if (!good) {
    const auto cause = failed_.begin() + static_cast<std::ptrdiff_t>(choose_cause(failed_));
    std::rotate(failed_.begin(), cause, cause + 1);
  }
  return {.kind = good ? Kind::kDone : Kind::kRankFailed, .failed = std::move(failed_)};
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
  if (!with_.watch.needed()) return {};
  JobStart start = start_;
  TALLY_TRY(start.own_address, own_address(options_, own_name_));
  TALLY_TRY(watch_variables_, with_.watch.begin(start));
  return {};
}

Variables Attempt::common_variables() const {
  Variables variables = options_.variables;
  process::set_variable(variables, "WORLD_SIZE", std::to_string(options_.size()));
  process::set_variable(variables, "MASTER_ADDR", master_address_);
  process::set_variable(variables, "MASTER_PORT", std::to_string(master_port_));
  process::set_variable(variables, "TALLY_JOB", options_.job);
  process::set_variable(variables, "TALLY_GENERATION", std::to_string(start_.generation));
  process::set_variable(variables, "TALLY_RESTART", std::to_string(start_.restart));
  process::set_variable(variables, "TALLY_RUN", start_.run);
  for (const auto& [name, value] : watch_variables_) process::set_variable(variables, name, value);
  if (options_.lost_peer_code != 0)
    process::set_variable(variables, "TALLY_LOST_PEER_CODE",
                          std::to_string(options_.lost_peer_code));
  return variables;
}

void Attempt::launch_ranks() {
  if (launched_ || verdict_ || greeted_.size() < agents_.size() || master_port_ == 0) return;
  launched_ = true;
  start_by_ = Deadline::never();
  if (options_.counts_joined && options_.watch.enabled) count_at_ = clock_.after(kCountInterval);
  const Variables common = common_variables();
  Variables far = variables_to_pass_on(process::environment_with({}));
  for (const auto& [name, value] : common) process::set_variable(far, name, value);
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
  next = earlier(next, count_at_);
  if (!verdict_) next = earlier(next, earlier(by_, start_by_));
  return earlier(next, with_.output.show_begun_at());
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
  if (with_.output.show_begun_at().passed(now)) with_.output.show_begun();
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
    const bool no_cause = std::all_of(failed_.begin(), failed_.end(),
                                      [](const RankEnd& end) { return end.lost_peer; });
    const bool waits = no_cause && !long_look_end_.passed(now);
    look_end_ = waits ? clock_.after(kLook) : Deadline::never();
    if (!verdict_ && !waits) {
      note_silent_ranks();
      stop(Kind::kRankFailed, SIGTERM);
    }
  }
  if (kill_at_.passed(now)) stop_now();
  if (count_at_.passed(now)) count_joined();
}

void Attempt::count_joined() {
  count_at_ = Deadline::never();
  const std::size_t joined = with_.watch.joined();
  if (verdict_ || !failed_.empty() || joined >= ranks_.size()) return;
  with_.console.say(fmt::format("starting {} workers: {} have joined", ranks_.size(), joined));
  count_at_ = clock_.after(kCountInterval);
}

void Attempt::take_signals() {
  while (const auto number = with_.signals.next()) {
    if (*number == SIGTSTP) {
      pause();
      continue;
    }
    const bool again = verdict_ && verdict_->kind == Kind::kInterrupted;
    if (again || !launched_)
      with_.console.say("ending everything now");
    else
      with_.console.say(fmt::format("{}: the ranks have {:.3g} s to stop; once more ends them now",
                                    *number == SIGINT ? "interrupted" : "told to end",
                                    std::chrono::duration<double>(options_.grace).count()));
    if (again) {
      stop_now();
      continue;
    }
    stop(Kind::kInterrupted, *number);
    verdict_->signal = *number;
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
  with_.watch.quiet();
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

void Attempt::take(std::size_t host, const Message& message) {
  std::visit([this, host](const auto& each) { on(host, each); }, message);
}

bool Attempt::belongs(Rank rank, std::size_t host) const {
  return rank >= 0 && rank < options_.size() && ranks_[static_cast<std::size_t>(rank)].host == host;
}

void Attempt::on(std::size_t host, const Hello& hello) {
  if (hello.version != kVersion) {
    verdict_ = {
        .kind = Kind::kNotStarted,
        .reason = fmt::format("tally on {} speaks version {} and this one {}: install the same",
                              host_names_[host], hello.version, kVersion)};
    return;
  }
  greeted_.insert(host);
  launch_ranks();
}

void Attempt::on(std::size_t host, const Reserved& reserved) {
  // Only the first host was asked.
  if (host != 0) return;
  master_port_ = reserved.port;
  launch_ranks();
}

void Attempt::on(std::size_t host, const Started& started) {
  if (!belongs(started.rank, host)) return;
  of(started.rank).pid = started.pid;
  if (options_.verbose)
    with_.console.say(
        fmt::format("rank {} is pid {} on {}", started.rank, started.pid, host_names_[host]));
}

void Attempt::on(std::size_t host, const Output& output) {
  if (belongs(output.rank, host)) with_.output.add(output);
}

void Attempt::on(std::size_t host, const Ended& ended) {
  if (!belongs(ended.rank, host) || of(ended.rank).ended) return;
  note_end({.rank = ended.rank,
            .host = host_names_[host],
            .pid = of(ended.rank).pid,
            .code = ended.code,
            .signal = ended.signal,
            .note = ended.note,
            .lost_peer = ended.signal == 0 && options_.lost_peer_code != 0 &&
                         ended.code == options_.lost_peer_code});
}

void Attempt::note_end(RankEnd end) {
  of(end.rank).ended = true;
  ++ended_;
  with_.output.finish(end.rank);
  if (end.code == 0 && end.signal == 0) {
    ++succeeded_;
    return;
  }
  with_.watch.rank_failed(end.rank, describe(end));
  // After the ranks were asked to stop, the end of one says nothing about the cause.
  if (verdict_) return;
  const int left = static_cast<int>(ranks_.size()) - ended_;
  // Where a rank lost a server, the others may have lost it as well.
  if (options_.goes_on_without_failed && left > 0 && !end.lost_peer)
    with_.console.say(
        fmt::format("rank {} on {} {}; {} without it", end.rank, end.host, describe(end),
                    left == 1 ? "the other goes on" : fmt::format("the other {} go on", left)));
  if (!options_.goes_on_without_failed && failed_.empty()) {
    look_end_ = clock_.after(kLook);
    long_look_end_ = clock_.after(kLongLook);
  }
  failed_.push_back(std::move(end));
}

// Called before the ranks are asked to stop, because that also continues stopped ranks. Ranks that
// have ended have already been reported.
void Attempt::note_silent_ranks() {
  for (const SilentRank& silent : with_.watch.silent_ranks()) {
    const RankState& state = of(silent.rank);
    if (state.ended) continue;
    const bool here = !agents_[state.host]->remote();
    failed_.push_back(
        {.rank = silent.rank,
         .host = host_names_[state.host],
         .pid = state.pid,
         .lost = fmt::format("not heard of for {:.1f} s{}",
                             std::chrono::duration<double>(silent.silence).count(),
                             here && is_stopped(state.pid) ? " (the process is stopped)" : "")});
  }
}

void Attempt::on(std::size_t host, const Trouble& trouble) {
  if (verdict_) return;
  const std::string reason = fmt::format("host {}: {}", host_names_[host], trouble.text);
  if (launched_) stop(Kind::kNotStarted, SIGTERM);
  verdict_ = {.kind = Kind::kNotStarted, .reason = reason};
  end_ranks_of(host);  // no rank of this host will report its end
}

// Counts the running ranks of a host as ended and returns them.
std::vector<Rank> Attempt::end_ranks_of(std::size_t host) {
  std::vector<Rank> ended;
  for (Rank rank = 0; rank < options_.size(); ++rank) {
    if (of(rank).host != host || of(rank).ended) continue;
    of(rank).ended = true;
    ended.push_back(rank);
  }
  ended_ += static_cast<int>(ended.size());
  return ended;
}

void Attempt::lose(std::size_t host, const std::string& why) {
  const std::string reason = fmt::format(
      "{} {}: {}", launched_ ? "lost host" : "cannot start the agent on", host_names_[host], why);
  agents_[host]->close();
  for (const Rank rank : end_ranks_of(host)) {
    with_.output.finish(rank);
    with_.watch.rank_failed(rank, "is on a host that was lost");
  }
  if (verdict_) return;
  if (launched_) stop(Kind::kHostLost, SIGTERM);
  verdict_ = {.kind = launched_ ? Kind::kHostLost : Kind::kNotStarted, .reason = reason};
}

}  // namespace tally::launch
