#include "exchange/device/tiered_sum.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/clock.h"

// finish() has three stages, and a barrier of all ranks between them:
//
//   1. inside   each group has the sum of its ranks on all of its devices.
//   2. across   the leaders sum these. The others wait in the barrier.
//   3. back     a second sum inside each group, to which the leader adds the result and the others
//               add -0.0, which changes no number: it hands the result over, with the means that
//               `inside` has.
//
// The barriers tell every rank of a failure in a group that it does not belong to: the sums inside
// and across know only their own ranks.
namespace tally::exchange {
namespace {

// The sums inside and across tell which of their ranks is late before the barriers of all ranks
// would name the ranks that wait for it.
constexpr Duration kHeadStart = std::chrono::milliseconds(500);

// The error with the rank of the part for that of the world; none if the rank is not in the part.
Error of_part(Error error, const std::vector<Rank>& members) {
  const auto found = std::find(members.begin(), members.end(), error.peer);
  error.peer = found == members.end() ? kNoRank : static_cast<Rank>(found - members.begin());
  return error;
}

class TieredSum final : public DeviceSum {
 public:
  TieredSum(Device& device, std::vector<Array> arrays)
      : device_(device), arrays_(std::move(arrays)) {}

  Result<void> connect(Communicator& world, const SumTiers& tiers, Deadline by);

  std::byte* own(std::size_t index) const override {
    return inside_ ? inside_->own(index) : across_->own(index);
  }
  std::byte* total(std::size_t index) const override {
    return inside_ ? back_->total(index) : across_->total(index);
  }
  Result<void> start(std::size_t index) override {
    if (failure_) return *failure_;
    started_.push_back(index);
    // A rank that is a group of its own begins with the leaders.
    if (!inside_) return {};
    return noted(inside_->start(index), inside_members_);
  }
  Result<void> finish(Deadline by) override {
    if (failure_) return *failure_;
    Result<void> outcome = run_stages(by);
    started_.clear();
    if (!outcome.has_value()) all_->abort(outcome.error());
    return outcome;
  }
  // A rank waits among all ranks, or in a sum of its group or of the leaders.
  void abort(const Error& why) override {
    all_->abort(why);
    if (inside_) inside_->abort(of_part(why, inside_members_));
    if (back_) back_->abort(of_part(why, inside_members_));
    if (across_) across_->abort(of_part(why, across_members_));
  }
  std::size_t bytes() const override {
    std::size_t bytes = zeros32_.bytes + zeros64_.bytes;
    for (const DeviceSum* const sum : {inside_.get(), across_.get(), back_.get()})
      if (sum != nullptr) bytes += sum->bytes();
    return bytes;
  }

 private:
  template <typename T>
  Result<DeviceMemory> make_zeros();
  const std::byte* zeros_for(std::size_t index) const {
    return (arrays_[index].type == DataType::kFloat64 ? zeros64_ : zeros32_).data;
  }
  Result<void> run_stages(Deadline by);
  Result<void> sum_across(Deadline by);
  Result<void> hand_back(Deadline by);
  Result<void> meet(Deadline by) {
    return noted(all_->barrier({.by = deadline_after(by.when(), kHeadStart)}), {});
  }
  Result<void> copy(std::size_t index, const std::byte* from, std::byte* to);
  Result<void> noted(Result<void> outcome, const std::vector<Rank>& members);

  Device& device_;
  const std::vector<Array> arrays_;
  std::unique_ptr<Communicator> all_;
  std::unique_ptr<Communicator> group_;    // of this rank
  std::unique_ptr<Communicator> leaders_;  // null: this rank is none
  std::vector<Rank> inside_members_;       // their ranks in the world
  std::vector<Rank> across_members_;
  std::unique_ptr<DeviceSum> inside_;  // null: this rank is alone in its group
  std::unique_ptr<DeviceSum> across_;  // null: this rank is no leader
  std::unique_ptr<DeviceSum> back_;    // with inside_
  // Negative zeros for hand_back(), as many as the largest array of the type has; only where they
  // are needed.
  DeviceMemory zeros32_;
  DeviceMemory zeros64_;
  std::vector<std::size_t> started_;
  std::optional<Error> failure_;
};

// The ranks in the world of a part's ranks.
Result<std::vector<Rank>> members_of(Communicator& part, Rank own, Deadline by) {
  const std::int32_t mine = own;
  std::vector<std::int32_t> all(static_cast<std::size_t>(part.size()));
  TALLY_TRY(part.allgather(std::span(&mine, 1), std::span(all), {.by = by}));
  return std::vector<Rank>(all.begin(), all.end());
}

Result<void> TieredSum::connect(Communicator& world, const SumTiers& tiers, Deadline by) {
  TALLY_TRY(all_, world.split(0, world.rank(), by));
  TALLY_TRY(group_, world.split(tiers.group, world.rank(), by));
  const bool leads = group_->rank() == 0;
  TALLY_TRY(leaders_, world.split(leads ? 0 : -1, world.rank(), by));
  TALLY_TRY(inside_members_, members_of(*group_, world.rank(), by));
  if (group_->size() > 1) {
    TALLY_TRY(inside_, tiers.inside(*group_, device_, arrays_, by));
    TALLY_TRY(back_, tiers.inside(*group_, device_, arrays_, by));
    if (!leads) {
      TALLY_TRY(zeros32_, make_zeros<float>());
      TALLY_TRY(zeros64_, make_zeros<double>());
    }
  }
  if (leads) {
    TALLY_TRY(across_members_, members_of(*leaders_, world.rank(), by));
    TALLY_TRY(across_, tiers.across(*leaders_, device_, arrays_, by));
  }
  return meet(by);
}

template <typename T>
Result<DeviceMemory> TieredSum::make_zeros() {
  std::size_t count = 0;
  for (const Array& array : arrays_)
    if (array.type == kDataTypeOf<T>) count = std::max(count, array.count);
  if (count == 0) return DeviceMemory{};
  const std::vector<T> zeros(count, T{-0.0});
  TALLY_TRY(DeviceMemory memory, device_.allocate(count * sizeof(T)));
  TALLY_TRY(device_.write(memory.data, std::as_bytes(std::span(zeros))));
  return memory;
}

// Keeps the first error, with the rank of the world for that of the part.
Result<void> TieredSum::noted(Result<void> outcome, const std::vector<Rank>& members) {
  if (outcome.has_value()) return outcome;
  Error error = std::move(outcome).error();
  if (!members.empty() && error.peer >= 0 && static_cast<std::size_t>(error.peer) < members.size())
    error.peer = members[static_cast<std::size_t>(error.peer)];
  if (!failure_) failure_ = std::move(error);
  return *failure_;
}

Result<void> TieredSum::copy(std::size_t index, const std::byte* from, std::byte* to) {
  const Array& array = arrays_[index];
  return noted(device_.copy(to, from, array.count * size_of(array.type)), {});
}

Result<void> TieredSum::run_stages(Deadline by) {
  if (inside_) TALLY_TRY(noted(inside_->finish(by), inside_members_));
  TALLY_TRY(meet(by));
  if (across_) TALLY_TRY(sum_across(by));
  TALLY_TRY(meet(by));
  if (back_) TALLY_TRY(hand_back(by));
  return {};
}

Result<void> TieredSum::sum_across(Deadline by) {
  for (const std::size_t index : started_) {
    if (inside_) TALLY_TRY(copy(index, inside_->total(index), across_->own(index)));
    TALLY_TRY(noted(across_->start(index), across_members_));
  }
  return noted(across_->finish(by), across_members_);
}

Result<void> TieredSum::hand_back(Deadline by) {
  for (const std::size_t index : started_) {
    TALLY_TRY(copy(index, across_ ? across_->total(index) : zeros_for(index), back_->own(index)));
    TALLY_TRY(noted(back_->start(index), inside_members_));
  }
  return noted(back_->finish(by), inside_members_);
}

}  // namespace

Result<std::unique_ptr<DeviceSum>> tiered_sum(Communicator& world, Device& device,
                                              const std::vector<DeviceSum::Array>& arrays,
                                              const SumTiers& tiers, Deadline by) {
  std::vector<std::int32_t> groups(static_cast<std::size_t>(world.size()));
  const std::int32_t own = tiers.group;
  TALLY_TRY(world.allgather(std::span(&own, 1), std::span(groups), {.by = by}));
  std::sort(groups.begin(), groups.end());
  if (groups.front() == groups.back()) return tiers.inside(world, device, arrays, by);
  if (std::adjacent_find(groups.begin(), groups.end()) == groups.end())
    return tiers.across(world, device, arrays, by);
  auto sum = std::make_unique<TieredSum>(device, arrays);
  TALLY_TRY(sum->connect(world, tiers, by));
  return std::unique_ptr<DeviceSum>(std::move(sum));
}

}  // namespace tally::exchange
