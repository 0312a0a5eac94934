#pragma once
#include <atomic>
#include <functional>
#include <memory>

#include "exchange/server/server_client.h"
#include "tally/communicator.h"
#include "tally/server.h"
#include "tally/server_options.h"

namespace tally::exchange {

// The options, with the directory and the secret that `tally run --servers` has put into the
// environment if the options name no servers. kInvalid if the secret cannot be read.
Result<ServerOptions> with_launcher(ServerOptions options,
                                    const std::function<const char*(const char*)>& variable);

// The directory of `servers` servers inside workers, which rank 0 runs.
server::DirectoryOptions directory_options(const ServerOptions& options, int servers);

// A rank's connection to the parameter servers, with the servers in this process: if no directory
// is given, rank 0 runs one, and the first ranks run a server each.
class ServerPlace final : public ServerClient {
 public:
  // Called by all ranks; uses `world` only during the call. `on_event` is called when servers join
  // or leave, from other threads.
  static Result<std::unique_ptr<ServerPlace>> make(Communicator& world,
                                                   const ServerOptions& options,
                                                   const server::EventSink& on_event);
  // Servers inside workers run until all workers are done, unless an exception ends this worker.
  ~ServerPlace() override;
  ServerPlace(const ServerPlace&) = delete;
  ServerPlace& operator=(const ServerPlace&) = delete;

  Result<server::TableId> define(const server::TableSpec& spec, Duration limit) override {
    return client_->define(spec, Deadline::after(limit));
  }
  std::uint32_t parts(server::TableId table) const override { return client_->parts(table); }
  std::size_t part_elements(server::TableId table) const override {
    return client_->part_elements(table);
  }
  Result<std::span<std::byte>> allocate(std::size_t bytes) override {
    return client_->allocate(bytes);
  }
  server::Ticket send(const Request& request) override { return send_by(*client_, request); }
  server::Ticket push_rows(server::TableId table, const server::PushOptions& options,
                           std::span<const std::uint64_t> keys,
                           std::span<const float> rows) override {
    return client_->push(table, options, keys, rows);
  }
  server::Ticket pull_rows(server::TableId table, const server::PullOptions& options,
                           std::span<const std::uint64_t> keys, std::span<float> rows) override {
    return client_->pull(table, options, keys, rows);
  }
  server::Ticket clock(server::TableId table, std::uint64_t clock) override {
    return client_->clock(table, clock);
  }
  server::Ticket measure(server::TableId table, const MeasureOptions& options,
                         std::span<Measured> parts) override {
    return client_->measure(table, options, parts);
  }
  server::Ticket finish(server::TableId table, const FinishOptions& options,
                        std::span<Measured> parts) override {
    return client_->finish(table, options, parts);
  }
  Result<server::Completion> wait(server::Ticket ticket) override { return client_->wait(ticket); }
  bool done(server::Ticket ticket) const override { return client_->done(ticket); }
  void abandon(server::Ticket ticket) override {
    (void)client_->wait(ticket, Deadline::after(Duration{}));
  }
  std::uint64_t newest_version(server::TableId table) const override {
    return client_->newest_version(table);
  }
  Result<std::vector<double>> agree(std::span<const double> values, Duration limit) override {
    return client_->agree(values, Deadline::after(limit));
  }
  Membership membership() const override { return client_->membership(); }
  Result<std::filesystem::path> snapshot(const std::string& name, Duration limit) override {
    return client_->snapshot(name, Deadline::after(limit));
  }
  Result<void> restore(const std::filesystem::path& snapshot, Duration limit,
                       const std::vector<std::string>& only) override {
    return client_->restore(snapshot, Deadline::after(limit), only);
  }
  bool keeps_residual(server::TableId table) const override {
    return client_->keeps_residual(table);
  }
  Result<void> read_state(const PartRange& range, int array, std::span<std::byte> state,
                          Duration limit) override {
    return client_->read_state(range, array, state, Deadline::after(limit));
  }
  Result<void> write_state(const PartRange& range, int array, std::span<const std::byte> state,
                           Duration limit) override {
    return client_->write_state(range, array, state, Deadline::after(limit));
  }
  Result<void> set_version(server::TableId table, std::uint64_t version, Duration limit) override {
    return client_->set_version(table, version, Deadline::after(limit));
  }

 private:
  explicit ServerPlace(bool colocated);
  Result<void> wait_for_all(int workers) const;

  const bool colocated_;
  const int exceptions_;
  const std::shared_ptr<std::atomic<bool>> is_leaving_;  // shared with the event callback
  std::unique_ptr<server::Directory> directory_;
  std::unique_ptr<server::Server> server_;
  std::unique_ptr<server::Client> client_;
};

}  // namespace tally::exchange
