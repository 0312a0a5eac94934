#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "base/check.h"
#include "base/errors.h"
#include "codec/codec.h"
#include "codec/sign/signs.h"
#include "kernel/array/weighted_sum.h"

namespace tally::codec {
namespace {

// The share of each sender in the total weight; 0 if all weights are 0. nullopt if a weight is
// negative or not finite.
std::optional<std::vector<float>> shares_of(std::span<const double> weights) {
  double sum = 0;
  for (const double weight : weights) {
    if (!(weight >= 0)) return std::nullopt;
    sum += weight;
  }
  if (!std::isfinite(sum)) return std::nullopt;
  std::vector<float> shares(weights.size(), 0.0F);
  if (sum > 0)
    for (std::size_t i = 0; i < weights.size(); ++i)
      shares[i] = static_cast<float>(weights[i] / sum);
  return shares;
}

bool is_vote(const plan::CodecSpec& spec) { return spec.kind == plan::Codec::kSign && spec.vote; }

// An entropy stage hides the bitmaps, so the votes are counted from decoded values.
Result<void> count_decoded(const Codec& codec, std::span<const Encoded> senders,
                           std::span<const float> shares, std::span<float> mean) {
  MajorityVote count(mean.size());
  std::vector<float> values(mean.size());
  for (std::size_t i = 0; i < senders.size(); ++i) {
    if (shares[i] == 0) continue;
    TALLY_TRY(codec.decode(senders[i].bytes, values));
    count.add(values.data(), shares[i]);
  }
  count.finish(mean);
  return {};
}

}  // namespace

Result<void> mean_of(const plan::CodecSpec& spec, const Codec& codec,
                     std::span<const Encoded> senders, std::span<float> mean) {
  std::vector<double> weights;
  weights.reserve(senders.size());
  for (const Encoded& sender : senders) weights.push_back(sender.weight);
  const auto shares = shares_of(weights);
  if (!shares)
    return corrupt(
        fmt::format("weights of {} senders that are no numbers of samples", senders.size()));
  if (is_vote(spec)) {
    if (spec.stage != plan::EntropyStage::kNone)
      return count_decoded(codec, senders, *shares, mean);
    return vote_on_signs(spec.block, senders, *shares, mean);
  }
  std::fill(mean.begin(), mean.end(), 0.0F);
  for (std::size_t i = 0; i < senders.size(); ++i)
    if ((*shares)[i] != 0) TALLY_TRY(codec.decode_add(senders[i].bytes, (*shares)[i], mean));
  return {};
}

void mean_of_decoded(const plan::CodecSpec& spec, std::span<const float* const> decoded,
                     std::span<const double> weights, std::span<float> mean) {
  TALLY_CHECK(decoded.size() == weights.size());
  const auto shares = shares_of(weights);
  TALLY_CHECK(shares.has_value());
  if (is_vote(spec)) {
    MajorityVote count(mean.size());
    for (std::size_t i = 0; i < decoded.size(); ++i)
      if ((*shares)[i] != 0) count.add(decoded[i], (*shares)[i]);
    count.finish(mean);
    return;
  }
  // The sum begins with zeros, as with decode_add(), so that a mean of -0 is 0 in both.
  std::fill(mean.begin(), mean.end(), 0.0F);
  std::vector<const void*> inputs = {mean.data()};
  std::vector<float> factors = {1.0F};
  inputs.insert(inputs.end(), decoded.begin(), decoded.end());
  factors.insert(factors.end(), shares->begin(), shares->end());
  kernel::weighted_sum(DataType::kFloat32, inputs, factors, mean.data(), mean.size());
}

}  // namespace tally::codec
