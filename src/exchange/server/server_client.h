#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
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
  using Membership = server::Client::Membership;
  using Messages = server::Client::Messages;
  using PartRange = server::Client::PartRange;

  virtual ~ServerClient() = default;

  virtual Result<server::TableId> define(const server::TableSpec& spec, Duration limit) = 0;
  virtual std::uint32_t parts(server::TableId table) const = 0;
  virtual std::size_t part_elements(server::TableId table) const = 0;
  virtual Result<std::span<std::byte>> allocate(std::size_t bytes) = 0;

  virtual server::Ticket push(const PartRange& range, const server::PushOptions& options,
                              std::span<const std::byte> gradient) = 0;
  virtual server::Ticket pull(const PartRange& range, const server::PullOptions& options,
                              std::span<std::byte> values) = 0;
  virtual server::Ticket push_pull(const PartRange& range, const server::PushOptions& push,
                                   const server::PullOptions& pull,
                                   std::span<const std::byte> gradient,
                                   std::span<std::byte> values) = 0;
  virtual server::Ticket push_encoded(const PartRange& range, const server::PushOptions& options,
                                      Messages gradient) = 0;
  virtual server::Ticket push_pull_encoded(const PartRange& range, const server::PushOptions& push,
                                           const server::PullOptions& pull, Messages gradient,
                                           std::span<std::byte> values) = 0;
  virtual server::Ticket push_average(const PartRange& range, const server::PushOptions& push,
                                      const server::PullOptions& pull, Messages gradient,
                                      std::span<std::byte> values, std::span<Average> averages) = 0;
  virtual server::Ticket push_rows(server::TableId table, const server::PushOptions& options,
                                   std::span<const std::uint64_t> keys,
                                   std::span<const float> rows) = 0;
  virtual server::Ticket pull_rows(server::TableId table, const server::PullOptions& options,
                                   std::span<const std::uint64_t> keys, std::span<float> rows) = 0;
  virtual server::Ticket clock(server::TableId table, std::uint64_t clock) = 0;

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

// Limits of requests that move or set up whole tables.
inline constexpr Duration kTableLimit = std::chrono::minutes(5);

}  // namespace tally::exchange
