// The state of a Round as bytes: u64 version, u64 clock of the last member that left, u8 whether
// all ranks have joined, u32 count and i32[count] joined ranks (ascending; none once all have
// joined), u32 count and (u32 worker, u64 clock, f64 weight)[count] (workers ascending), u64[33]
// histogram.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "base/errors.h"
#include "policy/round.h"
#include "wire/fields.h"

namespace tally::policy {
namespace {

constexpr std::size_t kMostEntries = 65536;

struct RoundState {
  std::uint64_t version = 0;
  std::uint64_t last_clock = 0;
  bool is_complete = false;
  std::vector<int> ranks;
  struct Progress {
    Worker worker = 0;
    std::uint64_t clock = 0;
    double weight = 0;
  };
  std::vector<Progress> members;
  std::array<std::uint64_t, Histogram::kBins> bins{};
};

template <typename Fields>
void fields(Fields& f, wire::FieldsOf<Fields, RoundState>& state) {
  f.number(state.version);
  f.number(state.last_clock);
  f.flag(state.is_complete);
  f.list(state.ranks, kMostEntries, [&f](auto& rank) { f.number(rank); });
  f.list(state.members, kMostEntries, [&f](auto& member) {
    f.number(member.worker);
    f.number(member.clock);
    f.real(member.weight);
  });
  for (auto& bin : state.bins) f.number(bin);
}

Result<void> check(const RoundState& state) {
  if (state.is_complete && !state.ranks.empty())
    return corrupt("state of a round: ranks are listed though all have joined");
  const auto& ranks = state.ranks;
  if (std::adjacent_find(ranks.begin(), ranks.end(), std::greater_equal()) != ranks.end())
    return corrupt("state of a round: ranks are not ascending");
  const auto& members = state.members;
  if (std::adjacent_find(members.begin(), members.end(), [](const auto& a, const auto& b) {
        return a.worker >= b.worker;
      }) != members.end())
    return corrupt("state of a round: workers are not ascending");
  for (const auto& member : members)
    if (!std::isfinite(member.weight) || member.weight < 0)
      return corrupt("state of a round: gradients of {} samples", member.weight);
  return {};
}

}  // namespace

std::vector<std::byte> Round::encode() const {
  RoundState state{.version = version_,
                   .last_clock = last_clock_,
                   .is_complete = complete_,
                   .ranks = {ranks_.begin(), ranks_.end()},
                   .bins = histogram_.bins()};
  for (const auto& [worker, member] : members_)
    state.members.push_back({.worker = worker, .clock = member.clock, .weight = member.weight});
  return wire::encode_fields(state);
}

Result<void> Round::restore(std::span<const std::byte> bytes) {
  TALLY_TRY(const RoundState state, wire::decode_fields<RoundState>(bytes));
  TALLY_TRY(check(state));
  version_ = state.version;
  last_clock_ = state.last_clock;
  histogram_ = Histogram(state.bins);
  for (const auto& saved : state.members) {
    const auto member = members_.find(saved.worker);
    if (member == members_.end()) continue;
    member->second.clock = saved.clock;
    member->second.weight = saved.weight;
  }
  if (!complete_) {
    ranks_.insert(state.ranks.begin(), state.ranks.end());
    complete_ = state.is_complete || ranks_.size() >= static_cast<std::size_t>(rules_.workers);
  }
  if (complete_) ranks_.clear();
  return {};
}

}  // namespace tally::policy
