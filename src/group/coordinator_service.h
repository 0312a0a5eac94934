#pragma once
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "group/control.h"
#include "group/local_process.h"
#include "group/refusals.h"
#include "group/roster.h"
#include "group/stall.h"
#include "group/state_file.h"
#include "group/watch_message.h"
#include "net/acceptor.h"
#include "net/socket.h"
#include "tally/job.h"

namespace tally::group {

struct CoordinatorOptions {
  std::string job;  // for `tally status`; is_job_name() holds
  int size = 1;
  std::uint32_t generation = 1;
  net::Address listen{.host = "127.0.0.1", .port = 0};
  std::optional<Secret> secret;  // set: TLS; not set: the coordinator listens on loopback only
  // Empty: none. If the file exists and its job is this one and not over, the coordinator takes
  // generation and members from it.
  std::string state_file;
  Duration heartbeat = std::chrono::seconds(1);
  // A rank counts as unreachable, and is reported, after this many.
  int missed_heartbeats = 3;
  // Zero: an unreachable rank is lost at once, unless its process lives on this host: the job waits
  // for a stopped or starved process. Longer: an unreachable rank of any host is lost once it has
  // been silent for this long, since a network link may recover.
  Duration lost_after{};
  Duration stall_warning = std::chrono::seconds(10);
};

// One connection to a coordinator, and the facts about its peer.
struct CoordinatorSession {
  enum class Role { kUnknown, kRank, kObserver };

  CoordinatorSession(net::Arrival arrival, TimePoint now);

  net::MessageConnection connection;
  const std::string from;  // for people
  const TimePoint opened;
  net::Place place;  // released once the peer is known
  Role role = Role::kUnknown;
  bool over = false;  // to be dropped once everything has been sent
  bool dead = false;  // to be dropped now
  TimePoint over_since{};

  // For a rank.
  Rank rank = kNoRank;
  std::uint32_t generation = 0;
  std::int64_t pid = 0;
  std::string host;
  LocalProcess process;

  // For an observer: the ranks whose traces it still waits for, and the deadline.
  std::set<Rank> awaited;
  TimePoint traces_by{};

  // Same machine and user: an observer, never a rank.
  bool local() const { return connection.stream().local(); }
  bool is_rank_of(std::uint32_t of) const {
    return role == Role::kRank && generation == of && !over && !dead;
  }
  // Queues a message, whose body may be empty.
  template <typename Body>
  void tell(ControlKind kind, const Body& body) {
    send(connection, message_of(kind, body));
  }
  void tell(ControlKind kind) { send(connection, {kind, {}}); }
  void refuse(const Error& why, TimePoint now);
};

// Handles the messages of a coordinator's connections: keeps the roster, tells the ranks which
// ranks are lost, diagnoses stalls, answers observers. Threads: one.
class CoordinatorService final {
 public:
  using OnEvent = std::function<void(const CoordinatorEvent&)>;
  using Sessions = std::list<std::unique_ptr<CoordinatorSession>>;

  CoordinatorService(const CoordinatorOptions& options, std::string address, OnEvent on_event,
                     TimePoint now);
  // Continues from the saved state of an earlier coordinator.
  void resume(const SavedState& state, TimePoint now);

  Sessions& sessions() { return sessions_; }
  // Reads, handles and answers the messages of one connection.
  void serve(CoordinatorSession& session, TimePoint now);
  void begin_generation(std::uint32_t generation, int size);
  void process_ended(Rank rank, const std::string& how, TimePoint now);
  // Queues a sentence for on_event.
  void say(std::string sentence) {
    pending_.push_back({EventKind::kRefused, {}, std::move(sentence)});
  }
  // Reports that a connection was refused.
  void refused(const std::string& from, const std::string& why, TimePoint now);
  // Handles timeouts; call it a few times in each heartbeat.
  void tick(TimePoint now);
  TimePoint next_loss() const { return roster_->next_loss(); }
  // Saves the state if it has changed, calls on_event, and removes sessions that are over. Call it
  // after each round of the above.
  void tidy(TimePoint now);

 private:
  using Events = Roster::Events;
  std::uint32_t generation() const { return roster_->options().generation; }

  Result<void> handle(CoordinatorSession& session, const ControlMessage& message, TimePoint now);
  Result<void> handle_rank(CoordinatorSession& session, const ControlMessage& message,
                           TimePoint now);
  Result<void> take_registration(CoordinatorSession& session, const Registration& who,
                                 TimePoint now);
  Result<void> take_report(CoordinatorSession& session, const ControlMessage& message,
                           TimePoint now);
  void take_trace(const ControlMessage& message, const Trace& trace);
  void ended(CoordinatorSession& session, const Error& why, TimePoint now);
  void answer_status(CoordinatorSession& session, TimePoint now);
  void ask_traces(CoordinatorSession& session, TimePoint now);
  void look_for_stalls(TimePoint now);
  void tell(const Events& events);
  void save();

  const CoordinatorOptions options_;
  const std::string address_;
  const OnEvent on_event_;
  const TimePoint started_;
  const std::string machine_;
  std::unique_ptr<Roster> roster_;
  StallWatch stalls_;
  Refusals refusals_;
  Sessions sessions_;
  // Processes of ranks that an earlier coordinator watched and that have not registered again.
  std::map<Rank, LocalProcess> returning_;
  Events pending_;        // for on_event, once the state is saved
  bool changed_ = false;  // since the state was saved
};

}  // namespace tally::group
