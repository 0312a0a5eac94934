#include "apps/tally/word2vec_options.h"

#include <array>
#include <cstdlib>
#include <vector>

#include <fmt/format.h>

#include "base/errors.h"
#include "tally/server.h"

namespace tally::app {
namespace {

constexpr Duration kDefineTime = std::chrono::minutes(1);

// Two sparse tables on servers that accept increments. Threads: one.
class ServerRows final : public word2vec::RowService {
 public:
  ServerRows(server::ClientOptions client, const word2vec::Settings& settings, int workers)
      : client_options_(std::move(client)), settings_(settings), workers_(workers) {}

  Result<void> connect() {
    TALLY_TRY(client_, server::Client::connect(client_options_));
    TALLY_TRY(ids_[0], client_->define(
                           spec("word2vec/inputs", 0.5 / static_cast<double>(settings_.dimension)),
                           define_by()));
    TALLY_TRY(ids_[1], client_->define(spec("word2vec/outputs", 0), define_by()));
    return {};
  }

  Result<void> pull(Table table, std::span<const std::uint64_t> keys,
                    std::span<float> rows) override {
    if (!client_) TALLY_TRY(connect());
    const server::Ticket ticket =
        client_->pull(id_of(table), {.least_clock = least_clock()}, keys, rows);
    TALLY_TRY(client_->wait(ticket));
    return {};
  }

  Result<void> add(Table table, std::span<const std::uint64_t> keys,
                   std::span<const float> rows) override {
    tickets_.push_back(client_->push(
        id_of(table), {.kind = server::PushKind::kAdd, .clock = done_ + 1, .rate = settings_.rate},
        keys, rows));
    return {};
  }

  Result<void> tick() override {
    ++done_;
    if (settings_.rule.kind != word2vec::UpdateRule::Kind::kSsp) return {};
    for (const server::TableId id : ids_) tickets_.push_back(client_->clock(id, done_));
    return {};
  }

  Result<void> flush() override {
    for (const server::Ticket ticket : tickets_) TALLY_TRY(client_->wait(ticket));
    tickets_.clear();
    return {};
  }

  // Servers do not wait for workers that have left; a worker that pulls afterwards rejoins and does
  // not wait either.
  Result<void> finish() override {
    TALLY_TRY(flush());
    client_.reset();
    finished_ = true;
    return {};
  }

 private:
  Deadline define_by() const { return Deadline::after(kDefineTime); }
  server::TableId id_of(Table table) const { return ids_[table == Table::kInputs ? 0 : 1]; }

  // Chunks that all workers must have finished before this one reads rows for its next chunk.
  std::uint64_t least_clock() const {
    const word2vec::UpdateRule& rule = settings_.rule;
    const bool waits = rule.kind == word2vec::UpdateRule::Kind::kSsp && !finished_;
    return waits && done_ > rule.bound ? done_ - rule.bound : 0;
  }

  server::TableSpec spec(const std::string& name, double scale) const {
    const word2vec::UpdateRule& rule = settings_.rule;
    return {.name = name,
            .kind = server::TableKind::kSparse,
            .dimension = static_cast<std::uint32_t>(settings_.dimension),
            .plan = rule.kind == word2vec::UpdateRule::Kind::kSsp
                        ? fmt::format("update=ssp:{}", rule.bound)
                        : "update=asp",
            .workers = workers_,
            .seed = settings_.seed,
            .initial_scale = scale};
  }

  const server::ClientOptions client_options_;
  const word2vec::Settings settings_;
  const int workers_;
  std::unique_ptr<server::Client> client_;
  std::array<server::TableId, 2> ids_ = {};
  std::vector<server::Ticket> tickets_;
  std::uint64_t done_ = 0;  // chunks
  bool finished_ = false;
};

// Returns the address of the servers and the transport.
Result<server::ClientOptions> client_of(const Word2vecOptions& options, const JobOptions& joined) {
  if (!options.directory.empty())
    return server::ClientOptions{.directory = options.directory,
                                 .secret = options.directory_secret};
  const char* const directory = std::getenv("TALLY_DIRECTORY");  // set by the launcher
  if (directory == nullptr)
    return invalid(
        "home=server under a launcher needs --directory, as `tally serve` has "
        "it, or `tally run --servers`");
  return server::ClientOptions{.directory = directory, .secret = joined.secret};
}

}  // namespace

Result<std::unique_ptr<word2vec::RowService>> rows_of_servers(const Word2vecOptions& options,
                                                              const Job& job,
                                                              const JobOptions& joined) {
  if (!options.settings.rule.uses_servers()) return std::unique_ptr<word2vec::RowService>();
  TALLY_TRY(server::ClientOptions client, client_of(options, joined));
  client.rank = job.rank();
  auto rows = std::make_unique<ServerRows>(std::move(client), options.settings, job.size());
  TALLY_TRY(rows->connect());
  return std::unique_ptr<word2vec::RowService>(std::move(rows));
}

}  // namespace tally::app
