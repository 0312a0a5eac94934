#pragma once
#include <optional>

#include "exchange/server/gradient_rooms.h"
#include "exchange/server/server_worker.h"

namespace tally::exchange {

// powersgd: replaces the gradients of all tables with this codec by low-rank means over all
// workers, and encodes the means as messages. Returns the total weight, at 0 without means; none if
// there is no such table. Collective.
Result<std::optional<double>> mean_gradients(ServerWorker& worker, GradientRoom& room,
                                             double weight);

}  // namespace tally::exchange
