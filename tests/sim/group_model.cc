#include <map>
#include <tuple>

#include "sim/group_run.h"

namespace tally::sim {

plan::Plan plan_of(const GroupCase& one) {
  const auto plan = plan::parse_plan(one.plan);
  EXPECT_TRUE(plan.has_value()) << one.plan;
  return plan ? *plan : plan::Plan{};
}

exchange::GroupUpdate::Options model_of(const GroupCase& one) {
  const plan::Plan plan = plan_of(one);
  exchange::GroupUpdate::Options options{.bucket_bytes = 8 << 10,
                                         .clip_norm = one.clip_norm,
                                         .codec = plan.codec,
                                         .seed = 7,
                                         .replicas = one.replicas,
                                         .beside = !one.in_place};
  using Shapes = std::vector<std::vector<std::int64_t>>;
  const Shapes shapes =
      one.is_small ? Shapes{{17}, {40, 30}} : Shapes{{17}, {30, 40}, {5000}, {3, 5}, {8, 100}};
  for (const std::vector<std::int64_t>& shape : shapes)
    options.parameters.push_back(
        {.name = fmt::format("p{}", options.parameters.size()), .shape = shape});
  options.parameters[1].group = 1;
  const OptimizerSpec spec = *parse_optimizer(one.optimizer);
  OptimizerSpec other = spec;
  other.rate *= 0.5;
  auto groups = split_groups(options.codec, {spec, other}, options.parameters);
  EXPECT_TRUE(groups.has_value());
  options.optimizers = groups->optimizers;
  options.senders = groups->senders;
  return options;
}

policy::Rules rules_of(const GroupCase& one, int workers) {
  const auto rules = policy::rules_of(plan_of(one), workers, 3);
  EXPECT_TRUE(rules.has_value()) << one.plan;
  return rules ? *rules : policy::Rules{};
}

double samples_of(Rank rank, std::uint64_t version) {
  return exchange::Course().samples(rank, static_cast<int>(version));
}

const std::vector<float>& gradient_of(const exchange::GroupUpdate::Options& options,
                                      std::size_t parameter, Rank rank, std::uint64_t version) {
  using Key = std::tuple<std::size_t, std::size_t, Rank, std::uint64_t>;
  static std::map<Key, std::vector<float>> known;
  const std::size_t count = options.parameters[parameter].count();
  std::vector<float>& values = known[{parameter, count, rank, version}];
  if (!values.empty()) return values;
  for (std::size_t i = 0; i < count; ++i)
    values.push_back(exchange::gradient_value(parameter, i, static_cast<int>(version), rank));
  return values;
}

}  // namespace tally::sim
