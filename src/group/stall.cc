#include "group/stall.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace tally::group {
namespace {

// Time for a culprit to send its stack before the stall is reported without it.
constexpr Duration kAnswerTime = std::chrono::seconds(2);
// The number of culprits that are described.
constexpr std::size_t kDescribed = 3;

std::string operation_text(const ReportedOperation& operation) {
  const std::string text = tally::describe(operation.record);
  return operation.channel == 0 ? text : fmt::format("{} on {}", text, operation.communicator);
}

// The operation with everything in which ranks can differ.
std::string signature_text(const OperationRecord& record) {
  return tally::describe(record.operation, record.count, record.type, record.reduce_op,
                         record.algorithm, record.root);
}

class Diagnosis {
 public:
  Diagnosis(std::span<const Member> members, TimePoint now, Duration threshold)
      : members_(members), now_(now), threshold_(threshold) {}

  std::optional<Stall> find() const {
    if (auto mismatch = find_mismatch()) return mismatch;
    if (auto joining = find_joining()) return joining;
    Rank at = longest_waiter();
    if (at == kNoRank) return std::nullopt;
    // A missing rank may itself wait for another: the last of the chain is to blame.
    std::vector<Rank> chain;
    while (std::find(chain.begin(), chain.end(), at) == chain.end()) {
      chain.push_back(at);
      const ReportedOperation& operation = *member(at).report.current;
      const std::vector<Rank> missing = missing_in(operation, at);
      if (missing.empty()) return nobody_missing(operation);
      std::vector<Rank> free;
      for (const Rank rank : missing)
        if (!operating(rank)) free.push_back(rank);
      // Nothing is known about a rank before its first report, which is on its way.
      if (std::any_of(free.begin(), free.end(), [this](Rank rank) { return has_only_come(rank); }))
        return std::nullopt;
      if (!free.empty()) return missing_from(operation, free);
      at = missing.front();
    }
    chain.erase(chain.begin(), std::find(chain.begin(), chain.end(), at));
    return circle(chain);
  }

 private:
  const Member& member(Rank rank) const { return members_[static_cast<std::size_t>(rank)]; }
  bool exists(Rank rank) const {
    return rank >= 0 && static_cast<std::size_t>(rank) < members_.size();
  }

  // The age of a time on that rank's own clock, computed from the arrival of its report.
  Duration ago(const Member& who, TimePoint then) const {
    return (now_ - who.heard) + (who.report.at - then);
  }

  bool operating(Rank rank) const {
    const Member& who = member(rank);
    return who.presence == Presence::kPresent && who.reported && who.report.current.has_value();
  }

  bool has_only_come(Rank rank) const {
    return member(rank).presence == Presence::kPresent && !member(rank).reported;
  }

  Duration waited(Rank rank) const { return ago(member(rank), member(rank).report.since()); }

  // The time that the rank has spent in its current activity, by its own report. Its activity after
  // the last report is unknown, unless it has left.
  bool long_at_it(const Member& who) const {
    const Duration told = who.report.at - who.report.since();
    return (who.presence == Presence::kLeft ? told + (now_ - who.heard) : told) >= threshold_;
  }

  Rank longest_waiter() const {
    Rank found = kNoRank;
    for (const Member& who : members_) {
      if (!operating(who.rank) || !long_at_it(who)) continue;
      if (found == kNoRank || waited(who.rank) > waited(found)) found = who.rank;
    }
    return found;
  }

  static bool same_operation(const ReportedOperation& a, const ReportedOperation& b) {
    return a.channel == b.channel && a.communicator == b.communicator &&
           a.record.sequence == b.record.sequence && a.record.point() == b.record.point();
  }

  bool has_come(const Member& who, const ReportedOperation& operation) const {
    for (const Position& position : who.report.positions) {
      if (position.channel == operation.channel && position.communicator == operation.communicator)
        return position.next_collective > operation.record.sequence;
    }
    return false;
  }

  static bool belongs(Rank rank, const ReportedOperation& operation) {
    const std::vector<Rank>& members = operation.members;
    return members.empty() || std::find(members.begin(), members.end(), rank) != members.end();
  }

  std::vector<Rank> missing_in(const ReportedOperation& operation, Rank self) const {
    std::vector<Rank> missing;
    if (operation.record.point()) {
      for (const Rank rank : operation.waits_for)
        if (exists(rank) && rank != self) missing.push_back(rank);
      return missing;
    }
    for (const Member& who : members_) {
      if (!belongs(who.rank, operation) || who.rank == self) continue;
      // A rank that left in good order after it entered has done its part.
      const bool in_order = who.presence == Presence::kPresent || who.presence == Presence::kLeft;
      if (!in_order || !who.reported || !has_come(who, operation)) missing.push_back(who.rank);
    }
    return missing;
  }

  std::vector<Rank> waiters_in(const ReportedOperation& operation) const {
    std::vector<Rank> ranks;
    for (const Member& who : members_)
      if (operating(who.rank) && same_operation(*who.report.current, operation))
        ranks.push_back(who.rank);
    return ranks;
  }

  Duration longest_wait(const std::vector<Rank>& ranks) const {
    Duration longest{};
    for (const Rank rank : ranks) longest = std::max(longest, waited(rank));
    return longest;
  }

  // "rank 2 has been computing for 11.0 s, its last operation was #16 barrier".
  std::string conduct(const Member& who) const {
    const std::string name = fmt::format("rank {}", who.rank);
    switch (who.presence) {
      case Presence::kLost:
        return fmt::format("{} is lost: {}", name, who.fate);
      case Presence::kLeft:
        return fmt::format("{} has left the job {} ago", name, seconds_text(now_ - who.heard));
      case Presence::kExpected:
        return fmt::format("{} has not come", name);
      case Presence::kUnreachable:
        return fmt::format("{} has not been heard of for {}{}", name,
                           seconds_text(now_ - who.heard), last_of(who));
      case Presence::kPresent:
        break;
    }
    if (who.report.failure)
      return fmt::format("{} has failed: {}", name, to_string(*who.report.failure));
    if (who.report.joining)
      return fmt::format("{} has been joining for {}", name, seconds_text(waited(who.rank)));
    if (who.report.current)
      return fmt::format("{} has been in {} for {}", name, operation_text(*who.report.current),
                         seconds_text(waited(who.rank)));
    return fmt::format("{} has been computing for {}{}", name, seconds_text(waited(who.rank)),
                       last_of(who));
  }

  static std::string last_of(const Member& who) {
    if (!who.reported) return "";
    if (!who.report.last) return ", and has not called any operation";
    return fmt::format(", its last operation was {}", operation_text(*who.report.last));
  }

  // Ranks that are joining. A rank that has joined is connected with all others, and a rank that
  // gave up reports why.
  std::optional<Stall> find_joining() const {
    Stall stall{.operation = "the job"};
    std::vector<Rank> never_came;
    bool long_enough = false;
    for (const Member& who : members_) {
      if (who.reported && (!who.report.joining || who.report.failure)) return std::nullopt;
      if (who.presence != Presence::kPresent) {
        stall.culprits.push_back(who.rank);
        if (who.presence == Presence::kExpected) never_came.push_back(who.rank);
      } else {
        stall.waiters.push_back(who.rank);
        long_enough = long_enough || (who.reported && long_at_it(who));
      }
    }
    if (!long_enough) return std::nullopt;
    std::vector<std::string> parts;
    if (!never_came.empty())
      parts.push_back(fmt::format("{} {} not come", ranks_text(never_came),
                                  never_came.size() == 1 ? "has" : "have"));
    for (const Rank rank : stall.culprits)
      if (member(rank).presence != Presence::kExpected && parts.size() < kDescribed)
        parts.push_back(conduct(member(rank)));
    if (parts.empty()) parts.emplace_back("all have come, but they do not reach each other");
    stall.key = fmt::format("joining: {}", fmt::join(stall.culprits, ","));
    stall.sentence = fmt::format("{} {} been joining for {}: {}", ranks_text(stall.waiters),
                                 stall.waiters.size() == 1 ? "has" : "have",
                                 seconds_text(longest_wait(stall.waiters)), fmt::join(parts, "; "));
    return stall;
  }

  Stall missing_from(const ReportedOperation& operation, const std::vector<Rank>& culprits) const {
    Stall stall{.culprits = culprits,
                .waiters = waiters_in(operation),
                .operation = operation_text(operation)};
    stall.key =
        fmt::format("{}/{}: {}", operation.channel, stall.operation, fmt::join(culprits, ","));
    const std::string who =
        culprits.size() == 1 ? member(culprits.front()).text() : ranks_text(culprits);
    stall.sentence = fmt::format(
        "{} {} missing in {}: {} {} waited for {}", who, culprits.size() == 1 ? "is" : "are",
        stall.operation, ranks_text(stall.waiters), stall.waiters.size() == 1 ? "has" : "have",
        seconds_text(longest_wait(stall.waiters)));
    for (std::size_t i = 0; i < std::min(culprits.size(), kDescribed); ++i)
      stall.sentence += "; " + conduct(member(culprits[i]));
    if (culprits.size() > kDescribed)
      stall.sentence += fmt::format("; and {} more", culprits.size() - kDescribed);
    for (const Rank rank : culprits) {
      if (member(rank).presence != Presence::kPresent) continue;
      stall.ask = rank;
      break;
    }
    return stall;
  }

  // An operation is slow only if all ranks have been in it, or past it, for long. Otherwise a rank
  // has only just entered it.
  std::optional<Stall> nobody_missing(const ReportedOperation& operation) const {
    for (const Member& who : members_) {
      if (operation.record.point() || !belongs(who.rank, operation)) continue;
      if (!long_at_it(who)) return std::nullopt;
    }
    Stall stall{.waiters = waiters_in(operation), .operation = operation_text(operation)};
    stall.key = fmt::format("{}/{}: all", operation.channel, stall.operation);
    stall.sentence =
        fmt::format("{} {} been in {} for {} and nobody is missing: it is slow",
                    ranks_text(stall.waiters), stall.waiters.size() == 1 ? "has" : "have",
                    stall.operation, seconds_text(longest_wait(stall.waiters)));
    return stall;
  }

  Stall circle(const std::vector<Rank>& chain) const {
    Stall stall{.culprits = chain, .waiters = chain};
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < chain.size(); ++i) {
      const ReportedOperation& operation = *member(chain[i]).report.current;
      parts.push_back(fmt::format("rank {} has been in {} for {} and waits for rank {}", chain[i],
                                  operation_text(operation), seconds_text(waited(chain[i])),
                                  chain[(i + 1) % chain.size()]));
      stall.key += fmt::format("{} {};", chain[i], operation_text(operation));
    }
    stall.operation = operation_text(*member(chain.front()).report.current);
    stall.sentence = fmt::format("{} wait for each other in a circle: {}", ranks_text(chain),
                                 fmt::join(parts, "; "));
    return stall;
  }

  // Parts of unequal size are no mismatch; for those only the ranks' own reports count.
  static bool agree(const OperationRecord& a, const OperationRecord& b) {
    OperationRecord mine = a;
    if (has_parts(a.operation) && a.operation == b.operation) mine.count = b.count;
    return signature_text(mine) == signature_text(b);
  }

  std::optional<Stall> find_mismatch() const {
    std::map<std::tuple<std::uint32_t, std::string, std::uint32_t>, const Member*> first;
    const auto open = [](const Member& who) -> const ReportedOperation* {
      if (!who.reported) return nullptr;
      if (who.report.current) return &*who.report.current;
      const auto& last = who.report.last;
      return last && last->record.stage == OperationRecord::Stage::kFailed ? &*last : nullptr;
    };
    for (const Member& who : members_) {
      const ReportedOperation* operation = open(who);
      if (operation == nullptr || operation->record.point()) continue;
      const auto [found, is_new] = first.emplace(
          std::tuple(operation->channel, operation->communicator, operation->record.sequence),
          &who);
      const ReportedOperation& theirs = *open(*found->second);
      if (!is_new && !agree(theirs.record, operation->record))
        return disagreement(*found->second, theirs, who, *operation);
    }
    for (const Member& who : members_) {
      if (!who.reported || !who.report.failure || !who.report.last ||
          who.report.failure->code != ErrorCode::kMismatch)
        continue;
      return Stall{
          .kind = EventKind::kMismatch,
          .culprits = {who.rank},
          .waiters = {},
          .key = fmt::format("mismatch {}", who.report.failure->message),
          .operation = operation_text(*who.report.last),
          .sentence = fmt::format("ranks disagree in #{}: {}", who.report.last->record.sequence,
                                  who.report.failure->message)};
    }
    return std::nullopt;
  }

  Stall disagreement(const Member& one, const ReportedOperation& hers, const Member& other,
                     const ReportedOperation& his) const {
    const std::string place = hers.channel == 0 ? "" : fmt::format(" on {}", hers.communicator);
    return {
        .kind = EventKind::kMismatch,
        .culprits = {one.rank, other.rank},
        .waiters = {},
        .key = fmt::format("mismatch {}/{}", hers.channel, hers.record.sequence),
        .operation = operation_text(hers),
        .sentence = fmt::format("ranks disagree in #{}{}: rank {} called {}, rank {} called {}",
                                hers.record.sequence, place, one.rank, signature_text(hers.record),
                                other.rank, signature_text(his.record))};
  }

  const std::span<const Member> members_;
  const TimePoint now_;
  const Duration threshold_;
};

}  // namespace

std::optional<Stall> diagnose_stall(std::span<const Member> members, TimePoint now,
                                    Duration threshold) {
  return Diagnosis(members, now, threshold).find();
}

StallWatch::Decision StallWatch::observe(const std::optional<Stall>& found,
                                         std::span<const Member> members, TimePoint now) {
  Decision decision;
  if (!found) {
    if (active_ && active_->said) decision.event = over(members, now);
    active_.reset();
    return decision;
  }
  if (!active_ || active_->stall.key != found->key) {
    active_ = Active{.stall = *found, .since = now, .answer_by = now + kAnswerTime};
    decision.ask = found->ask;
  }
  active_->stall = *found;
  const bool awaits_stack =
      found->ask != kNoRank && active_->stack.empty() && now < active_->answer_by;
  if (active_->said || awaits_stack) return decision;
  active_->said = true;
  active_->sentence = found->sentence;
  if (!active_->stack.empty()) active_->sentence += "; its stack: " + active_->stack;
  decision.event = CoordinatorEvent{found->kind, found->culprits, active_->sentence};
  return decision;
}

void StallWatch::stack_arrived(Rank rank, const std::string& stack) {
  if (active_ && active_->stall.ask == rank) active_->stack = stack;
}

// The stall is over only if all waiting ranks went on; ranks that gave up do not count.
std::optional<CoordinatorEvent> StallWatch::over(std::span<const Member> members,
                                                 TimePoint now) const {
  if (active_->stall.kind == EventKind::kMismatch) return std::nullopt;
  for (const Rank rank : active_->stall.waiters) {
    const Member& who = members[static_cast<std::size_t>(rank)];
    if (who.presence == Presence::kLost || who.report.failure) return std::nullopt;
  }
  return CoordinatorEvent{
      EventKind::kRecovered, active_->stall.culprits,
      fmt::format("{} goes on: the stall is over, {} after it was noticed",
                  active_->stall.operation, seconds_text(now - active_->since))};
}

}  // namespace tally::group
