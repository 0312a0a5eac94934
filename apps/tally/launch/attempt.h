#pragma once
#include <poll.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "apps/tally/launch/agent_link.h"
#include "apps/tally/launch/descendants.h"
#include "apps/tally/launch/failure_summary.h"
#include "apps/tally/launch/job_console.h"
#include "apps/tally/launch/launch_signals.h"
#include "apps/tally/launch/launcher.h"
#include "apps/tally/launch/rank_output.h"
#include "apps/tally/launch/rank_watch.h"
#include "base/clock.h"

namespace tally::launch {

// How one start of a job ended.
struct AttemptEnd {
  enum class Kind {
    kDone,         // every rank exited with 0, except `failed` ranks that the job may go on without
    kRankFailed,   // the cause is the first of `failed`
    kHostLost,     // an agent was lost after the ranks were launched; see `reason`
    kNotStarted,   // the ranks could not be started; see `reason`
    kTimedOut,     // the deadline of the job passed
    kInterrupted,  // by `signal`
  };
  Kind kind = Kind::kDone;
  std::vector<RankEnd> failed;
  std::string reason;
  int signal = 0;
};

// One start of a job: an agent on each host and the ranks that the agents start, until all have
// ended. No process is left when run() returns. Threads: one.
class Attempt final {
 public:
  struct Surroundings {
    JobConsole& console;
    LaunchSignals& signals;
    RankOutput& output;
    RankWatch& watch;
    const Bystanders& bystanders;  // processes that must not be ended
  };

  Attempt(const LaunchOptions& options, const JobStart& start, const Surroundings& with,
          Deadline by);

  AttemptEnd run();

 private:
  struct RankState {
    std::size_t host = 0;  // index of its agent
    int pid = 0;
    bool ended = false;
  };

  // Starting.
  Result<void> start_agents();
  void launch_ranks();
  Variables common_variables() const;

  // The loop.
  bool running() const;
  void step();
  Deadline next_moment() const;
  void keep_time();
  void count_joined();
  void take_signals();
  void pause();
  void end_agents();

  // Messages of an agent.
  void take(std::size_t host, const Message& message);
  void on(std::size_t host, const Hello& hello);
  void on(std::size_t host, const Reserved& reserved);
  void on(std::size_t host, const Started& started);
  void on(std::size_t host, const Output& output);
  void on(std::size_t host, const Ended& ended);
  void on(std::size_t host, const Trouble& trouble);
  template <typename Other>
  void on(std::size_t /*host*/, const Other& /*message*/) {}
  std::vector<Rank> end_ranks_of(std::size_t host);
  void lose(std::size_t host, const std::string& why);
  bool belongs(Rank rank, std::size_t host) const;

  // Ending.
  void note_end(RankEnd end);
  void note_silent_ranks();
  void stop(AttemptEnd::Kind kind, int signal);
  void stop_now();
  void tell_all(const Message& message);
  RankState& of(Rank rank) { return ranks_[static_cast<std::size_t>(rank)]; }

  const LaunchOptions& options_;
  const JobStart start_;
  const Surroundings with_;
  const Deadline by_;
  const SteadyClock clock_;
  const std::string own_name_;

  std::vector<std::unique_ptr<AgentLink>> agents_;
  std::vector<std::string> host_names_;  // for messages
  std::set<std::size_t> greeted_;        // hosts whose agents sent Hello
  // The rendezvous of the ranks; the agent of the first host reserves the port.
  std::string master_address_;
  std::uint16_t master_port_ = 0;
  Variables watch_variables_;
  bool launched_ = false;  // the agents were told to start the ranks
  std::vector<RankState> ranks_;
  int ended_ = 0;      // ranks
  int succeeded_ = 0;  // ranks that exited with 0

  // Ranks that failed before they were asked to stop, in the order of the reports.
  std::vector<RankEnd> failed_;
  // Set as soon as the end is decided, while ranks may still be stopping; unset if all ranks end by
  // themselves.
  std::optional<AttemptEnd> verdict_;
  // The agents must have answered by then.
  Deadline start_by_ = Deadline::never();
  // Set by the first failure; failures until then are collected before the ranks are stopped.
  Deadline look_end_ = Deadline::never();
  Deadline long_look_end_ = Deadline::never();  // the same while the cause is not among them
  // Ranks that were asked to stop are killed at kill_at_; run() waits for them until give_up_at_.
  Deadline kill_at_ = Deadline::never();
  Deadline give_up_at_ = Deadline::never();
  Deadline ping_at_ = Deadline::never();
  Deadline count_at_ = Deadline::never();  // the next line about ranks that have not joined yet
};

}  // namespace tally::launch
