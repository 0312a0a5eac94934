#include "exchange/server/low_rank_means.h"

#include <utility>
#include <vector>

// Two sums over all workers, each for all tables at once: the left factors with the total weight,
// then the right factors.
namespace tally::exchange {
namespace {

// Removes the next `count` values from `rest`, and returns them.
std::span<double> next_of(std::span<double>& rest, std::size_t count) {
  const std::span<double> next = rest.first(count);
  rest = rest.subspan(count);
  return next;
}

}  // namespace

Result<std::optional<double>> mean_gradients(ServerWorker& worker, GradientRoom& room,
                                             double weight) {
  struct Matrix {
    CodedTable& table;
    std::span<float> gradient;
    CodedTable::Messages& messages;
  };
  std::vector<Matrix> matrices;
  std::size_t left_count = 0, right_count = 0;
  for (std::size_t t = 0; t < room.flat.size(); ++t) {
    const ServerTables::Table& table = worker.tables().all()[t];
    if (!table.is_low_rank()) continue;
    matrices.push_back({*table.coded, elements_of<float>(room.flat[t]), room.messages[t]});
    left_count += table.coded->matrix().p_count();
    right_count += table.coded->matrix().q_count();
  }
  if (matrices.empty()) return std::optional<double>();
  std::vector<double> left(left_count + 1), right(right_count);
  left.back() = weight;
  std::span<double> rest = left;
  for (const Matrix& each : matrices)
    each.table.project(each.gradient, weight, next_of(rest, each.table.matrix().p_count()));
  TALLY_TRY(worker.sum(left));
  const double total = left.back();
  if (total == 0) {
    for (const Matrix& each : matrices)
      for (std::vector<std::byte>& message : each.messages) message.clear();
    return std::optional(total);
  }
  rest = left;
  std::span<double> rest_of_right = right;
  for (const Matrix& each : matrices)
    each.table.correlate(next_of(rest, each.table.matrix().p_count()), total, weight,
                         next_of(rest_of_right, each.table.matrix().q_count()));
  TALLY_TRY(worker.sum(right));
  rest = right;
  for (const Matrix& each : matrices)
    each.table.finish(next_of(rest, each.table.matrix().q_count()), total, weight, each.gradient,
                      each.messages);
  return std::optional(total);
}

}  // namespace tally::exchange
