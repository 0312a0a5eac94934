#pragma once
#include <cstddef>
#include <deque>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "exchange/server/server_client.h"
#include "sim/server_cluster.h"

namespace tally::sim {

// The ServerClient of a worker in virtual time. Each call has the time limit of the cluster.
class SimServerClient final : public exchange::ServerClient {
 public:
  // Requests may use the memory until the worker ends.
  using Memory = std::deque<std::vector<double>>;
  // `foreign_finishes` counts parts that finished a round with other numbers than this worker's.
  SimServerClient(ServedWorker& me, Memory& memory, std::size_t& foreign_finishes)
      : me_(me), memory_(memory), foreign_finishes_(foreign_finishes) {}

  Result<server::TableId> define(const server::TableSpec& spec, Duration) override {
    return me_.define(spec);
  }
  std::uint32_t parts(server::TableId table) const override { return me_.node().parts(table); }
  std::size_t part_elements(server::TableId table) const override {
    return me_.node().part_elements(table);
  }
  Result<std::span<std::byte>> allocate(std::size_t bytes) override {
    memory_.emplace_back((bytes + sizeof(double) - 1) / sizeof(double));
    return std::as_writable_bytes(std::span(memory_.back())).first(bytes);
  }

  server::Ticket send(const Request& request) override { return send_by(me_.node(), request); }
  server::Ticket push_rows(server::TableId table, const server::PushOptions& options,
                           std::span<const std::uint64_t> keys,
                           std::span<const float> rows) override {
    return me_.node().push(table, options, keys, rows);
  }
  server::Ticket pull_rows(server::TableId table, const server::PullOptions& options,
                           std::span<const std::uint64_t> keys, std::span<float> rows) override {
    return me_.node().pull(table, options, keys, rows);
  }
  server::Ticket clock(server::TableId table, std::uint64_t clock) override {
    return me_.node().clock(table, clock);
  }
  server::Ticket measure(server::TableId table, const MeasureOptions& options,
                         std::span<Measured> parts) override {
    return me_.node().measure(table, options, parts);
  }
  server::Ticket finish(server::TableId table, const FinishOptions& options,
                        std::span<Measured> parts) override {
    const server::Ticket ticket = me_.node().finish(table, options, parts);
    finishes_.insert_or_assign(ticket, Finish{.options = options, .parts = parts});
    return ticket;
  }

  Result<server::Completion> wait(server::Ticket ticket) override {
    auto completion = me_.wait(ticket);
    if (!completion.has_value()) abandon(ticket);
    if (const auto finish = finishes_.extract(ticket); finish && completion)
      for (const Measured& part : finish.mapped().parts)
        if (part.finished && part.finished->factor != finish.mapped().options.factor)
          ++foreign_finishes_;
    return completion;
  }
  bool done(server::Ticket ticket) const override { return me_.node().done(ticket); }
  void abandon(server::Ticket ticket) override { me_.node().abandon(ticket); }
  std::uint64_t newest_version(server::TableId table) const override {
    return me_.node().newest_version(table);
  }
  Result<std::vector<double>> agree(std::span<const double> values, Duration) override {
    return me_.agree(values);
  }
  Membership membership() const override { return me_.node().membership(); }

  Result<std::filesystem::path> snapshot(const std::string& name, Duration) override {
    const server::Ticket ticket = me_.node().snapshot(name);
    TALLY_TRY(me_.await(ticket));
    return me_.node().take_snapshot(ticket);
  }
  Result<void> restore(const std::filesystem::path& snapshot, Duration,
                       const std::vector<std::string>& only) override {
    return done_with(me_.node().restore(snapshot, only));
  }
  bool keeps_residual(server::TableId table) const override {
    return me_.node().keeps_residual(table);
  }
  Result<void> read_state(const PartRange& range, int array, std::span<std::byte> state,
                          Duration) override {
    return done_with(me_.node().read_state(range, array, state));
  }
  Result<void> write_state(const PartRange& range, int array, std::span<const std::byte> state,
                           Duration) override {
    return done_with(me_.node().write_state(range, array, state));
  }
  Result<void> set_version(server::TableId table, std::uint64_t version, Duration) override {
    return done_with(me_.node().set_version(table, version));
  }

 private:
  Result<void> done_with(server::Ticket ticket) {
    TALLY_TRY(me_.wait(ticket));
    return {};
  }

  struct Finish {
    FinishOptions options;
    std::span<const Measured> parts;
  };

  ServedWorker& me_;
  Memory& memory_;
  std::size_t& foreign_finishes_;
  std::map<server::Ticket, Finish> finishes_;  // in progress
};

}  // namespace tally::sim
