#include "server/part/table.h"

#include <utility>

#include "base/check.h"
#include "plan/plan.h"
#include "server/part/push_history.h"
#include "server/part/table_part.h"
#include "server/protocol/message.h"
#include "server/storage/table_spec.h"

namespace tally::server {

Result<TableConfig> make_table_config(TableId id, const TableSpec& spec, std::uint32_t slots) {
  TALLY_TRY(check(spec));
  TALLY_TRY(const plan::Plan plan, plan::parse_plan(spec.plan, {.home = plan::Home::kServer}));
  TALLY_TRY(policy::Rules rules, policy::rules_of(plan, spec.workers, spec.seed));
  rules.momentum = spec.optimizer.momentum;
  const std::uint64_t most =
      std::uint64_t{PushHistory::kMaxHeld} * static_cast<std::uint64_t>(spec.workers);
  if (rules.update == plan::Update::kKbatch && static_cast<std::uint64_t>(rules.needed) > most)
    return invalid(
        "kbatch:{} with {} workers, of each of which {} gradients "
        "may wait: such a round is never complete",
        rules.needed, spec.workers, PushHistory::kMaxHeld);
  TableConfig config{.id = id,
                     .spec = spec,
                     .stored = spec,
                     .rules = rules,
                     .parts = parts_of(spec, slots),
                     .slots = slots,
                     .encoded = encode(spec)};
  TALLY_TRY(config.codec, TableCodec::make(spec));
  config.stored.optimizer.momentum = policy::corrected_momentum(rules);
  OptimizerSpec& optimizer = config.stored.optimizer;
  if (optimizer.kind == OptimizerKind::kSgd && optimizer.momentum == 0) {
    optimizer.nesterov = false;
    optimizer.dampening = 0;
  }
  config.gradients_commute = optimizer.kind == OptimizerKind::kSgd && optimizer.momentum == 0 &&
                             optimizer.weight_decay == 0 && !rules.has_rounds() &&
                             rules.stale != plan::Stale::kCompensate;
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
