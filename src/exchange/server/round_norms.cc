#include "exchange/server/round_norms.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "exchange/clip.h"
#include "optimizer/update_rule.h"

namespace tally::exchange {

// Measures the first tables; dense tables come before sparse ones.
Result<std::vector<RoundNorms::Parts>> RoundNorms::measure(
    const ServerClient::MeasureOptions& options, std::size_t tables) {
  const std::vector<server::TableId> ids = worker_.tables().ids();
  std::vector<Parts> measured(tables);
  std::vector<server::Ticket> tickets;
  for (std::size_t t = 0; t < tables; ++t) {
    measured[t].resize(worker_.client().parts(ids[t]));
    tickets.push_back(worker_.client().measure(ids[t], options, measured[t]));
  }
  TALLY_TRY(worker_.wait_all(tickets));
  return measured;
}

// The clipping of all tables: that of a part whose round is finished, or by the norm of all parts.
// Parts that skipped the round have no numbers for it.
ServerClient::FinishOptions RoundNorms::common(const std::vector<Parts>& tables,
                                               std::uint64_t version) const {
  double squares = 0;
  for (const Parts& parts : tables)
    for (const ServerClient::Measured& part : parts) {
      if (part.skipped) continue;
      if (part.finished)
        return {.version = version,
                .factor = part.finished->factor,
                .discards = part.finished->discards};
      squares += part.gradient_squares;
    }
  const double norm = std::sqrt(squares);
  return {.version = version,
          .factor = options_.clip_norm ? clip_factor(norm, *options_.clip_norm) : 1,
          .discards = options_.discards_nonfinite && !std::isfinite(norm)};
}

// The norms of one table, times `factor` those of its gradient.
void RoundNorms::set_norms(const Parts& parts, double factor, ServerClient::FinishOptions& table) {
  double values = 0;
  double gradient = 0;
  for (const ServerClient::Measured& part : parts) {
    if (part.skipped) continue;
    if (part.finished) {
      table.value_norm = part.finished->value_norm;
      table.gradient_norm = part.finished->gradient_norm;
      return;
    }
    values += part.value_squares;
    gradient += part.gradient_squares;
  }
  table.value_norm = std::sqrt(values);
  table.gradient_norm = factor * std::sqrt(gradient);
}

Result<RoundNorms::Finished> RoundNorms::finish(std::uint64_t version) {
  const std::vector<server::TableId> ids = worker_.tables().ids();
  const auto& dense = worker_.tables().all();
  TALLY_TRY(std::vector<Parts> measured, measure({.version = version}, ids.size()));
  const ServerClient::FinishOptions all = common(measured, version);
  std::vector<ServerClient::FinishOptions> options(ids.size(), all);
  const auto& optimizers = worker_.tables().options().optimizers;
  const bool has_lamb =
      std::any_of(optimizers.begin(), optimizers.end(),
                  [](const OptimizerSpec& spec) { return spec.kind == OptimizerKind::kLamb; });
  double factor = all.factor;
  if (has_lamb && !all.discards) {
    // The squares of lamb's directions are those of the clipped gradient already.
    TALLY_TRY(measured,
              measure({.version = version, .factor = all.factor, .direction = true}, dense.size()));
    factor = 1;
  }
  for (std::size_t t = 0; t < dense.size(); ++t)
    if (optimizer::is_layerwise(optimizers[dense[t].group]))
      set_norms(measured[t], factor, options[t]);
  std::vector<Parts> ended(ids.size());
  std::vector<server::Ticket> tickets;
  for (std::size_t t = 0; t < ids.size(); ++t) {
    ended[t].resize(worker_.client().parts(ids[t]));
    tickets.push_back(worker_.client().finish(ids[t], options[t], ended[t]));
  }
  TALLY_TRY(worker_.wait_all(tickets));
  Finished finished{.tables = std::vector<PartFinishes>(dense.size())};
  for (std::size_t t = 0; t < ids.size(); ++t)
    for (const ServerClient::Measured& part : ended[t]) {
      const ServerClient::FinishOptions used = part.finished.value_or(options[t]);
      finished.discarded = finished.discarded || used.discards;
      if (t < dense.size()) finished.tables[t].push_back(used);
    }
  return finished;
}

}  // namespace tally::exchange
