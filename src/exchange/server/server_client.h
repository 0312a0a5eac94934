#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tally/server.h"

namespace tally::exchange {

// A worker's connection to parameter servers: the part of server::Client that a ServerExchange
// uses. Time limits are durations on the clock of the connection, which may be virtual. Threads:
// calls must not overlap.
class ServerClient {
 public:
  using Average = server::Client::Average;
  using FinishOptions = server::Client::FinishOptions;
  using Measured = server::Client::Measured;
  using MeasureOptions = server::Client::MeasureOptions;
  using Membership = server::Client::Membership;
  using Messages = server::Client::Messages;
  using PartRange = server::Client::PartRange;

  virtual ~ServerClient() = default;

  virtual Result<server::TableId> define(const server::TableSpec& spec, Duration limit) = 0;
  virtual std::uint32_t parts(server::TableId table) const = 0;
  virtual std::size_t part_elements(server::TableId table) const = 0;
  virtual Result<std::span<std::byte>> allocate(std::size_t bytes) = 0;

  // A request for some parts of a dense table: a push, a pull, or both.
  struct Request {
    PartRange range;
    std::optional<server::PushOptions> push = {};
    std::optional<server::PullOptions> pull = {};
    std::span<const std::byte> gradient = {};  // of a push
    Messages messages = {};                    // in its place: encoded gradients, by part
    std::span<std::byte> values = {};          // of a pull
    std::span<Average> averages = {};          // by part, if averages may arrive in place of values
  };
  virtual server::Ticket send(const Request& request) = 0;
  virtual server::Ticket push_rows(server::TableId table, const server::PushOptions& options,
                                   std::span<const std::uint64_t> keys,
                                   std::span<const float> rows) = 0;
  virtual server::Ticket pull_rows(server::TableId table, const server::PullOptions& options,
                                   std::span<const std::uint64_t> keys, std::span<float> rows) = 0;
  virtual server::Ticket clock(server::TableId table, std::uint64_t clock) = 0;
  // Measured tables.
  virtual server::Ticket measure(server::TableId table, const MeasureOptions& options,
                                 std::span<Measured> parts) = 0;
  virtual server::Ticket finish(server::TableId table, const FinishOptions& options,
                                std::span<Measured> parts) = 0;

  // Waits for the answer, as long as the connection allows a request to take. After an error the
  // request is forgotten, as by abandon().
  virtual Result<server::Completion> wait(server::Ticket ticket) = 0;
  virtual bool done(server::Ticket ticket) const = 0;
  // Forgets a request: it uses no memory of this worker after this call.
  virtual void abandon(server::Ticket ticket) = 0;

  virtual std::uint64_t newest_version(server::TableId table) const = 0;
  // The sums over all workers of up to 65536 values.
  virtual Result<std::vector<double>> agree(std::span<const double> values, Duration limit) = 0;
  virtual Membership membership() const = 0;

  virtual Result<std::filesystem::path> snapshot(const std::string& name, Duration limit) = 0;
  virtual Result<void> restore(const std::filesystem::path& snapshot, Duration limit,
                               const std::vector<std::string>& only) = 0;
  virtual bool keeps_residual(server::TableId table) const = 0;
  virtual Result<void> read_state(const PartRange& range, int array, std::span<std::byte> state,
                                  Duration limit) = 0;
  virtual Result<void> write_state(const PartRange& range, int array,
                                   std::span<const std::byte> state, Duration limit) = 0;
  virtual Result<void> set_version(server::TableId table, std::uint64_t version,
                                   Duration limit) = 0;
};

// Sends the request by the call of server::Client, or of its node, that fits it.
template <typename Client>
server::Ticket send_by(Client& client, const ServerClient::Request& r) {
  if (!r.push) return client.pull(r.range, *r.pull, r.values);
  if (!r.averages.empty())
    return client.push_average(r.range, *r.push, *r.pull, r.messages, r.values, r.averages);
  if (!r.messages.empty() && r.pull)
    return client.push_pull_encoded(r.range, *r.push, *r.pull, r.messages, r.values);
  if (!r.messages.empty()) return client.push_encoded(r.range, *r.push, r.messages);
  if (r.pull) return client.push_pull(r.range, *r.push, *r.pull, r.gradient, r.values);
  return client.push(r.range, *r.push, r.gradient);
}

// Limits of requests that move or set up whole tables.
inline constexpr Duration kTableLimit = std::chrono::minutes(5);

}  // namespace tally::exchange
