#include "exchange/make_exchange.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/errors.h"
#include "exchange/check_same.h"
#include "exchange/device/device_fit.h"
#include "exchange/group/group_exchange.h"
#include "exchange/plan_advice.h"
#include "exchange/server/server_exchange.h"
#include "exchange/server/server_place.h"
#include "optimizer/update_rule.h"

namespace tally::exchange {
namespace {

constexpr auto kMakeTimeout = std::chrono::minutes(5);

// A group clips the decoded mean, which is momentum after the warm-up. The senders' state would
// keep the unclipped mean.
Result<void> check_clipping(const ExchangeOptions& options) {
  const GroupUpdate::Options& update = options.update;
  for (const auto& [name, limit] :
       {std::pair("clip_norm", update.clip_norm), std::pair("clip_value", update.clip_value)}) {
    if (!limit) continue;
    if (!(*limit > 0)) return make_error(ErrorCode::kInvalid, "{} must be above 0", name);
    if (options.plan.codec.kind == plan::Codec::kOnebitAdam &&
        options.plan.home == plan::Home::kGroup)
      return make_error(
          ErrorCode::kInvalid,
          "{} with codec={} in the group would clip momentum after the warm-up, not gradients: "
          "leave it out, or use home=server, where each worker clips its own",
          name, plan::to_string(options.plan.codec));
  }
  return {};
}

// Whether servers can clip mean gradients: onebit-adam sends momentum, so that each worker clips
// its own gradient.
bool sends_gradients(const GroupUpdate::Options& update) {
  return update.codec.kind != plan::Codec::kOnebitAdam;
}

// Whether rounds on servers need norms of the mean gradient: where all workers wait for a round.
bool is_measured(const GroupUpdate::Options& update, const policy::Rules& rules) {
  if (!rules.has_rounds() || rules.counts_gradients()) return false;
  const bool clips = (update.clip_norm || update.clip_value) && sends_gradients(update);
  return clips || update.discards_nonfinite ||
         std::any_of(update.optimizers.begin(), update.optimizers.end(),
                     [](const OptimizerSpec& spec) { return optimizer::is_layerwise(spec); });
}

Result<std::unique_ptr<Exchange>> make_on_servers(Communicator& world,
                                                  const ExchangeOptions& options,
                                                  const policy::Rules& rules) {
  const GroupUpdate::Options& update = options.update;
  // Compare the models before a rank defines tables for them.
  std::vector<std::string> parameters;
  for (const ParameterInfo& info : update.parameters) parameters.push_back(to_string(info));
  const Deadline by = Deadline::after(kMakeTimeout);
  TALLY_TRY(check_same(world, {"models", "parameter", parameters}, by));
  TALLY_TRY(check_same(world, {"trainers", "setting", update.settings}, by));
  TALLY_TRY(auto place, ServerPlace::make(world, options.servers, update.on_event));
  const bool measured = is_measured(update, rules);
  if (measured && update.discards_nonfinite && update.clip_value)
    return invalid(
        "loss scaling with clip_value on servers: they would clip an infinite gradient before "
        "they see that it is to be discarded; nearest: clip_norm, or home=group");
  const bool clips_means = measured && sends_gradients(update);
  TALLY_TRY(auto made,
            ServerExchange::make(
                std::move(place),
                {.tables = {.parameters = update.parameters,
                            .optimizers = update.optimizers,
                            .rules = rules,
                            .plan = plan::to_string(options.plan),
                            .seed = update.seed,
                            .codec = update.codec,
                            .senders = update.senders,
                            .rank = world.rank(),
                            .measured = measured,
                            .clip_value = clips_means ? update.clip_value.value_or(0) : 0},
                 .step = {.clip = {.value = update.clip_value, .norm = update.clip_norm},
                          .discards_nonfinite = update.discards_nonfinite,
                          .rows = options.rows},
                 .initial = [&](std::size_t p, const RealSpan& values) {
                   options.initial(p, values.type, values.bytes);
                 }}));
  return std::unique_ptr<Exchange>(std::move(made));
}

// Whether the model lies on devices. Called by all ranks.
Result<bool> is_on_devices(Communicator& world, const ExchangeOptions& options) {
  const DeviceFit fit = device_fit({.plan = options.plan,
                                    .codec = options.update.codec,
                                    .workers = world.size(),
                                    .discards_nonfinite = options.update.discards_nonfinite});
  const std::int32_t has_one = options.device != nullptr ? 1 : 0;
  std::int32_t with_one = has_one;
  TALLY_TRY(world.allreduce(std::span(&with_one, 1)));
  const bool all_have = with_one == world.size();
  if (with_one > 0 && world.rank() == 0 && options.update.on_event && !(all_have && fit.fits))
    options.update.on_event("gradients go through host memory: " +
                            (fit.fits ? fmt::format("{} of {} workers {} a GPU", with_one,
                                                    world.size(), with_one == 1 ? "has" : "have")
                                      : fit.reason));
  return all_have && fit.fits;
}

Result<std::unique_ptr<Exchange>> make_on_devices(Communicator& world, ExchangeOptions options) {
  const auto initial = [types = options.update.parameters, write = std::move(options.initial)](
                           std::size_t p, std::span<std::byte> values) {
    write(p, types[p].type, values);
  };
  TALLY_TRY(auto made, DeviceExchange::make(world,
                                            {.update = std::move(options.update),
                                             .device = std::move(options.device),
                                             .make_sum = std::move(options.make_sum),
                                             .make_gather = std::move(options.make_gather),
                                             .shards_state = options.shards_state,
                                             .initial = initial},
                                            Deadline::after(kMakeTimeout)));
  return std::unique_ptr<Exchange>(std::move(made));
}

}  // namespace

Result<std::unique_ptr<Exchange>> make_exchange(Communicator& world, ExchangeOptions options) {
  TALLY_TRY(plan::check_exchanges_gradients(options.plan, "the trainer"));
  TALLY_TRY(check_clipping(options));
  TALLY_TRY(const policy::Rules rules,
            policy::rules_of(options.plan, world.size(), options.update.seed));
  const PlanInUse use{options.plan, options.update.optimizers, options.update.senders,
                      world.size()};
  TALLY_TRY(check_optimizers(use));
  for (const std::string& warning : warnings(use))
    if (options.update.on_event && world.rank() == 0) options.update.on_event(warning);
  options.update.codec = codec_in_use(use);
  TALLY_TRY(const bool on_devices, is_on_devices(world, options));
  if (on_devices) return make_on_devices(world, std::move(options));
  if (options.shards_state && options.update.on_event && world.rank() == 0)
    options.update.on_event("the optimizer state is not sharded: only models on GPUs have shards");
  if (options.plan.home == plan::Home::kServer) return make_on_servers(world, options, rules);
  const auto initial = [types = options.update.parameters, write = std::move(options.initial)](
                           std::size_t p, std::span<std::byte> values) {
    write(p, types[p].type, values);
  };
  TALLY_TRY(auto made,
            GroupExchange::make(
                world, {.update = std::move(options.update), .rules = rules, .initial = initial},
                Deadline::after(kMakeTimeout)));
  return std::unique_ptr<Exchange>(std::move(made));
}

}  // namespace tally::exchange
