#include "exchange/server/server_exchange.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/errors.h"

namespace tally::exchange {
Result<std::unique_ptr<ServerExchange>> ServerExchange::make(std::unique_ptr<ServerClient> client,
                                                             const Options& options) {
  SparseRows* const rows = options.step.rows;
  std::vector<server::TableSpec> sparse;
  if (rows != nullptr) sparse = rows->tables();
  TALLY_TRY(ServerTables tables, ServerTables::make(*client, options.tables, sparse));
  std::unique_ptr<ServerExchange> made(
      new ServerExchange(std::move(client), std::move(tables), options));
  ServerWorker& worker = made->worker_;
  if (rows != nullptr) rows->connect(*made->client_, worker.tables().sparse());
  TALLY_TRY(worker.agree(options.tables.rank == 0 ? made->assign_values(options) : Result<void>()));
  TALLY_TRY(worker.join(/*step=*/0));
  // No rank pushes before all ranks have the same values.
  TALLY_TRY(worker.barrier());
  return made;
}

ServerExchange::ServerExchange(std::unique_ptr<ServerClient> client, ServerTables tables,
                               const Options& options)
    : worker_(*client, std::move(tables)),
      step_(worker_, options.step),
      meetings_(worker_, step_),
      checkpoint_(worker_, step_),
      client_(std::move(client)) {}

// Tables of an earlier training restart at version 0: rounds, warm-ups and random choices depend on
// the version.
Result<void> ServerExchange::assign_values(const Options& options) {
  for (const server::TableId table : worker_.tables().ids())
    TALLY_TRY(client_->set_version(table, 0, kTableLimit));
  for (std::size_t p = 0; p < options.tables.parameters.size(); ++p)
    options.initial(p, {.type = type(p), .bytes = values(p)});
  for (const ServerTables::Table& table : worker_.tables().all())
    TALLY_TRY(worker_.assign(table.all(), table.values));
  return {};
}

Result<void> ServerExchange::ready(std::size_t parameter, const std::byte* elsewhere) {
  TALLY_CHECK(elsewhere == nullptr);
  step_.ready(parameter);
  return {};
}

Result<void> ServerExchange::drain(const StepContribution& rest) {
  if (worker_.rules().has_rounds())
    return make_error(ErrorCode::kInvalid,
                      "drain() is not offered where servers wait for every worker's gradient: call "
                      "step() with 0 samples instead");
  if (rest.samples > 0) TALLY_TRY(step_.complete(rest));
  TALLY_TRY(step_.flush());
  // The clock tells the others not to wait for this worker.
  constexpr std::uint64_t kEnd = std::uint64_t{1} << 62;
  TALLY_TRY(worker_.tell_clock(kEnd));
  TALLY_TRY(worker_.barrier());
  TALLY_TRY(worker_.refresh());
  step_.renew();
  return {};
}

DataType ServerExchange::type(std::size_t parameter) const {
  return worker_.tables().all()[worker_.tables().places()[parameter].table].type;
}

Statistics ServerExchange::statistics() const {
  return {.update = worker_.figures.copying,
          .wait = worker_.figures.waited,
          .staleness = worker_.figures.staleness,
          .dropped = worker_.figures.dropped,
          .memory_bytes = 2 * worker_.tables().bytes() + step_.memory_bytes()};
}

}  // namespace tally::exchange
