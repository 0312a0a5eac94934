#include "data/subset.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"
#include "base/errors.h"
#include "data/permutation.h"
#include "data/preprocessing.h"

namespace tally::data {
namespace {

// Makes the split independent of the order of an epoch.
constexpr std::uint64_t kSplitKey = 0x73706C6974;

class Subset final : public Dataset {
 public:
  Subset(std::unique_ptr<Dataset> whole, std::vector<std::uint64_t> indices)
      : whole_(std::move(whole)), indices_(std::move(indices)) {}

  std::uint64_t size() const override { return indices_.size(); }
  const SampleShape& shape() const override { return whole_->shape(); }
  std::vector<std::string> classes() const override { return whole_->classes(); }
  Preprocessing preprocessing() const override { return whole_->preprocessing(); }
  Result<void> read(std::uint64_t index, Rng& augment, std::span<std::byte> input,
                    std::span<std::byte> target) const override {
    TALLY_CHECK(index < indices_.size());
    return whole_->read(indices_[index], augment, input, target);
  }

 private:
  std::unique_ptr<Dataset> whole_;
  std::vector<std::uint64_t> indices_;
};

}  // namespace

Result<void> check(const Split& split) {
  if (split.validation >= 0 && split.validation < 1) return {};
  return invalid(fmt::format("a validation share of {}: from 0 to below 1", split.validation));
}

std::vector<std::uint64_t> part_of(std::uint64_t size, const Split& split) {
  auto held_out = static_cast<std::uint64_t>(static_cast<double>(size) * split.validation);
  if (held_out == 0 && split.validation > 0 && size > 1) held_out = 1;
  const std::uint64_t first = split.train ? held_out : 0;
  const std::uint64_t end = split.train ? size : held_out;
  const Permutation permutation(size, mix(split.seed, kSplitKey));
  std::vector<std::uint64_t> indices;
  indices.reserve(end - first);
  for (std::uint64_t i = first; i < end; ++i) indices.push_back(permutation(i));
  std::sort(indices.begin(), indices.end());
  return indices;
}

std::unique_ptr<Dataset> make_subset(std::unique_ptr<Dataset> whole,
                                     std::vector<std::uint64_t> indices) {
  return std::make_unique<Subset>(std::move(whole), std::move(indices));
}

}  // namespace tally::data
