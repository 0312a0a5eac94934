#include <algorithm>
#include <cstring>

#include "base/errors.h"
#include "exchange/group/group_update.h"
#include "optimizer/update_rule.h"

// A GroupUpdate continues where another one ended, with other ranks:
//   1. agree_on_version(): all ranks have the same version. A rank commits an update once all ranks
//      have completed it, so a rank that was lost on the way may leave some ranks one version
//      behind the others. Ranks behind switch to their other generation, or apply the averages that
//      they have.
//   2. Every host has all values. States of lost neighbours are in the memory of their host.
//   3. State that only other hosts have arrives by sums: every element has one owner.
namespace tally::exchange {
namespace {

// Elements of a parameter's state, from one or several slices.
struct StateOfParameter {
  std::vector<std::vector<std::byte>> arrays;
  std::vector<double> holders;  // by element: the ranks that have it
};

}  // namespace

// An update counts if any rank has committed it.
Result<void> GroupUpdate::agree_on_version(Communicator& world) {
  // In place, the step that was under way may have changed values on any rank.
  std::int32_t torn = !options_.beside && begun_ ? 1 : 0;
  TALLY_TRY(world.allreduce(std::span(&torn, 1), ReduceOp::kMax));
  if (torn != 0)
    return make_error(ErrorCode::kInvalid,
                      "a step that updated in place has failed: continue from a checkpoint");
  auto version = static_cast<std::int64_t>(updates_);
  TALLY_TRY(world.allreduce(std::span(&version, 1), ReduceOp::kMax));
  const auto own = static_cast<std::int64_t>(updates_);
  if (version == own) return {};
  const bool has_other = agrees_first_ ? has_averages_ : options_.beside;
  if (!has_other || version > own + 1)
    return make_error(ErrorCode::kInvalid, "this rank has version {}, another rank has {}", own,
                      version);
  if (agrees_first_) {
    rates_ = averages_rates_;
    TALLY_TRY(apply());
  }
  memory_->flip();
  for (std::size_t p = 0; p < steps_.size(); ++p) steps_[p] += used_[p];
  ++updates_;
  return {};
}

std::vector<SliceState> GroupUpdate::states_of_host() const {
  std::vector<SliceState> all;
  for (int n = 0; n < tiers_.locals(); ++n) {
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      Slice::Options options = slice_options(b, n);
      options.has_state = true;
      auto states = Slice::make(options)->states(options.range);
      std::move(states.begin(), states.end(), std::back_inserter(all));
    }
  }
  return all;
}

Result<void> GroupUpdate::take_states(const GroupUpdate& from) {
  TALLY_TRY(const std::vector<SliceState> own, states());
  std::vector<StateOfParameter> found(options_.parameters.size());
  const std::vector<SliceState> known = from.states_of_host();
  for (const SliceState& state : known) {
    StateOfParameter& whole = found[state.parameter];
    const std::size_t count = options_.parameters[state.parameter].count();
    whole.arrays.resize(state.state.size());
    whole.holders.resize(count);
    for (std::size_t k = 0; k < state.state.size(); ++k) {
      const std::size_t element =
          state.state[k].size() /
          (state.values.size() / size_of(options_.parameters[state.parameter].type));
      whole.arrays[k].resize(count * element);
      std::memcpy(whole.arrays[k].data() + state.first * element, state.state[k].data(),
                  state.state[k].size());
    }
    std::fill_n(whole.holders.begin() + static_cast<std::ptrdiff_t>(state.first),
                state.values.size() / size_of(options_.parameters[state.parameter].type), 1.0);
  }
  // The first rank of each former host speaks for it.
  const std::int32_t host = from.tiers_.host;
  std::vector<std::int32_t> hosts(static_cast<std::size_t>(world_.size()));
  TALLY_TRY(world_.allgather(std::span<const std::int32_t>(&host, 1), std::span(hosts)));
  const bool speaks = std::find(hosts.begin(), hosts.end(), host) - hosts.begin() == world_.rank();
  // With averages every host has everything.
  const bool is_spread = from.across_ == Across::kParts;
  for (std::size_t p = 0; is_spread && p < found.size(); ++p) {
    StateOfParameter& whole = found[p];
    const OptimizerSpec& spec = options_.optimizers[options_.parameters[p].group];
    const bool is_half = size_of(options_.parameters[p].type) < sizeof(float);
    const bool is_double = options_.parameters[p].type == DataType::kFloat64;
    whole.arrays.resize(static_cast<std::size_t>(optimizer::state_arrays(spec)) +
                        (is_half ? 1 : 0));
    whole.holders.resize(options_.parameters[p].count());
    if (!speaks) std::fill(whole.holders.begin(), whole.holders.end(), 0.0);
    TALLY_TRY(world_.allreduce(std::span(whole.holders)));
    for (std::vector<std::byte>& array : whole.arrays) {
      array.resize(whole.holders.size() * (is_double ? sizeof(double) : sizeof(float)));
      if (!speaks) std::fill(array.begin(), array.end(), std::byte{0});
      TALLY_TRY(world_.run({.operation = Operation::kAllreduce,
                            .input = array.data(),
                            .output = array.data(),
                            .count = whole.holders.size(),
                            .type = is_double ? DataType::kFloat64 : DataType::kFloat32}));
    }
    if (std::find(whole.holders.begin(), whole.holders.end(), 0.0) != whole.holders.end() &&
        !whole.arrays.empty())
      return make_error(ErrorCode::kPeerLost,
                        "a lost host had the only copy of optimizer state of {}: continue from a "
                        "checkpoint",
                        options_.parameters[p].name);
  }
  for (const SliceState& state : own) {
    for (std::size_t k = 0; k < state.state.size(); ++k) {
      const std::size_t element =
          state.state[k].size() /
          (state.values.size() / size_of(options_.parameters[state.parameter].type));
      std::memcpy(state.state[k].data(),
                  found[state.parameter].arrays[k].data() + state.first * element,
                  state.state[k].size());
    }
  }
  return {};
}

Result<void> GroupUpdate::take_over(GroupUpdate& from, Deadline by) {
  TALLY_TRY(from.agree_on_version(world_));
  if (writes_values())
    for (std::size_t p = 0; p < options_.parameters.size(); ++p)
      std::memcpy(values(p).data(), from.values(p).data(), values(p).size());
  TALLY_TRY(make_state());
  TALLY_TRY(adopt_values(by));
  // Ranks that failed in the first step may not have made their state.
  if (from.updates_ > 0) TALLY_TRY(take_states(from));
  steps_ = from.steps_;
  updates_ = from.updates_;
  rates_ = from.rates_;
  if (!from.pipeline_ || !pipeline_ || options_.codec.kind == plan::Codec::kAuto) return {};
  // The residuals of this rank. Those of lost ranks are lost.
  const std::vector<CodecState> to = pipeline_->states();
  for (const CodecState& old : from.pipeline_->states()) {
    for (const CodecState& state : to) {
      if (state.parameter != old.parameter || state.name != old.name) continue;
      const std::uint64_t begin = std::max(state.first, old.first);
      const std::uint64_t end =
          std::min(state.first + state.values.size(), old.first + old.values.size());
      if (begin < end)
        std::copy_n(old.values.begin() + static_cast<std::ptrdiff_t>(begin - old.first),
                    end - begin,
                    state.values.begin() + static_cast<std::ptrdiff_t>(begin - state.first));
    }
  }
  return {};
}

}  // namespace tally::exchange
