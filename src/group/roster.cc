#include "group/roster.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/errors.h"
#include "base/names.h"

namespace tally::group {
namespace {

// The number of reports over which throughput is measured.
constexpr std::size_t kCounts = 6;
// A gap between two ticks, in heartbeats, after which the coordinator itself was stopped.
constexpr int kOwnGap = 1;

bool gone(Presence presence) { return presence == Presence::kLost || presence == Presence::kLeft; }

}  // namespace

std::string_view to_string(Presence presence) {
  return name_in<Presence::kLeft>({"expected", "present", "unreachable", "lost", "left"}, presence);
}

std::string Member::text() const {
  if (host.empty()) return fmt::format("rank {}", rank);
  return fmt::format("rank {} (host {}, pid {})", rank, host, pid);
}

Roster::Roster(const Options& options)
    : options_(options),
      members_(static_cast<std::size_t>(options.size)),
      counts_(members_.size()) {
  for (Rank rank = 0; rank < options_.size; ++rank) member(rank).rank = rank;
}

void Roster::expect(const std::vector<Member>& members, TimePoint now, Duration grace) {
  for (const Member& known : members) {
    if (!knows(known.rank)) continue;
    Member& mine = member(known.rank);
    mine.presence = known.presence;
    mine.host = known.host;
    mine.pid = known.pid;
    mine.fate = known.fate;
    // The rank counts as heard of later by this, so that its silence begins to count then.
    mine.heard = now + grace;
    if (!gone(mine.presence)) mine.presence = Presence::kExpected;
  }
}

Result<Roster::Events> Roster::registered(Rank rank, const std::string& host, std::int64_t pid,
                                          TimePoint now) {
  if (!knows(rank))
    return make_error(ErrorCode::kRefused, rank, "there is no rank {} in a job of {}", rank,
                      options_.size);
  Member& who = member(rank);
  const bool same = who.pid == pid && who.host == host;
  if (!same && (who.presence == Presence::kPresent || who.presence == Presence::kUnreachable))
    return make_error(ErrorCode::kRefused, rank, "{} is there already", who.text());
  if (same && who.presence == Presence::kLost)
    return make_error(ErrorCode::kRefused, rank, "rank {} counts as lost: {}", rank, who.fate);
  const Presence before = who.presence;
  // A rank of an earlier coordinator registers again, or a rank has reconnected.
  const bool known = same && !gone(before);
  who.presence = Presence::kPresent;
  who.host = host;
  who.pid = pid;
  who.watched = false;
  who.host_identity.clear();
  who.started = 0;
  who.heard = now;
  who.fate.clear();
  if (before == Presence::kUnreachable) {
    return Events{{EventKind::kRecovered, {rank}, fmt::format("{} is heard of again", who.text())}};
  }
  if (before == Presence::kPresent) return Events{};
  who.reported = false;
  counts_[static_cast<std::size_t>(rank)].clear();
  return Events{{EventKind::kJoined,
                 {rank},
                 fmt::format("{} {}", who.text(), known ? "is back" : "has joined")}};
}

Roster::Events Roster::reported(const Report& report, TimePoint now) {
  if (!knows(report.rank) || report.generation != options_.generation) return {};
  Member& who = member(report.rank);
  if (gone(who.presence) || who.presence == Presence::kExpected) return {};
  const Duration silence = now - who.heard;
  who.heard = now;
  who.report = report;
  who.reported = true;
  auto& counts = counts_[static_cast<std::size_t>(report.rank)];
  counts.push_back({report.at, report.samples});
  if (counts.size() > kCounts) counts.pop_front();
  if (who.presence == Presence::kPresent) return {};
  who.presence = Presence::kPresent;
  return {{EventKind::kRecovered,
           {who.rank},
           fmt::format("{} is heard of again after {}", who.text(), seconds_text(silence))}};
}

Roster::Events Roster::lose(const std::vector<Rank>& ranks, const std::string& why) {
  for (const Rank rank : ranks) {
    member(rank).presence = Presence::kLost;
    member(rank).fate = why;
  }
  const std::string who = ranks.size() == 1 ? member(ranks.front()).text() : ranks_text(ranks);
  return {{EventKind::kLost, ranks,
           fmt::format("{} {} lost: {}", who, ranks.size() == 1 ? "is" : "are", why)}};
}

Roster::Events Roster::connection_closed(Rank rank, TimePoint) {
  if (!knows(rank) || gone(member(rank).presence)) return {};
  return lose({rank}, "its connection ended without a goodbye");
}

Roster::Events Roster::process_ended(Rank rank, const std::string& how, TimePoint) {
  if (!knows(rank) || gone(member(rank).presence)) return {};
  return lose({rank}, fmt::format("its process {}", how));
}

Roster::Events Roster::left(Rank rank, TimePoint now) {
  if (!knows(rank) || gone(member(rank).presence)) return {};
  Member& who = member(rank);
  who.presence = Presence::kLeft;
  who.heard = now;
  std::string sentence = fmt::format("{} has left", who.text());
  if (who.reported && who.report.failure)
    sentence += fmt::format(" after {}", to_string(*who.report.failure));
  return {{EventKind::kLeft, {rank}, std::move(sentence)}};
}

Duration Roster::patience() const { return options_.missed_heartbeats * options_.heartbeat; }

std::vector<CoordinatorEvent> Roster::by_host(const std::vector<Rank>& silent, EventKind kind,
                                              TimePoint now) const {
  std::map<std::pair<std::string, bool>, std::vector<Rank>> hosts;
  for (const Rank rank : silent)
    hosts[{member(rank).host, waits_for(member(rank))}].push_back(rank);
  std::vector<CoordinatorEvent> events;
  for (const auto& [where, ranks] : hosts) {
    const auto& [host, waits] = where;
    TimePoint heard = member(ranks.front()).heard;
    for (const Rank rank : ranks) heard = std::max(heard, member(rank).heard);
    // A host whose ranks are all silent is more likely cut off than full of hanging processes.
    const bool whole_host =
        !waits && ranks.size() > 1 &&
        std::none_of(members_.begin(), members_.end(),
                     [&host = host, &ranks = ranks](const Member& each) {
                       return each.host == host && each.presence == Presence::kPresent &&
                              std::find(ranks.begin(), ranks.end(), each.rank) == ranks.end();
                     });
    const bool one = ranks.size() == 1;
    std::string more;
    if (whole_host) more = fmt::format(": the link to host {} may be cut", host);
    if (waits)
      more = one ? "; its process lives, the job waits for it"
                 : "; their processes live, the job waits for them";
    events.push_back({kind, ranks,
                      fmt::format("{} on host {} {} not been heard of for {}{}", ranks_text(ranks),
                                  host, one ? "has" : "have", seconds_text(now - heard), more),
                      now - heard});
  }
  return events;
}

// Ranks of a host report at different moments. Where all of them have fallen silent, those that
// have a heartbeat less on their count are behind the same cut as the first.
void Roster::add_rest_of_host(std::vector<Rank>& ranks, Duration limit, TimePoint now) const {
  std::set<std::string> hosts;
  for (const Rank rank : ranks) hosts.insert(member(rank).host);
  for (const std::string& host : hosts) {
    std::vector<Rank> all;
    bool silent = true;
    for (const Member& each : members_) {
      if (each.host != host || gone(each.presence) || each.heard == TimePoint{}) continue;
      all.push_back(each.rank);
      silent = silent && now - each.heard >= limit - options_.heartbeat;
    }
    if (!silent) continue;
    for (const Rank rank : all)
      if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) ranks.push_back(rank);
  }
  std::sort(ranks.begin(), ranks.end());
}

Roster::Events Roster::tick(TimePoint now) {
  const Duration gap = last_tick_ == TimePoint{} ? Duration{} : now - last_tick_;
  last_tick_ = now;
  if (gap > kOwnGap * options_.heartbeat) {
    for (Member& each : members_)
      if (each.heard != TimePoint{}) each.heard = std::min(now, each.heard + gap);
  }
  const Duration lost_after = std::max(patience(), options_.lost_after);
  std::vector<Rank> silent;
  std::vector<Rank> lost;
  for (const Member& each : members_) {
    // A rank that has never registered may still be starting.
    if (gone(each.presence) || each.heard == TimePoint{}) continue;
    const Duration silence = now - each.heard;
    if (silence >= lost_after && !waits_for(each)) {
      lost.push_back(each.rank);
    } else if (silence >= patience() && each.presence != Presence::kUnreachable) {
      silent.push_back(each.rank);
    }
  }
  add_rest_of_host(silent, patience(), now);
  add_rest_of_host(lost, lost_after, now);
  std::erase_if(lost, [this](Rank rank) { return waits_for(member(rank)); });
  std::erase_if(silent, [&](Rank rank) {
    return member(rank).presence == Presence::kUnreachable ||
           std::find(lost.begin(), lost.end(), rank) != lost.end();
  });
  Events events = by_host(silent, EventKind::kUnreachable, now);
  for (const Rank rank : silent) member(rank).presence = Presence::kUnreachable;
  for (CoordinatorEvent& event : by_host(lost, EventKind::kLost, now)) {
    for (const Rank rank : event.ranks)
      member(rank).fate =
          fmt::format("not heard of for {}", seconds_text(now - member(rank).heard));
    event.sentence += event.ranks.size() == 1 ? "; it is lost" : "; they are lost";
    events.push_back(std::move(event));
  }
  for (const Rank rank : lost) member(rank).presence = Presence::kLost;
  return events;
}

TimePoint Roster::next_loss() const {
  const Duration lost_after = std::max(patience(), options_.lost_after);
  TimePoint next = TimePoint::max();
  for (const Member& each : members_) {
    if (gone(each.presence) || each.heard == TimePoint{}) continue;
    const bool reported = each.presence == Presence::kUnreachable;
    if (reported && waits_for(each)) continue;
    next = std::min(next, each.heard + (reported ? lost_after : patience()));
  }
  return next;
}

double Roster::samples_per_second(Rank rank) const {
  const auto& counts = counts_[static_cast<std::size_t>(rank)];
  if (counts.size() < 2 || counts.back().at <= counts.front().at ||
      counts.back().samples < counts.front().samples)
    return 0;
  const double seconds =
      std::chrono::duration<double>(counts.back().at - counts.front().at).count();
  return static_cast<double>(counts.back().samples - counts.front().samples) / seconds;
}

}  // namespace tally::group
