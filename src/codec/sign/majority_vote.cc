#include "codec/sign/signs.h"

#include <cmath>

#include <fmt/format.h>

#include "base/errors.h"

namespace tally::codec {
namespace {

struct Voter {
  std::span<const std::byte> bytes;
  float share = 0;
};

// The votes of one block, or of all blocks if all voters vote in all blocks.
struct Ballot {
  std::vector<const std::byte*> bitmaps;
  std::vector<std::byte> negative, tied;

  void decide(const kernel::SignKernels& kernels, std::size_t bytes) {
    negative.resize(bytes);
    tied.resize(bytes);
    kernels.majority(bitmaps.data(), bitmaps.size(), bytes, negative.data(), tied.data());
  }
};

float magnitude_of(std::span<const Voter> voters, std::size_t b) {
  float sum = 0;
  for (const Voter& voter : voters) sum = sum + voter.share * load_float(voter.bytes, b);
  return sum;
}

// A voter with scale zero has no vote in that block.
bool all_vote(std::span<const Voter> voters, const BlockLayout& layout) {
  for (const Voter& voter : voters)
    for (std::size_t b = 0; b < layout.blocks(); ++b)
      if (load_float(voter.bytes, b) == 0) return false;
  return true;
}

kernel::BitValues results_of(float magnitude) {
  // Subtraction gives 0 and not -0 for a magnitude of 0.
  return {.clear = magnitude,
          .set = 0.0F - magnitude,
          .zero = std::isnan(magnitude) ? magnitude : 0.0F};
}

void count_at_once(std::span<const Voter> voters, const BlockLayout& layout,
                   std::span<float> mean) {
  const kernel::SignKernels kernels = kernel::sign_kernels();
  Ballot ballot;
  for (const Voter& voter : voters)
    ballot.bitmaps.push_back(voter.bytes.subspan(layout.head_bytes()).data());
  ballot.decide(kernels, layout.code_bytes());
  for (std::size_t b = 0; b < layout.blocks(); ++b)
    kernels.spread(ballot.negative.data() + layout.codes_at(b),
                   ballot.tied.data() + layout.codes_at(b), layout.length(b),
                   results_of(magnitude_of(voters, b)), mean.subspan(layout.first(b)).data());
}

void count_by_block(std::span<const Voter> voters, const BlockLayout& layout,
                    std::span<float> mean) {
  const kernel::SignKernels kernels = kernel::sign_kernels();
  Ballot ballot;
  for (std::size_t b = 0; b < layout.blocks(); ++b) {
    ballot.bitmaps.clear();
    for (const Voter& voter : voters)
      if (load_float(voter.bytes, b) != 0)
        ballot.bitmaps.push_back(
            voter.bytes.subspan(layout.head_bytes() + layout.codes_at(b)).data());
    ballot.decide(kernels, layout.code_bytes(b));
    kernels.spread(ballot.negative.data(), ballot.tied.data(), layout.length(b),
                   results_of(magnitude_of(voters, b)), mean.subspan(layout.first(b)).data());
  }
}

}  // namespace

void MajorityVote::add(const float* values, float share) {
  for (std::size_t i = 0; i < ahead_.size(); ++i) {
    ahead_[i] += (values[i] > 0 ? 1 : 0) - (values[i] < 0 ? 1 : 0);
    magnitudes_[i] = magnitudes_[i] + share * std::fabs(values[i]);
  }
}

void MajorityVote::finish(std::span<float> mean) const {
  for (std::size_t i = 0; i < ahead_.size(); ++i) {
    const kernel::BitValues results = results_of(magnitudes_[i]);
    mean[i] = ahead_[i] == 0 ? results.zero : ahead_[i] > 0 ? results.clear : results.set;
  }
}

Result<void> vote_on_signs(std::size_t block, std::span<const Encoded> senders,
                           std::span<const float> shares, std::span<float> mean) {
  const BlockLayout layout = sign_layout(mean.size(), block);
  std::vector<Voter> voters;
  for (std::size_t i = 0; i < senders.size(); ++i) {
    if (shares[i] == 0) continue;
    TALLY_TRY(check_signs(layout, senders[i].bytes, mean.size()));
    voters.push_back({.bytes = senders[i].bytes, .share = shares[i]});
  }
  if (voters.size() > kernel::kMaxVoters)
    return corrupt(fmt::format("{} voters, limit {}", voters.size(), kernel::kMaxVoters));
  if (all_vote(voters, layout)) {
    count_at_once(voters, layout, mean);
  } else {
    count_by_block(voters, layout, mean);
  }
  return {};
}

}  // namespace tally::codec
