#include "group/coordinator_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "base/log.h"
#include "group/host.h"

namespace tally::group {
namespace {

using Role = CoordinatorSession::Role;

// A connection that has not identified itself after this time is closed.
constexpr Duration kIntroductionTime = std::chrono::seconds(3);
// Time for sending the reason to a peer that is refused.
constexpr Duration kCloseTime = std::chrono::seconds(1);
constexpr Duration kTraceTime = std::chrono::seconds(2);
// Ranks of an earlier coordinator reconnect within their longest pause between two attempts.
constexpr Duration kReturnTime = std::chrono::seconds(5);
// The status of a job of thousands of ranks has some megabytes.
constexpr std::size_t kMaxUnsentBytes = std::size_t{16} << 20;

Roster::Options roster_options(const CoordinatorOptions& options, std::uint32_t generation,
                               int size) {
  return {.size = size,
          .generation = generation,
          .heartbeat = options.heartbeat,
          .missed_heartbeats = options.missed_heartbeats,
          .lost_after = options.lost_after};
}

}  // namespace

CoordinatorSession::CoordinatorSession(net::Arrival arrival, TimePoint now)
    : connection(std::move(arrival.stream), {.max_unsent_bytes = kMaxUnsentBytes}),
      from(std::move(arrival.from)),
      opened(now),
      place(std::move(arrival.place)) {}

void CoordinatorSession::refuse(const Error& why, TimePoint now) {
  tell(ControlKind::kRefusal, why);
  over = true;
  over_since = now;
}

CoordinatorService::CoordinatorService(const CoordinatorOptions& options, std::string address,
                                       OnEvent on_event, TimePoint now)
    : options_(options),
      address_(std::move(address)),
      on_event_(std::move(on_event)),
      started_(now),
      machine_(machine_identity()),
      roster_(std::make_unique<Roster>(roster_options(options, options.generation, options.size))) {
}

void CoordinatorService::resume(const SavedState& state, TimePoint now) {
  roster_ = std::make_unique<Roster>(roster_options(options_, state.generation, state.size));
  roster_->expect(state.members, now, kReturnTime);
  // A rank may be stopped, and register again much later.
  for (const Member& member : state.members) {
    const bool gone = member.presence == Presence::kLost || member.presence == Presence::kLeft;
    if (gone || member.started == 0 || !roster_->knows(member.rank)) continue;
    LocalProcess process(member.host_identity, static_cast<pid_t>(member.pid), member.started);
    if (!process.known()) continue;
    roster_->watch_process_of(member.rank, member.host_identity, member.started);
    returning_[member.rank] = std::move(process);
  }
}

void CoordinatorService::begin_generation(std::uint32_t generation, int size) {
  roster_ = std::make_unique<Roster>(roster_options(options_, generation, size));
  returning_.clear();
  stalls_.forget();
  changed_ = true;
}

void CoordinatorService::process_ended(Rank rank, const std::string& how, TimePoint now) {
  tell(roster_->process_ended(rank, how, now));
}

void CoordinatorService::serve(CoordinatorSession& session, TimePoint now) {
  if (session.dead) return;
  auto messages = advance(session.connection);
  if (!messages.has_value()) return ended(session, messages.error(), now);
  for (const ControlMessage& message : *messages) {
    if (session.over || session.dead) return;
    const auto handled = handle(session, message, now);
    if (handled.has_value()) continue;
    refused(session.from, handled.error().message, now);
    session.refuse(handled.error(), now);
  }
}

Result<void> CoordinatorService::handle(CoordinatorSession& session, const ControlMessage& message,
                                        TimePoint now) {
  if (session.role == Role::kRank) return handle_rank(session, message, now);
  if (message.kind == ControlKind::kAskStatus || message.kind == ControlKind::kAskTrace) {
    session.role = Role::kObserver;
    message.kind == ControlKind::kAskStatus ? answer_status(session, now)
                                            : ask_traces(session, now);
    return {};
  }
  if (session.role == Role::kObserver)
    return make_error(ErrorCode::kRefused, "an observer only asks");
  if (message.kind != ControlKind::kRegister || session.local())
    return make_error(ErrorCode::kRefused, "it did not say who it is");
  TALLY_TRY(const Registration who, body_of<Registration>(message));
  return take_registration(session, who, now);
}

Result<void> CoordinatorService::take_registration(CoordinatorSession& session,
                                                   const Registration& who, TimePoint now) {
  if (!who.job.empty() && !options_.job.empty() && who.job != options_.job)
    return make_error(ErrorCode::kRefused, "rank {} belongs to job {}, this is {}", who.rank,
                      who.job, options_.job);
  if (who.generation < generation())
    return make_error(ErrorCode::kRefused, "rank {} is of generation {}, the job is at {}",
                      who.rank, who.generation, generation());
  // Surviving ranks that formed a new generation among themselves announce it.
  if (who.generation > generation()) {
    begin_generation(who.generation, who.size);
    pending_.push_back(
        {EventKind::kJoined,
         {},
         fmt::format("generation {} begins, with {} ranks", who.generation, who.size)});
  }
  if (who.size != roster_->options().size)
    return make_error(ErrorCode::kRefused, "rank {} counts {} ranks, the job has {}", who.rank,
                      who.size, roster_->options().size);
  auto events = roster_->registered(who.rank, who.host, who.pid, now);
  if (!events.has_value()) {
    const Member& known = roster_->members()[static_cast<std::size_t>(who.rank)];
    if (known.presence == Presence::kLost && known.pid == who.pid) {
      session.tell(ControlKind::kLost,
                   LostRanks{.generation = who.generation, .ranks = {who.rank}, .why = known.fate});
    }
    return events.error();
  }
  // A new connection of the same rank replaces the old one, whose end then means nothing.
  for (const auto& other : sessions_)
    if (other->rank == who.rank && other->is_rank_of(who.generation)) other->dead = true;
  session.role = Role::kRank;
  session.rank = who.rank;
  session.generation = who.generation;
  session.pid = who.pid;
  session.host = who.host;
  session.process = LocalProcess(who.host_identity, static_cast<pid_t>(who.pid));
  if (session.process.known())
    roster_->watch_process_of(who.rank, who.host_identity, session.process.started());
  returning_.erase(who.rank);
  session.tell(ControlKind::kPulse, Pulse{.echo = {}, .now = now, .machine = machine_});
  for (const Member& member : roster_->members()) {
    if (member.presence != Presence::kLost) continue;
    session.tell(
        ControlKind::kLost,
        LostRanks{.generation = who.generation, .ranks = {member.rank}, .why = member.fate});
  }
  tell(*events);
  return {};
}

Result<void> CoordinatorService::handle_rank(CoordinatorSession& session,
                                             const ControlMessage& message, TimePoint now) {
  switch (message.kind) {
    case ControlKind::kReport:
      return take_report(session, message, now);
    case ControlKind::kGoodbye: {
      TALLY_TRY(take_report(session, message, now));
      if (session.generation == generation()) {
        look_for_stalls(now);  // its last report may tell of a disagreement
        tell(roster_->left(session.rank, now));
      }
      session.over = true;
      session.over_since = now;
      return {};
    }
    case ControlKind::kStack: {
      TALLY_TRY(const StackReply reply, body_of<StackReply>(message));
      if (session.generation == generation()) stalls_.stack_arrived(session.rank, reply.stack);
      return {};
    }
    case ControlKind::kTrace: {
      TALLY_TRY(const Trace trace, body_of<Trace>(message));
      if (trace.rank == session.rank) take_trace(message, trace);
      return {};
    }
    case ControlKind::kRegister: {
      // The rank is in a new membership and keeps its connection.
      TALLY_TRY(const Registration who, body_of<Registration>(message));
      session.role = Role::kUnknown;
      return take_registration(session, who, now);
    }
    default:
      return make_error(ErrorCode::kRefused, "a rank has no reason to say that");
  }
}

Result<void> CoordinatorService::take_report(CoordinatorSession& session,
                                             const ControlMessage& message, TimePoint now) {
  TALLY_TRY(Report report, body_of<Report>(message));
  if (report.rank != session.rank || report.generation != session.generation)
    return make_error(ErrorCode::kRefused, "a rank that reports for another");
  report.pid = session.pid;
  report.host = session.host;
  tell(roster_->reported(report, now));
  if (message.kind == ControlKind::kReport)
    session.tell(ControlKind::kPulse, Pulse{.echo = report.at, .now = now, .machine = machine_});
  return {};
}

void CoordinatorService::take_trace(const ControlMessage& message, const Trace& trace) {
  for (const auto& session : sessions_) {
    if (session->role != Role::kObserver || session->awaited.erase(trace.rank) == 0) continue;
    send(session->connection, message);
    if (session->awaited.empty()) session->tell(ControlKind::kEnd);
  }
}

void CoordinatorService::ended(CoordinatorSession& session, const Error& why, TimePoint now) {
  session.dead = true;
  if (session.over || session.role == Role::kObserver) return;
  if (session.role == Role::kRank) {
    // A registered rank that sends corrupt messages is reported; its connection is over in any
    // case.
    if (why.code != ErrorCode::kPeerLost) refused(session.from, why.message, now);
    if (session.generation == generation()) tell(roster_->connection_closed(session.rank, now));
    return;
  }
  if (session.local()) return;
  refused(session.from,
          why.code == ErrorCode::kPeerLost ? "it ended before it said who it is" : why.message,
          now);
}

void CoordinatorService::answer_status(CoordinatorSession& session, TimePoint now) {
  session.tell(ControlKind::kJob, JobStatus{.job = options_.job,
                                            .generation = generation(),
                                            .size = roster_->options().size,
                                            .address = address_,
                                            .uptime = now - started_,
                                            .stall = stalls_.current(),
                                            .members = {}});
  for (const Member& member : roster_->members()) {
    MemberStatus status{.rank = member.rank,
                        .presence = member.presence,
                        .host = member.host,
                        .pid = member.pid,
                        .fate = member.fate,
                        .silence = {},
                        .samples_per_second = roster_->samples_per_second(member.rank),
                        .report = {}};
    if (member.heard != TimePoint{}) status.silence = std::max(Duration{}, now - member.heard);
    if (member.reported) status.report = member.report;
    session.tell(ControlKind::kMember, status);
  }
  session.tell(ControlKind::kEnd);
}

void CoordinatorService::ask_traces(CoordinatorSession& session, TimePoint now) {
  session.traces_by = now + kTraceTime;
  for (const auto& other : sessions_) {
    if (!other->is_rank_of(generation())) continue;
    session.awaited.insert(other->rank);
    other->tell(ControlKind::kWantTrace);
  }
  if (session.awaited.empty()) session.tell(ControlKind::kEnd);
}

void CoordinatorService::look_for_stalls(TimePoint now) {
  const auto found = diagnose_stall(roster_->members(), now, options_.stall_warning);
  const StallWatch::Decision decision = stalls_.observe(found, roster_->members(), now);
  if (decision.event) tell({*decision.event});
  if (decision.ask == kNoRank) return;
  for (const auto& session : sessions_)
    if (session->rank == decision.ask && session->is_rank_of(generation()))
      session->tell(ControlKind::kWantStack);
}

void CoordinatorService::refused(const std::string& from, const std::string& why, TimePoint now) {
  if (const auto sentence = refusals_.add(from, why, now))
    pending_.push_back({EventKind::kRefused, {}, *sentence});
}

void CoordinatorService::tidy(TimePoint now) {
  for (const auto& session : sessions_) {
    session->place.update(session->connection.stream());
    if (session->role != Role::kUnknown) session->place.release();
    if (session->over && (!session->connection.unsent() || now - session->over_since > kCloseTime))
      session->dead = true;
    if (session->over && session->place.revoked()) session->dead = true;
    if (session->dead || session->over) continue;
    if (!session->awaited.empty() && now >= session->traces_by) {
      session->awaited.clear();
      session->tell(ControlKind::kEnd);
    }
    if (session->role != Role::kUnknown) continue;
    const bool late = now - session->opened > kIntroductionTime;
    if (!late && !session->place.revoked()) continue;
    session->dead = true;
    refused(session->from, late ? "it did not say who it is" : "too many say nothing", now);
  }
  sessions_.remove_if([](const auto& session) { return session->dead; });
  // Save the state before the events are reported, so that the next coordinator knows them.
  if (changed_) save();
  for (const CoordinatorEvent& event : std::exchange(pending_, {})) on_event_(event);
}

void CoordinatorService::tick(TimePoint now) {
  for (const auto& session : sessions_)
    if (session->is_rank_of(generation()) && session->process.ended())
      tell(roster_->process_ended(session->rank, "ended", now));
  std::erase_if(returning_, [&](const auto& returning) {
    if (!returning.second.ended()) return false;
    tell(roster_->process_ended(returning.first, "ended", now));
    return true;
  });
  tell(roster_->tick(now));
  look_for_stalls(now);
  if (const auto sentence = refusals_.tick(now))
    pending_.push_back({EventKind::kRefused, {}, *sentence});
}

void CoordinatorService::tell(const Events& events) {
  for (const CoordinatorEvent& event : events) {
    changed_ = true;
    for (const auto& session : sessions_)
      if (event.kind == EventKind::kLost && session->is_rank_of(generation()))
        session->tell(
            ControlKind::kLost,
            LostRanks{.generation = generation(), .ranks = event.ranks, .why = event.sentence});
    pending_.push_back(event);
  }
}

void CoordinatorService::save() {
  changed_ = false;
  if (options_.state_file.empty()) return;
  SavedState state{.job = options_.job,
                   .generation = generation(),
                   .size = roster_->options().size,
                   .members = {}};
  for (const Member& member : roster_->members())
    if (!member.host.empty()) state.members.push_back(member);
  if (const auto saved = save_state(options_.state_file, state); !saved.has_value())
    log_warning(fmt::format("the coordinator's state is not saved: {}", saved.error().message));
}

}  // namespace tally::group
