// The state of a Round as bytes: u64 version, u64 clock of the last member that left, u8 whether
// all ranks have joined, u32 count and i32[count] joined ranks (ascending; none once all have
// joined), u32 count and (u32 worker, u64 clock)[count] (workers ascending), u64[33] histogram.
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/errors.h"
#include "policy/round.h"
#include "wire/bytes.h"

namespace tally::policy {
namespace {

constexpr std::uint32_t kMostEntries = 65536;

Result<std::uint32_t> read_count(wire::Reader& in) {
  TALLY_TRY(const std::uint32_t count, in.u32());
  if (count > kMostEntries) {
    return corrupt(fmt::format("state of a round with {} entries, limit {}", count, kMostEntries));
  }
  return count;
}

Result<std::set<int>> read_ranks(wire::Reader& in) {
  std::set<int> ranks;
  TALLY_TRY(const std::uint32_t count, read_count(in));
  for (std::uint32_t i = 0; i < count; ++i) {
    TALLY_TRY(const std::int32_t rank, in.i32());
    if (!ranks.empty() && rank <= *ranks.rbegin())
      return corrupt("state of a round: ranks are not ascending");
    ranks.insert(ranks.end(), rank);
  }
  return ranks;
}

using Clocks = std::vector<std::pair<Worker, std::uint64_t>>;

Result<Clocks> read_clocks(wire::Reader& in) {
  Clocks clocks;
  TALLY_TRY(const std::uint32_t count, read_count(in));
  for (std::uint32_t i = 0; i < count; ++i) {
    TALLY_TRY(const std::uint32_t worker, in.u32());
    TALLY_TRY(const std::uint64_t clock, in.u64());
    if (!clocks.empty() && worker <= clocks.back().first) {
      return corrupt("state of a round: workers are not ascending");
    }
    clocks.emplace_back(worker, clock);
  }
  return clocks;
}

}  // namespace

std::vector<std::byte> Round::encode() const {
  wire::Writer out;
  out.u64(version_);
  out.u64(last_clock_);
  out.u8(complete_ ? 1 : 0);
  out.u32(static_cast<std::uint32_t>(ranks_.size()));
  for (const int rank : ranks_) out.i32(rank);
  out.u32(static_cast<std::uint32_t>(members_.size()));
  for (const auto& [worker, member] : members_) {
    out.u32(worker);
    out.u64(member.clock);
  }
  for (const std::uint64_t bin : histogram_.bins()) out.u64(bin);
  return out.take();
}

Result<void> Round::restore(std::span<const std::byte> bytes) {
  wire::Reader in(bytes);
  TALLY_TRY(const std::uint64_t version, in.u64());
  TALLY_TRY(const std::uint64_t last_clock, in.u64());
  TALLY_TRY(const std::uint8_t complete, in.u8());
  TALLY_TRY(std::set<int> ranks, read_ranks(in));
  TALLY_TRY(const Clocks clocks, read_clocks(in));
  std::array<std::uint64_t, Histogram::kBins> bins{};
  for (std::uint64_t& bin : bins) {
    TALLY_TRY(bin, in.u64());
  }
  TALLY_TRY(in.end());
  if (complete > 1 || (complete == 1 && !ranks.empty())) {
    return corrupt("state of a round: ranks are listed though all have joined");
  }

  version_ = version;
  last_clock_ = last_clock;
  histogram_ = Histogram(bins);
  for (const auto& [worker, clock] : clocks) {
    const auto member = members_.find(worker);
    if (member != members_.end()) member->second.clock = clock;
  }
  if (complete_ || complete == 1) {
    complete_ = true;
    ranks_.clear();
  } else {
    ranks_.merge(ranks);
    complete_ = ranks_.size() >= static_cast<std::size_t>(rules_.workers);
    if (complete_) ranks_.clear();
  }
  return {};
}

}  // namespace tally::policy
