// The handlers of an Attempt for messages of agents.
#include <chrono>
#include <csignal>

#include <fmt/format.h>

#include "apps/tally/launch/attempt.h"

namespace tally::launch {
namespace {

using AttemptMessagesKind = AttemptEnd::Kind;

// Ranks that fail within this time after the first are examined together: a rank that lost a peer
// reports it within about 20 ms. It also lets them report before they are asked to stop.
constexpr auto kLook = std::chrono::milliseconds(200);

}  // namespace

void Attempt::take(std::size_t host, const Message& message) {
  std::visit([this, host](const auto& each) { on(host, each); }, message);
}

bool Attempt::belongs(Rank rank, std::size_t host) const {
  return rank >= 0 && rank < options_.size() && ranks_[static_cast<std::size_t>(rank)].host == host;
}

void Attempt::on(std::size_t host, const Hello& hello) {
  if (hello.version != kVersion) {
    verdict_ = {
        .kind = AttemptMessagesKind::kNotStarted,
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
            .note = ended.note});
}

void Attempt::note_end(RankEnd end) {
  of(end.rank).ended = true;
  ++ended_;
  with_.output.finish(end.rank);
  if (end.code == 0 && end.signal == 0) {
    ++succeeded_;
    return;
  }
  if (options_.hooks.rank_failed) options_.hooks.rank_failed(end.rank, describe(end));
  // After the ranks were asked to stop, the end of one says nothing about the cause.
  if (verdict_) return;
  if (options_.goes_on_without_failed) {
    const int left = static_cast<int>(ranks_.size()) - ended_;
    if (left > 0)
      with_.console.say(fmt::format("rank {} on {} {}; the other {} go on without it", end.rank,
                                    end.host, describe(end), left));
    failed_.push_back(std::move(end));
    return;
  }
  if (failed_.empty()) look_end_ = clock_.after(kLook);
  failed_.push_back(std::move(end));
}

// Called before the ranks are asked to stop, because that also continues stopped ranks. Ranks that
// have ended have already been reported.
void Attempt::note_silent_ranks() {
  if (!options_.hooks.silent_ranks) return;
  for (const SilentRank& silent : options_.hooks.silent_ranks()) {
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
  if (launched_) stop(AttemptMessagesKind::kNotStarted, SIGTERM);
  verdict_ = {.kind = AttemptMessagesKind::kNotStarted, .reason = reason};
  // The launcher's loop has no rank that could end.
  for (Rank rank = 0; rank < options_.size(); ++rank) {
    if (of(rank).host != host || of(rank).ended) continue;
    of(rank).ended = true;
    ++ended_;
  }
}

void Attempt::lose(std::size_t host, const std::string& why) {
  const std::string reason = fmt::format(
      "{} {}: {}", launched_ ? "lost host" : "cannot start the agent on", host_names_[host], why);
  agents_[host]->close();
  for (Rank rank = 0; rank < options_.size(); ++rank) {
    if (of(rank).host != host || of(rank).ended) continue;
    of(rank).ended = true;
    ++ended_;
    with_.output.finish(rank);
    if (options_.hooks.rank_failed) options_.hooks.rank_failed(rank, "is on a host that was lost");
  }
  if (verdict_) return;
  if (launched_) stop(AttemptMessagesKind::kHostLost, SIGTERM);
  verdict_ = {.kind = launched_ ? AttemptMessagesKind::kHostLost : AttemptMessagesKind::kNotStarted,
              .reason = reason};
}

}  // namespace tally::launch
