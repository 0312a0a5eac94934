// Turns requests into subrequests: checks the arguments and splits memory or keys by part.

#include <array>

#include "server/client/client_node.h"
#include "server/protocol/message.h"
#include "server/protocol/payloads.h"
#include "server/storage/storage.h"

namespace tally::server {
namespace {

MessageHeader pull_header(TableId table, const PullOptions& options) {
  return {.kind = MessageKind::kPull,
          .table = table,
          .least_version = options.least_version,
          .least_clock = options.least_clock};
}

// Whether the answer to a push may depend on later requests of the same worker: an update takes
// several gradients, of any workers, or waits for measure() and finish().
bool gathers(const TableConfig& table, const MessageHeader& header) {
  return (table.rules.counts_gradients() || table.spec.measured) && is_gradient(header);
}

Error undefined(TableId table) { return invalid("table {} is not defined", table); }

// The bytes of the values of these parts.
Result<std::size_t> bytes_of(const TableConfig& table, const Client::PartRange& range) {
  if (table.spec.kind != TableKind::kDense)
    return invalid("table '{}' is sparse: it has no ranges", table.spec.name);
  if (range.first > table.parts || range.count > table.parts - range.first)
    return invalid("parts {} to {} of table '{}', which has {}", range.first,
                   std::uint64_t{range.first} + range.count, table.spec.name, table.parts);
  std::size_t bytes = 0;
  for (std::uint32_t i = 0; i < range.count; ++i) bytes += value_bytes(table.spec, range.first + i);
  return bytes;
}

std::unique_ptr<Request> request_of(const MessageHeader& header) {
  auto request = std::make_unique<Request>();
  request->kind = header.kind;
  request->table = header.table;
  return request;
}

}  // namespace

Ticket ClientNode::failed(Error why) {
  auto request = std::make_unique<Request>();
  request->error = std::move(why);
  const MutexLock lock(mutex_);
  return pending_.open(std::move(request), {});
}

Ticket ClientNode::submit(std::unique_ptr<Request> request, std::vector<Subrequest> subrequests) {
  const MutexLock lock(mutex_);
  if (closed_) {
    request->error = *closed_;
    return pending_.open(std::move(request), {});
  }
  const std::uint64_t from = pending_.next_sequence();
  const Ticket ticket = pending_.open(std::move(request), std::move(subrequests));
  queues_.queue_from(from);
  settle_unroutable(from);
  queues_.send();
  return ticket;
}

Result<void> ClientNode::check_order(const TableConfig& table, const PartRange& range,
                                     const Order& order) {
  const bool is_encoded = !order.messages.empty();
  if (is_encoded || !order.payload.empty() || !order.reply.empty()) {
    TALLY_TRY(const std::size_t expected, bytes_of(table, range));
    for (const std::size_t bytes : {order.payload.size(), order.reply.size()})
      if (bytes != 0 && bytes != expected)
        return invalid("{} bytes for parts of table '{}' that have {}", bytes, table.spec.name,
                       expected);
  } else if (range.count > 0) {
    return invalid("no memory for parts of table '{}'", table.spec.name);
  }
  const bool is_coded = table.codec != nullptr;
  if (is_gradient(order.header) && range.count > 0 && is_encoded != is_coded)
    return invalid("gradients of table '{}' are {}", table.spec.name,
                   is_coded ? "encoded" : "not encoded");
  if (!is_encoded) return {};
  if (!is_gradient(order.header))
    return invalid("additions and assignments are values, not encoded");
  const bool has_each = order.messages.size() == range.count &&
                        (order.averages.empty() || order.averages.size() == range.count);
  if (!has_each)
    return invalid("{} messages and {} averages for {} parts", order.messages.size(),
                   order.averages.size(), range.count);
  for (const auto message : order.messages)
    if (message.size() > kMaxPayloadBytes)
      return invalid("a message of {} bytes, limit {}", message.size(), kMaxPayloadBytes);
  return {};
}

Ticket ClientNode::ask_parts(const PartRange& range, const Order& order) {
  const TableConfig* const found = table(range.table);
  if (found == nullptr) return failed(undefined(range.table));
  if (auto checked = check_order(*found, range, order); !checked.has_value())
    return failed(std::move(checked).error());
  std::vector<Subrequest> subrequests;
  std::size_t at = 0;
  for (std::uint32_t i = 0; i < range.count; ++i) {
    Subrequest subrequest{.header = order.header, .gathered = gathers(*found, order.header)};
    subrequest.header.part = range.first + i;
    const std::size_t bytes = value_bytes(found->spec, subrequest.header.part);
    if (!order.payload.empty()) subrequest.payload = order.payload.subspan(at, bytes);
    if (!order.messages.empty()) subrequest.payload = order.messages[i];
    if (!order.reply.empty()) subrequest.reply = order.reply.subspan(at, bytes);
    if (!order.averages.empty()) subrequest.average = &order.averages[i];
    at += bytes;
    subrequests.push_back(std::move(subrequest));
  }
  return submit(request_of(order.header), std::move(subrequests));
}

Ticket ClientNode::push(const PartRange& range, const PushOptions& options,
                        std::span<const std::byte> gradient) {
  return ask_parts(range, {.header = push_header(MessageKind::kPush, range.table, options),
                           .payload = gradient});
}

Ticket ClientNode::pull(const PartRange& range, const PullOptions& options,
                        std::span<std::byte> values) {
  return ask_parts(range, {.header = pull_header(range.table, options), .reply = values});
}

Ticket ClientNode::push_pull(const PartRange& range, const PushOptions& push,
                             const PullOptions& pull, std::span<const std::byte> gradient,
                             std::span<std::byte> values) {
  if (gradient.size() != values.size())
    return failed(invalid("{} bytes pushed and {} pulled", gradient.size(), values.size()));
  return ask_parts(range, {.header = push_header(MessageKind::kPushPull, range.table, push, pull),
                           .payload = gradient,
                           .reply = values});
}

Ticket ClientNode::push_encoded(const PartRange& range, const PushOptions& options,
                                Client::Messages gradient) {
  return ask_parts(range, {.header = push_header(MessageKind::kPush, range.table, options),
                           .messages = gradient});
}

Ticket ClientNode::push_pull_encoded(const PartRange& range, const PushOptions& push,
                                     const PullOptions& pull, Client::Messages gradient,
                                     std::span<std::byte> values) {
  return ask_parts(range, {.header = push_header(MessageKind::kPushPull, range.table, push, pull),
                           .reply = values,
                           .messages = gradient});
}

Ticket ClientNode::push_average(const PartRange& range, const PushOptions& push,
                                const PullOptions& pull, Client::Messages gradient,
                                std::span<std::byte> values, std::span<Client::Average> averages) {
  for (Client::Average& average : averages) average = {};
  return ask_parts(range,
                   {.header = push_header(MessageKind::kPushAverage, range.table, push, pull),
                    .reply = values,
                    .messages = gradient,
                    .averages = averages});
}

Ticket ClientNode::ask_state(MessageKind kind, const PartRange& range, int array,
                             std::span<const std::byte> payload, std::span<std::byte> reply) {
  // The index travels in one byte.
  if (array < 0 || array > 255)
    return failed(invalid("state array {}: no optimizer has so many", array));
  return ask_parts(range, {.header = {.kind = kind,
                                      .push_kind = static_cast<std::uint8_t>(array),
                                      .table = range.table},
                           .payload = payload,
                           .reply = reply});
}

Ticket ClientNode::read_state(const PartRange& range, int array, std::span<std::byte> state) {
  return ask_state(MessageKind::kReadState, range, array, {}, state);
}

Ticket ClientNode::write_state(const PartRange& range, int array,
                               std::span<const std::byte> state) {
  return ask_state(MessageKind::kWriteState, range, array, state, {});
}

// An undefined table is refused later.
MessageHeader ClientNode::push_header(MessageKind kind, TableId id, const PushOptions& push,
                                      const PullOptions& pull) const {
  const TableConfig* const found = table(id);
  return {.kind = kind,
          .push_kind = static_cast<std::uint8_t>(push.kind),
          .table = id,
          .clock = push.clock,
          .version = push.version,
          .least_version = pull.least_version,
          .least_clock = pull.least_clock,
          .weight = push.weight,
          .rate = push.rate.value_or(found != nullptr ? found->spec.optimizer.rate : 0)};
}

Ticket ClientNode::ask_sparse(const MessageHeader& header, std::span<const std::uint64_t> keys,
                              std::span<const float> gradient, std::span<float> rows) {
  const TableConfig* const found = table(header.table);
  if (found == nullptr) return failed(undefined(header.table));
  const TableSpec& spec = found->spec;
  if (spec.kind != TableKind::kSparse)
    return failed(invalid("table '{}' is dense: it has no keys", spec.name));
  const bool pushes = header.kind != MessageKind::kPull;
  const bool pulls = header.kind != MessageKind::kPush;
  const std::size_t values = keys.size() * spec.dimension;
  if ((pushes && gradient.size() != values) || (pulls && rows.size() != values))
    return failed(invalid("{} keys of table '{}' have rows of {} values each", keys.size(),
                          spec.name, spec.dimension));
  if (const auto repeated = pushes ? repeated_key(keys) : std::nullopt)
    return failed(invalid("key {} occurs twice in a push to table '{}': add its rows first",
                          *repeated, spec.name));
  auto request = request_of(header);
  request->sparse.emplace(
      SparseRequest::Shape{
          .parts = found->parts, .dimension = spec.dimension, .pushes = pushes, .pulls = pulls},
      keys);
  SparseRequest& sparse = *request->sparse;
  if (sparse.largest_message() > kMaxPayloadBytes)
    return failed(
        invalid("{} keys of table '{}' at once: a part's share is {} bytes, limit {}; "
                "ask for fewer at a time",
                keys.size(), spec.name, sparse.largest_message(), kMaxPayloadBytes));
  auto memory = staging_->take(sparse.bytes());
  if (!memory.has_value()) return failed(std::move(memory).error());
  request->staged = {memory->data(),
                     [staging = staging_, all = *memory](void*) { staging->give_back(all); }};
  sparse.lay_out(keys, gradient, *memory);
  if (pulls) sparse.target = rows;
  std::vector<Subrequest> subrequests(found->parts);
  for (std::uint32_t part = 0; part < found->parts; ++part) {
    subrequests[part].header = header;
    subrequests[part].header.part = part;
    subrequests[part].payload = sparse.payload(part);
    subrequests[part].reply = sparse.reply(part);
    subrequests[part].gathered = gathers(*found, header);
  }
  return submit(std::move(request), std::move(subrequests));
}

Ticket ClientNode::push(TableId table, const PushOptions& options,
                        std::span<const std::uint64_t> keys, std::span<const float> rows) {
  return ask_sparse(push_header(MessageKind::kPush, table, options), keys, rows, {});
}

Ticket ClientNode::pull(TableId table, const PullOptions& options,
                        std::span<const std::uint64_t> keys, std::span<float> rows) {
  return ask_sparse(pull_header(table, options), keys, {}, rows);
}

Ticket ClientNode::push_pull(TableId table, const PushOptions& push, const PullOptions& pull,
                             std::span<const std::uint64_t> keys, std::span<const float> gradient,
                             std::span<float> rows) {
  return ask_sparse(push_header(MessageKind::kPushPull, table, push, pull), keys, gradient, rows);
}

Ticket ClientNode::ask_all_parts(const MessageHeader& header) {
  const TableConfig* const found = table(header.table);
  if (found == nullptr) return failed(undefined(header.table));
  std::vector<Subrequest> subrequests(found->parts);
  for (std::uint32_t part = 0; part < found->parts; ++part) {
    subrequests[part].header = header;
    subrequests[part].header.part = part;
  }
  return submit(request_of(header), std::move(subrequests));
}

Ticket ClientNode::clock(TableId table, std::uint64_t clock) {
  return ask_all_parts({.kind = MessageKind::kClock, .table = table, .clock = clock});
}

Ticket ClientNode::set_version(TableId table, std::uint64_t version) {
  return ask_all_parts({.kind = MessageKind::kSetVersion, .table = table, .version = version});
}

Ticket ClientNode::measure(TableId id, const Client::MeasureOptions& options,
                           std::span<Client::Measured> parts) {
  const MessageHeader header{.kind = MessageKind::kMeasure,
                             .push_kind = options.direction ? kDirection : std::uint8_t{0},
                             .table = id,
                             .version = options.version};
  return ask_for_round(header, std::span(&options.factor, 1), parts);
}

Ticket ClientNode::finish(TableId id, const Client::FinishOptions& options,
                          std::span<Client::Measured> parts) {
  const MessageHeader header{.kind = MessageKind::kFinish,
                             .push_kind = options.discards ? kDiscard : std::uint8_t{0},
                             .table = id,
                             .version = options.version,
                             .least_version = options.version + 1};
  const std::array<double, 3> values = {options.factor, options.value_norm, options.gradient_norm};
  return ask_for_round(header, values, parts);
}

// Asks all parts of a measured table for the same.
Ticket ClientNode::ask_for_round(const MessageHeader& header, std::span<const double> values,
                                 std::span<Client::Measured> parts) {
  const TableConfig* const found = table(header.table);
  if (found == nullptr) return failed(undefined(header.table));
  if (!found->spec.measured || parts.size() != found->parts)
    return failed(invalid("{} measurements of table '{}', which has {} parts and is {}measured",
                          parts.size(), found->spec.name, found->parts,
                          found->spec.measured ? "" : "not "));
  auto request = request_of(header);
  request->body = encode(values);
  std::vector<Subrequest> subrequests(found->parts);
  for (std::uint32_t part = 0; part < found->parts; ++part) {
    subrequests[part] = {.header = header, .payload = request->body, .measured = &parts[part]};
    subrequests[part].header.part = part;
  }
  return submit(std::move(request), std::move(subrequests));
}

std::vector<Subrequest> ClientNode::subrequests_for_servers(const MessageHeader& header,
                                                            std::span<const std::byte> body) const {
  std::vector<Subrequest> subrequests;
  for (const ServerInfo& server : queues_.view().servers)
    subrequests.push_back({.header = header, .payload = body, .server = server.id});
  return subrequests;
}

Ticket ClientNode::ask_servers(const MessageHeader& header, std::vector<std::byte> body) {
  auto request = request_of(header);
  request->body = std::move(body);
  std::vector<Subrequest> subrequests;
  {
    const MutexLock lock(mutex_);
    subrequests = subrequests_for_servers(header, request->body);
  }
  return submit(std::move(request), std::move(subrequests));
}

Ticket ClientNode::define(const TableSpec& spec) {
  if (auto checked = check(spec); !checked.has_value()) return failed(std::move(checked).error());
  if (!joined()) return failed(make_error(ErrorCode::kClosed, "this worker has not joined yet"));
  return ask_servers({.kind = MessageKind::kDefine, .table = table_id(spec.name)}, encode(spec));
}

Ticket ClientNode::size(TableId table) {
  return ask_servers({.kind = MessageKind::kSize, .table = table}, {});
}

Ticket ClientNode::snapshot(const std::string& name) {
  return ask_servers({.kind = MessageKind::kSnapshot}, encode_text(name));
}

Ticket ClientNode::restore(const std::filesystem::path& snapshot,
                           const std::vector<std::string>& only) {
  return ask_servers({.kind = MessageKind::kRestore},
                     encode(SnapshotRestoration{.folder = snapshot.string(), .only = only}));
}

Ticket ClientNode::agree(std::span<const double> values) {
  if (values.size() > kMaxAgreeValues)
    return failed(invalid("{} values to agree on, limit {}", values.size(), kMaxAgreeValues));
  MessageHeader header{.kind = MessageKind::kAgree};
  {
    const MutexLock lock(mutex_);
    header.clock = ++agreements_;
  }
  auto request = request_of(header);
  request->body = encode(values);
  Subrequest subrequest{.header = header, .payload = request->body};
  return submit(std::move(request), {std::move(subrequest)});
}

}  // namespace tally::server
