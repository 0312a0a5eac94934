#include "exchange/server/server_worker.h"

#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "base/stopwatch.h"

namespace tally::exchange {
namespace {

// The time limit for workers to reach a meeting: the slowest may be in a long step.
constexpr Duration kMeetingLimit = std::chrono::minutes(10);
// The limit of ServerClient::agree().
constexpr std::size_t kMostValues = 65536;

}  // namespace

void Reading::take(const server::Completion& completion) {
  if (!read) {
    read = policy::Read{.version = completion.version,
                        .clock = completion.clock,
                        .newest_version = completion.version};
    return;
  }
  read->version = std::min(read->version, completion.version);
  read->clock = std::min(read->clock, completion.clock);
  read->newest_version = std::max(read->newest_version, completion.version);
}

Result<server::Completion> ServerWorker::wait(server::Ticket ticket) {
  const Stopwatch watch(figures.waited);
  return client_.wait(ticket);
}

Result<void> ServerWorker::wait_all(std::span<const server::Ticket> tickets) {
  for (const server::Ticket ticket : tickets)
    if (const auto completion = wait(ticket); !completion.has_value()) {
      for (const server::Ticket other : tickets) client_.abandon(other);
      return completion.error();
    }
  return {};
}

void ServerWorker::pull_values(const server::PullOptions& facts,
                               std::vector<server::Ticket>& tickets) {
  for (const ServerTables::Table& table : tables_.all())
    tickets.push_back(client_.send({.range = table.all(), .pull = facts, .values = table.next}));
}

Result<void> ServerWorker::assign(const ServerClient::PartRange& range,
                                  std::span<const std::byte> values) {
  TALLY_TRY(wait(client_.send({.range = range,
                               .push = server::PushOptions{.kind = server::PushKind::kAssign},
                               .gradient = values})));
  return {};
}

void ServerWorker::await_rows(const server::PullOptions& facts,
                              std::vector<server::Ticket>& tickets) {
  for (const server::TableId table : tables_.sparse())
    tickets.push_back(client_.pull_rows(table, facts, {}, {}));
}

Result<void> ServerWorker::tell_clock(std::uint64_t clock) {
  for (const server::TableId table : tables_.ids()) TALLY_TRY(wait(client_.clock(table, clock)));
  return {};
}

Result<void> ServerWorker::sum(std::span<double> values) {
  const Stopwatch watch(figures.waited);
  do {
    const auto part = values.first(std::min(kMostValues, values.size()));
    TALLY_TRY(const std::vector<double> sums, client_.agree(part, kMeetingLimit));
    std::copy_n(sums.begin(), std::min(sums.size(), part.size()), part.begin());
    values = values.subspan(part.size());
  } while (!values.empty());
  return {};
}

Result<void> ServerWorker::agree(const Result<void>& own) {
  double failures = own.has_value() ? 0 : 1;
  TALLY_TRY(sum(std::span(&failures, 1)));
  if (!own.has_value() || failures == 0) return own;
  return make_error(ErrorCode::kPeerLost, "another worker has failed: its error has the reason");
}

Result<void> ServerWorker::read_own_state() {
  for (const ServerTables::Table& table : tables_.all())
    if (table.coded != nullptr && table.coded->in_step())
      if (Result<void> read = table.coded->read_state(client_); !read.has_value()) {
        tables_.discard();
        return read;
      }
  return {};
}

Result<Reading> ServerWorker::pull_newest() {
  std::vector<server::Ticket> tickets;
  Reading reading;
  pull_values({}, tickets);
  await_rows({}, tickets);
  for (const server::Ticket ticket : tickets) {
    const Result<server::Completion> completion = wait(ticket);
    if (!completion.has_value()) {
      for (const server::Ticket other : tickets) client_.abandon(other);
      return completion.error();
    }
    reading.take(*completion);
  }
  return reading;
}

Result<void> ServerWorker::join(std::uint64_t step) {
  TALLY_TRY(const Reading reading, pull_newest());
  TALLY_TRY(read_own_state());
  tables_.commit();
  me_ = policy::join(rules(), rank(), reading.read.value_or(policy::Read{}));
  first_version_ = me_.version;
  first_clock_ = me_.clock;
  first_step_ = step;
  met_step_ = 0;
  return {};
}

void ServerWorker::after_step(const policy::StepChoice& step, const Reading& reading) {
  me_ = policy::after_step(rules(), me_, step, reading.read.value_or(policy::Read{}));
}

Result<void> ServerWorker::refresh() {
  TALLY_TRY(const Reading reading, pull_newest());
  // A worker that is in step already has these values and their state.
  if (reading.read->version != me_.version || reading.read->newest_version != me_.version)
    TALLY_TRY(read_own_state());
  tables_.commit();
  after_step({.takes_part = false, .push = false, .pull = true, .clock = me_.clock}, reading);
  return {};
}

server::TableId ServerWorker::first_table() const {
  return tables_.all().empty() ? tables_.sparse().front() : tables_.all().front().id;
}

std::uint64_t ServerWorker::newest_version() const {
  std::uint64_t newest = client_.newest_version(first_table());
  for (const ServerTables::Table& table : tables_.all())
    newest = std::max(newest, client_.newest_version(table.id));
  return newest;
}

std::uint64_t ServerWorker::known_version() const {
  return std::max(client_.newest_version(first_table()), me_.version);
}

bool ServerWorker::counts_gradients() const {
  return rules().update == plan::Update::kAsp && rules().push_every == 1;
}

std::uint64_t ServerWorker::version_of(std::uint64_t step) const {
  return first_version_ +
         (step - std::min(step, first_step_)) * static_cast<std::uint64_t>(ranks());
}

// Where updates do not have the gradients of all workers, several of them make a step.
std::uint64_t ServerWorker::steps() const {
  std::uint64_t made = me_.clock - first_clock_;
  if (rules().has_rounds()) {
    made = static_cast<std::uint64_t>(static_cast<double>(me_.version - first_version_) /
                                      policy::turns_of(rules(), ranks()));
  } else if (rules().update == plan::Update::kAsp) {
    made = (known_version() - first_version_) * rules().push_every /
           static_cast<std::uint64_t>(ranks());
  }
  return std::max(first_step_ + made, met_step_);
}

}  // namespace tally::exchange
