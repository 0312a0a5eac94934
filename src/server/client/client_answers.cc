// Handles answers.
//   kDone, kDropped, kRefused  end the subrequest; the request merges the answers of all parts
//   kNotPrimary                the subrequest is sent again in a newer view
//   kLost                      the request fails with the list of lost parts
// A snapshot continues with its next round after the last answer of a round (payloads.h).
#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/check.h"
#include "server/client/client_node.h"
#include "server/protocol/payloads.h"
#include "server/storage/storage.h"

namespace tally::server {
namespace {

void fail(Request& request, Error why) {
  if (!request.error) request.error = std::move(why);
}

template <typename... Args>
Error corrupt_from(NodeId from, fmt::format_string<Args...> text, Args&&... args) {
  return corrupt("member {} sent {}", from, fmt::format(text, std::forward<Args>(args)...));
}

// Adds the answer of one part to the result.
void merge(const MessageHeader& answer, bool pushed, Request& request) {
  Completion& all = request.completion;
  const bool first = !request.has_answers;
  request.has_answers = true;
  all.version = first ? answer.version : std::min(all.version, answer.version);
  all.clock = first ? answer.clock : std::min(all.clock, answer.clock);
  if (!pushed) return;
  if (answer.outcome == Outcome::kDropped) {
    ++all.dropped;
    all.dropped_parts.push_back(answer.part);
  } else {
    ++all.applied;
    all.staleness = std::max(all.staleness, answer.least_clock);
  }
}

Result<void> take_values(NodeId from, const Subrequest& subrequest,
                         std::span<const std::byte> payload) {
  if (payload.size() != subrequest.reply.size())
    return corrupt_from(from, "{} bytes for part {} of table {}, which are {}", payload.size(),
                        subrequest.header.part, subrequest.header.table, subrequest.reply.size());
  if (!payload.empty() && payload.data() != subrequest.reply.data())
    std::memcpy(subrequest.reply.data(), payload.data(), payload.size());
  return {};
}

Result<void> take_measured(NodeId from, const Subrequest& subrequest,
                           std::span<const std::byte> payload) {
  TALLY_TRY(const std::vector<double> values, decode_values(payload));
  const bool is_open = subrequest.header.kind == MessageKind::kMeasure;
  const bool is_whole = values.size() == 4 && subrequest.measured != nullptr &&
                        ((values[0] == kComplete && is_open) || values[0] == kFinished ||
                         values[0] == kDiscarded || values[0] == kSkipped);
  if (!is_whole) return corrupt_from(from, "{} values that do not describe a round", values.size());
  *subrequest.measured = {.value_squares = values[1], .gradient_squares = values[2]};
  if (values[0] == kComplete) return {};
  if (values[0] == kSkipped) {
    *subrequest.measured = {.skipped = true};
    return {};
  }
  *subrequest.measured = {.finished = Client::FinishOptions{.version = subrequest.header.version,
                                                            .factor = values[1],
                                                            .value_norm = values[2],
                                                            .gradient_norm = values[3],
                                                            .discards = values[0] == kDiscarded}};
  return {};
}

Result<void> take_body(NodeId from, const Subrequest& subrequest, const Message& message,
                       Request& request) {
  const std::span<const std::byte> payload = message.payload;
  switch (subrequest.header.kind) {
    case MessageKind::kPull:
    case MessageKind::kPushPull:
    case MessageKind::kReadState:
      return take_values(from, subrequest, payload);
    case MessageKind::kPushAverage:
      if (message.header.push_kind != kAverage) return take_values(from, subrequest, payload);
      if (subrequest.average == nullptr)
        return corrupt_from(from, "an average without a request for it");
      *subrequest.average = {.is_average = true, .bytes = {payload.begin(), payload.end()}};
      return {};
    case MessageKind::kMeasure:
    case MessageKind::kFinish:
      return take_measured(from, subrequest, payload);
    case MessageKind::kSize: {
      TALLY_TRY(const Client::Size more, decode_size(payload));
      add(more, request.size);
      return {};
    }
    case MessageKind::kSnapshot: {
      if (subrequest.header.push_kind == kPublishSnapshot) {
        TALLY_TRY(request.text, decode_text(payload));
        return {};
      }
      if (subrequest.header.push_kind == kDropSnapshot) return {};
      TALLY_TRY(const std::vector<SnapshotFile> files, decode_snapshot_files(payload));
      request.files.insert(request.files.end(), files.begin(), files.end());
      request.writers.push_back(from);
      return {};
    }
    case MessageKind::kAgree: {
      TALLY_TRY(request.sums, decode_values(payload));
      if (request.sums.size() * sizeof(double) != subrequest.payload.size())
        return corrupt_from(from, "{} sums of {} values", request.sums.size(),
                            subrequest.payload.size() / sizeof(double));
      return {};
    }
    default:
      return {};
  }
}

}  // namespace

void ClientNode::on_answer(NodeId from, const Message& message) {
  const MessageHeader& answer = message.header;
  Subrequest* subrequest = pending_.find(answer.sequence);
  // A repeated subrequest may be answered twice, an abandoned one after its end.
  if (subrequest == nullptr || subrequest->state != Subrequest::State::kSent ||
      subrequest->sent_to != from || subrequest->header.table != answer.table ||
      subrequest->header.part != answer.part)
    return;
  if (answer.outcome == Outcome::kNotPrimary) {
    queues_.not_primary(*subrequest, answer.view);
    return;
  }
  if (subrequest->header.kind == MessageKind::kAgree && answer.outcome == Outcome::kDropped) {
    on_agree_dropped(*subrequest, answer);
    return;
  }
  queues_.answered(*subrequest);
  if (answer.outcome == Outcome::kLost) {
    auto snapshot = decode_text(message.payload);
    settle_as_lost(*subrequest, snapshot.has_value() ? *snapshot : std::string());
    return;
  }
  const Subrequest settled = *subrequest;
  Request* request = pending_.settle(answer.sequence);
  if (answer.outcome == Outcome::kDone && settled.header.kind == MessageKind::kAgree)
    keep_agreement(settled, request);
  if (request == nullptr) return;
  take_in(from, settled, message, *request);
  go_on_with_snapshot(settled, *request);
}

void ClientNode::take_in(NodeId from, const Subrequest& subrequest, const Message& message,
                         Request& request) {
  const MessageHeader& answer = message.header;
  if (answer.outcome == Outcome::kRefused) {
    fail(request, decode_refusal(message.payload));
    return;
  }
  const bool pushed = is_push(subrequest.header.kind);
  if (answer.outcome == Outcome::kDropped && !pushed) {
    fail(request, corrupt_from(from, "kDropped for a request that cannot be dropped"));
    return;
  }
  if (auto taken = take_body(from, subrequest, message, request); !taken.has_value()) {
    fail(request, std::move(taken).error());
    return;
  }
  merge(answer, pushed, request);
  std::uint64_t& newest = newest_version_[subrequest.header.table];
  newest = std::max(newest, answer.version);
}

// Starts the next round of a snapshot after the last answer of a round.
void ClientNode::go_on_with_snapshot(const Subrequest& subrequest, Request& request) {
  if (subrequest.header.kind != MessageKind::kSnapshot || request.open_subrequests != 0) return;
  const std::uint8_t round = subrequest.header.push_kind;
  if (!request.error && round == kWriteSnapshot) publish_snapshot_of(subrequest, request);
  if (request.error && round != kDropSnapshot) drop_snapshot_of(subrequest, request);
}

// All servers have written their files: each gets the list of all, so that the snapshot appears as
// a whole or not at all. Servers that joined meanwhile are not in it.
void ClientNode::publish_snapshot_of(const Subrequest& subrequest, Request& request) {
  auto name = decode_text(request.body);
  if (!name) return fail(request, std::move(name).error());
  request.snapshot_name = std::move(*name);
  request.body =
      encode(SnapshotPublication{.name = request.snapshot_name, .files = std::move(request.files)});
  ask_writers(subrequest, kPublishSnapshot, request);
}

// A server has failed: the others drop their files. Not while a lost server may still publish in a
// shared folder, where it must not find files missing.
void ClientNode::drop_snapshot_of(const Subrequest& subrequest, Request& request) {
  std::vector<NodeId> there;
  for (const ServerInfo& server : queues_.view().servers)
    if (std::count(request.writers.begin(), request.writers.end(), server.id) > 0)
      there.push_back(server.id);
  const bool published = subrequest.header.push_kind == kPublishSnapshot;
  if (there.empty() || (published && there.size() < request.writers.size())) return;
  request.writers = std::move(there);
  if (published) request.body = encode_text(request.snapshot_name);
  ask_writers(subrequest, kDropSnapshot, request);
}

// Sends the next round after `before`, with the body of the request, to all servers that wrote.
void ClientNode::ask_writers(const Subrequest& before, std::uint8_t round, Request& request) {
  MessageHeader header = before.header;
  header.push_kind = round;
  std::vector<Subrequest> subrequests;
  for (const NodeId server : request.writers)
    subrequests.push_back({.header = header, .payload = request.body, .server = server});
  const std::uint64_t first = pending_.next_sequence();
  pending_.add(before.ticket, std::move(subrequests));
  queues_.disturb();
  settle_unroutable(first);
}

void ClientNode::keep_agreement(const Subrequest& subrequest, Request* request) {
  if (subrequest.ticket == 0 || request == nullptr) return;
  last_agreement_ = subrequest;
  last_agreement_->header.push_kind = kHadAnswer;
  last_agreement_->kept = std::make_shared<const std::vector<std::byte>>(subrequest.payload.begin(),
                                                                         subrequest.payload.end());
  last_agreement_->payload = *last_agreement_->kept;
}

// The other workers are ahead: the same values go into the current round.
void ClientNode::on_agree_dropped(Subrequest& subrequest, const MessageHeader& answer) {
  queues_.answered(subrequest);
  if (subrequest.ticket == 0 || answer.version <= subrequest.header.clock) {
    if (Request* request = pending_.settle(answer.sequence))
      fail(*request, corrupt_from(subrequest.sent_to, "round {} of agreements after {}",
                                  answer.version, subrequest.header.clock));
    return;
  }
  agreements_ = std::max(agreements_, answer.version);
  subrequest.header.clock = answer.version;
  subrequest.state = Subrequest::State::kWaiting;
  queues_.disturb();
}

void ClientNode::settle_as_lost(const Subrequest& subrequest, const std::string& snapshot) {
  const std::uint32_t part = subrequest.header.part;
  Request* request = pending_.settle(subrequest.header.sequence);
  if (request == nullptr) return;
  request->lost_parts.push_back(part);
  if (!snapshot.empty()) request->snapshot = snapshot;
}

// A subrequest for a server that is lost: a definition counts as done, sizes are requested again
// from the present servers, other requests fail.
void ClientNode::settle_for_server(std::uint64_t sequence) {
  const Subrequest subrequest = *pending_.find(sequence);
  Request* request = pending_.request(subrequest.ticket);
  TALLY_CHECK(request != nullptr);
  if (subrequest.header.kind == MessageKind::kSize) {
    request->size = {};
    std::vector<std::uint64_t> withdrawn;
    for (const auto& [number, other] : pending_.subrequests()) {
      if (other.ticket == subrequest.ticket) withdrawn.push_back(number);
    }
    pending_.add(subrequest.ticket, subrequests_for_servers(subrequest.header, request->body));
    for (const std::uint64_t number : withdrawn) {
      queues_.answered(*pending_.find(number));
      pending_.settle(number);
    }
    queues_.disturb();
    return;
  }
  pending_.settle(sequence);
  if (subrequest.header.kind != MessageKind::kDefine)
    fail(*request, make_error(ErrorCode::kPeerLost, "server {} was lost meanwhile: ask again",
                              subrequest.server));
  go_on_with_snapshot(subrequest, *request);
}

void ClientNode::settle_unroutable(std::uint64_t from) {
  for (const std::uint64_t sequence : queues_.unroutable(from)) {
    const Subrequest* subrequest = pending_.find(sequence);
    if (subrequest == nullptr) continue;
    if (subrequest->server != kNoNode) {
      settle_for_server(sequence);
    } else {
      settle_as_lost(Subrequest(*subrequest), {});
    }
  }
}

Error ClientNode::loss(const Request& request) const {
  std::vector<NodeId> servers;
  for (const std::uint32_t part : request.lost_parts) {
    const std::uint32_t slot =
        request.kind == MessageKind::kAgree ? 0 : slot_of(request.table, part, queues_.slots());
    for (const NodeId server : queues_.gone(slot)) servers.push_back(server);
  }
  std::sort(servers.begin(), servers.end());
  servers.erase(std::unique(servers.begin(), servers.end()), servers.end());
  const auto found = tables_.find(request.table);
  const std::string name = found == tables_.end() ? std::to_string(request.table)
                                                  : fmt::format("'{}'", found->second.spec.name);
  const std::string& snapshot = request.snapshot.empty() ? newest_snapshot_ : request.snapshot;
  const bool one = servers.size() == 1;
  const bool one_part = request.lost_parts.size() == 1;
  return make_error(
      ErrorCode::kPeerLost, "server{} {} {} gone and had the only {} of part{} {} of table {}{}",
      one ? "" : "s", fmt::join(servers, ", "), one ? "is" : "are", one_part ? "copy" : "copies",
      one_part ? "" : "s", fmt::join(request.lost_parts, ", "), name,
      snapshot.empty() ? "" : fmt::format("; the newest snapshot is {}", snapshot));
}

Result<std::unique_ptr<Request>> ClientNode::take_request(Ticket ticket) {
  std::unique_ptr<Request> request;
  {
    const MutexLock lock(mutex_);
    TALLY_TRY(request, pending_.take(ticket));
    if (!request->lost_parts.empty()) fail(*request, loss(*request));
    // Parts answer for themselves: some may have applied their share of a push that others refused.
    if (request->error && request->completion.applied > 0)
      request->error->message +=
          fmt::format("; {} other {} applied the push", request->completion.applied,
                      request->completion.applied == 1 ? "part has" : "parts have");
  }
  // Without the lock, since it may take long.
  if (request->sparse && !request->error && !request->sparse->target.empty())
    request->sparse->scatter(request->sparse->target);
  if (request->error) return *std::move(request->error);
  return request;
}

Result<Completion> ClientNode::take(Ticket ticket) {
  TALLY_TRY(const auto request, take_request(ticket));
  return request->completion;
}

Result<TableId> ClientNode::take_define(Ticket ticket) {
  TALLY_TRY(const auto request, take_request(ticket));
  TALLY_TRY(const TableSpec spec, decode_spec(request->body));
  const MutexLock lock(mutex_);
  TALLY_TRY(TableConfig config, make_table_config(request->table, spec, queues_.slots()));
  tables_.try_emplace(request->table, std::move(config));
  return request->table;
}

Result<std::vector<double>> ClientNode::take_agree(Ticket ticket) {
  TALLY_TRY(const auto request, take_request(ticket));
  return std::move(request->sums);
}

Result<Client::Size> ClientNode::take_size(Ticket ticket) {
  TALLY_TRY(const auto request, take_request(ticket));
  return std::move(request->size);
}

Result<std::filesystem::path> ClientNode::take_snapshot(Ticket ticket) {
  TALLY_TRY(const auto request, take_request(ticket));
  const MutexLock lock(mutex_);
  newest_snapshot_ = request->text;
  return std::filesystem::path(request->text);
}

}  // namespace tally::server
