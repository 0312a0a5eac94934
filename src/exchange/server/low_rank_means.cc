#include "exchange/server/low_rank_means.h"

#include <utility>
#include <vector>

#include "exchange/low_rank_round.h"

namespace tally::exchange {

Result<std::optional<double>> mean_gradients(ServerWorker& worker, GradientRoom& room,
                                             double weight) {
  std::vector<std::size_t> tables;
  std::vector<LowRankRound<double>::Item> items;
  for (std::size_t t = 0; t < room.flat.size(); ++t) {
    const ServerTables::Table& table = worker.tables().all()[t];
    if (!table.is_low_rank()) continue;
    tables.push_back(t);
    items.push_back(
        {.matrix = &table.coded->matrix(), .gradient = elements_of<float>(room.flat[t])});
  }
  if (tables.empty()) return std::optional<double>();
  LowRankRound<double> round;
  round.project(std::move(items),
                {.weight = weight,
                 .feedback = worker.tables().all()[tables.front()].coded->options().spec.feedback});
  Result<void> summed = worker.sum(round.left());
  const double total = round.total();
  if (summed.has_value() && total > 0) {
    round.correlate();
    summed = worker.sum(round.right());
    if (summed.has_value()) round.finish();
  }
  // A worker may go on after an error, from a checkpoint.
  if (!summed.has_value()) {
    round.give_up();
    return std::move(summed).error();
  }
  for (std::size_t i = 0; i < tables.size(); ++i) {
    const ServerTables::Table& table = worker.tables().all()[tables[i]];
    CodedTable::Messages& messages = room.messages[tables[i]];
    for (std::vector<std::byte>& message : messages) message.clear();
    if (total > 0)
      table.coded->encode_factors(round.left_factor(i), round.right_factor(i), messages);
  }
  return std::optional(total);
}

}  // namespace tally::exchange
