// The state of a Round as bytes: u64 version, u64 clock of the last member that left, u8 whether
// all ranks have joined, u32 count and i32[count] joined ranks (ascending; none once all have
// joined), u32 count and (u32 worker, u64 clock)[count] (workers ascending), u64[33] histogram.
#include <algorithm>
#include <array>
#include <functional>
#include <utility>

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
  std::vector<std::pair<Worker, std::uint64_t>> clocks;
  std::array<std::uint64_t, Histogram::kBins> bins{};
};

template <typename Fields>
void fields(Fields& f, wire::FieldsOf<Fields, RoundState>& state) {
  f.number(state.version);
  f.number(state.last_clock);
  f.flag(state.is_complete);
  f.list(state.ranks, kMostEntries, [&f](auto& rank) { f.number(rank); });
  f.list(state.clocks, kMostEntries, [&f](auto& entry) {
    f.number(entry.first);
    f.number(entry.second);
  });
  for (auto& bin : state.bins) f.number(bin);
}

Result<void> check(const RoundState& state) {
  if (state.is_complete && !state.ranks.empty())
    return corrupt("state of a round: ranks are listed though all have joined");
  const auto& ranks = state.ranks;
  if (std::adjacent_find(ranks.begin(), ranks.end(), std::greater_equal()) != ranks.end())
    return corrupt("state of a round: ranks are not ascending");
  const auto& clocks = state.clocks;
  if (std::adjacent_find(clocks.begin(), clocks.end(), [](const auto& a, const auto& b) {
        return a.first >= b.first;
      }) != clocks.end())
    return corrupt("state of a round: workers are not ascending");
  return {};
}

}  // namespace

std::vector<std::byte> Round::encode() const {
  RoundState state{.version = version_,
                   .last_clock = last_clock_,
                   .is_complete = complete_,
                   .ranks = {ranks_.begin(), ranks_.end()},
                   .bins = histogram_.bins()};
  for (const auto& [worker, member] : members_) state.clocks.emplace_back(worker, member.clock);
  return wire::encode_fields(state);
}

Result<void> Round::restore(std::span<const std::byte> bytes) {
  TALLY_TRY(const RoundState state, wire::decode_fields<RoundState>(bytes));
  TALLY_TRY(check(state));
  version_ = state.version;
  last_clock_ = state.last_clock;
  histogram_ = Histogram(state.bins);
  for (const auto& [worker, clock] : state.clocks) {
    const auto member = members_.find(worker);
    if (member != members_.end()) member->second.clock = clock;
  }
  if (!complete_) {
    ranks_.insert(state.ranks.begin(), state.ranks.end());
    complete_ = state.is_complete || ranks_.size() >= static_cast<std::size_t>(rules_.workers);
  }
  if (complete_) ranks_.clear();
  return {};
}

}  // namespace tally::policy
