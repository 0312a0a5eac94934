#include "server/part/table.h"

#include <utility>

#include "base/check.h"
#include "optimizer/update_rule.h"
#include "server/part/push_history.h"
#include "server/part/table_part.h"
#include "server/protocol/message.h"
#include "server/storage/table_spec.h"

namespace tally::server {

namespace {

// Norms over whole tables are known only where workers wait for each round.
Result<void> check_measured(const TableSpec& spec, const policy::Rules& rules) {
  const bool is_layerwise = optimizer::is_layerwise(spec.optimizer);
  if (is_layerwise && spec.kind == TableKind::kSparse)
    return invalid("table '{}': {} needs norms over whole tensors; sparse tables have none",
                   spec.name, to_string(spec.optimizer));
  if (is_layerwise && !spec.measured)
    return invalid("table '{}': {} needs norms over whole tensors: set TableSpec::measured",
                   spec.name, to_string(spec.optimizer));
  if (spec.measured && (!rules.has_rounds() || rules.counts_gradients()))
    return invalid(
        "table '{}': norms over whole tensors need update=bsp, backup or subset, where all workers "
        "wait for a round",
        spec.name);
  return {};
}

}  // namespace

Result<TableConfig> make_table_config(TableId id, const TableSpec& spec, std::uint32_t slots) {
  TALLY_TRY(check(spec));
  TALLY_TRY(const policy::Rules rules, rules_of(spec));
  TALLY_TRY(check_measured(spec, rules));
  const std::uint64_t most =
      std::uint64_t{PushHistory::kMaxHeld} * static_cast<std::uint64_t>(spec.workers);
  if (rules.counts_gradients() && static_cast<std::uint64_t>(rules.needed) > most)
    return invalid(
        "kbatch:{} with {} workers, of each of which {} gradients "
        "may wait: such a round is never complete",
        rules.needed, spec.workers, PushHistory::kMaxHeld);
  TableConfig config{.id = id,
                     .spec = spec,
                     .rules = rules,
                     .share_power = optimizer::share_power(spec.optimizer),
                     .parts = parts_of(spec, slots),
                     .slots = slots,
                     .encoded = encode(spec)};
  TALLY_TRY(config.codec, TableCodec::make(spec));
  const OptimizerSpec& optimizer = spec.optimizer;
  config.gradients_commute = optimizer.kind == OptimizerKind::kSgd && optimizer.momentum == 0 &&
                             optimizer.weight_decay == 0 && !rules.has_rounds() &&
                             rules.stale != plan::Stale::kCompensate &&
                             (config.codec == nullptr || !config.codec->votes());
  return config;
}

Table::Table(TableConfig config, const PartContext& context) : config_(std::move(config)) {
  parts_.reserve(config_.parts);
  for (std::uint32_t index = 0; index < config_.parts; ++index)
    parts_.push_back(std::make_unique<TablePart>(config_, index, context));
}

Table::~Table() = default;

void TableSet::add(std::unique_ptr<Table> table) {
  const TableId id = table->config().id;
  TALLY_CHECK(find(id) == nullptr);
  by_id_[id].store(table.get(), std::memory_order_release);
  owned_.push_back(std::move(table));
}

}  // namespace tally::server
