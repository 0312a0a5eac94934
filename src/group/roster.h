#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "group/report.h"

namespace tally::group {

enum class EventKind {
  kJoined,
  kUnreachable,
  kRecovered,  // ranks that report again, or a stall that is over
  kLost,
  kStalled,
  kMismatch,
  kRefused,
  kLeft,
};

// An event in the life of a job, for the person who watches it.
struct CoordinatorEvent {
  EventKind kind = EventKind::kJoined;
  std::vector<Rank> ranks;
  std::string sentence;  // one line for a person
  Duration silence{};    // of the ranks that did not report

  friend bool operator==(const CoordinatorEvent&, const CoordinatorEvent&) = default;
};

enum class Presence : std::uint8_t {
  kExpected,  // has not registered yet, or not again yet
  kPresent,
  kUnreachable,  // too many heartbeats are missing
  kLost,         // for the rest of this generation
  kLeft,         // in good order
};

std::string_view to_string(Presence presence);

// The known facts about one rank.
struct Member {
  Rank rank = 0;
  Presence presence = Presence::kExpected;
  std::string host;
  std::int64_t pid = 0;
  bool watched = false;  // process_ended() will report its end
  // Of a watched process, for the next coordinator: host_identity("") and LocalProcess::started().
  std::string host_identity;
  std::uint64_t started = 0;
  TimePoint heard{};  // time of the last message, on the roster's clock
  bool reported = false;
  Report report;     // the last one, if `reported`
  std::string fate;  // why it is lost

  // "rank 2 (host b, pid 4711)", or less if less is known.
  std::string text() const;
};

// The ranks of one generation of a job and whether they are alive. Pure: the caller passes in every
// event and the time. The functions return the resulting events, for people and for the other
// ranks.
class Roster {
 public:
  struct Options {
    int size = 1;
    std::uint32_t generation = 1;
    Duration heartbeat = std::chrono::seconds(1);
    int missed_heartbeats = 3;
    // Time of silence after which a rank is lost, at least the missed heartbeats. Zero: the missed
    // heartbeats for ranks whose process is not watched; the others are not lost by silence.
    Duration lost_after{};
  };
  using Events = std::vector<CoordinatorEvent>;

  explicit Roster(const Options& options);

  // Takes over the members of an earlier coordinator. Those that were present are expected back
  // within `grace`.
  void expect(const std::vector<Member>& members, TimePoint now, Duration grace);

  // kRefused if there is no such rank, or another process is that rank already.
  Result<Events> registered(Rank rank, const std::string& host, std::int64_t pid, TimePoint now);
  // The caller watches the process of this registered or expected rank and reports its end. While
  // the process lives, it may be stopped or starved: the rank is reported as silent, but not lost.
  void watch_process_of(Rank rank, const std::string& host_identity, std::uint64_t started) {
    Member& who = member(rank);
    who.watched = true;
    who.host_identity = host_identity;
    who.started = started;
  }
  Events reported(const Report& report, TimePoint now);
  Events connection_closed(Rank rank, TimePoint now);
  Events process_ended(Rank rank, const std::string& how, TimePoint now);
  Events left(Rank rank, TimePoint now);
  // Call it a few times in each heartbeat. A gap of more than one heartbeat between two calls means
  // that the caller itself was stopped; that time does not count as silence of any rank.
  Events tick(TimePoint now);
  // The time at which tick() declares the next rank lost if no message arrives until then.
  TimePoint next_loss() const;

  const Options& options() const { return options_; }
  const std::vector<Member>& members() const { return members_; }
  bool knows(Rank rank) const { return rank >= 0 && rank < options_.size; }
  // The mean over the last few heartbeats.
  double samples_per_second(Rank rank) const;

 private:
  struct Count {
    TimePoint at;
    std::uint64_t samples;
  };
  Member& member(Rank rank) { return members_[static_cast<std::size_t>(rank)]; }
  const Member& member(Rank rank) const { return members_[static_cast<std::size_t>(rank)]; }
  Events lose(const std::vector<Rank>& ranks, const std::string& why);
  void add_rest_of_host(std::vector<Rank>& ranks, Duration limit, TimePoint now) const;
  // "ranks 2, 3 on host b have not been heard of for 3.0 s: ...", one sentence for each host, or
  // two if the job waits for some of its ranks only.
  std::vector<CoordinatorEvent> by_host(const std::vector<Rank>& silent, EventKind kind,
                                        TimePoint now) const;
  Duration patience() const;
  // Whether silence is no loss.
  bool waits_for(const Member& who) const {
    return who.watched && options_.lost_after == Duration::zero();
  }

  const Options options_;
  std::vector<Member> members_;
  std::vector<std::deque<Count>> counts_;
  TimePoint last_tick_{};
};

}  // namespace tally::group
