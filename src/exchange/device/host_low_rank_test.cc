#include "exchange/device/host_low_rank.h"

#include <cstring>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "exchange/low_rank_round.h"

namespace tally::exchange {
namespace {

using Floats = std::vector<float>;

Floats add(const Floats& a, const Floats& b) {
  Floats sum = a;
  for (std::size_t i = 0; i < b.size(); ++i) sum[i] += b[i];
  return sum;
}

bool same_bits(const float* a, const float* b, std::size_t count) {
  return std::memcmp(a, b, count * sizeof(float)) == 0;
}

// Two ranks of different weights, and several steps.
TEST(HostLowRank, GivesTheBitsOfLowRankRound) {
  const codec::PowerSgd::Options options{.rows = 13, .columns = 29, .rank = 3, .seed = 5};
  constexpr std::size_t kCount = 13 * 29;
  const float weights[] = {3, 5};
  Rng random(1);
  for (const bool feedback : {true, false}) {
    std::vector<std::unique_ptr<codec::PowerSgd>> matrices;
    std::vector<std::unique_ptr<DeviceLowRank>> ranks;
    for (int r = 0; r < 2; ++r) {
      matrices.push_back(std::make_unique<codec::PowerSgd>(options));
      ranks.push_back(host_low_rank(options, feedback));
    }
    for (int step = 0; step < 3; ++step) {
      std::vector<Floats> gradients(2, Floats(kCount));
      for (Floats& gradient : gradients)
        for (float& value : gradient) value = static_cast<float>(random.uniform() - 0.5);

      std::vector<Floats> means = gradients;
      LowRankRound<float> rounds[2];
      for (std::size_t r = 0; r < 2; ++r)
        rounds[r].project({{.matrix = matrices[r].get(), .gradient = means[r]}},
                          {.weight = weights[r], .feedback = feedback});
      Floats left = add({rounds[0].left().begin(), rounds[0].left().end()},
                        {rounds[1].left().begin(), rounds[1].left().end()});
      for (auto& round : rounds) {
        std::copy(left.begin(), left.end(), round.left().begin());
        round.correlate();
      }
      const Floats right = add({rounds[0].right().begin(), rounds[0].right().end()},
                               {rounds[1].right().begin(), rounds[1].right().end()});
      for (auto& round : rounds) {
        std::copy(right.begin(), right.end(), round.right().begin());
        round.finish();
      }

      const float share = 1.0F / 8;
      std::vector<Floats> p(2, Floats(ranks[0]->p_count())), q(2, Floats(ranks[0]->q_count()));
      for (std::size_t r = 0; r < 2; ++r)
        ASSERT_TRUE(ranks[r]->project(gradients[r].data(), weights[r], p[r].data()));
      p.assign(2, add(p[0], p[1]));
      for (std::size_t r = 0; r < 2; ++r)
        ASSERT_TRUE(ranks[r]->correlate(p[r].data(), share, weights[r], q[r].data()));
      q.assign(2, add(q[0], q[1]));
      for (std::size_t r = 0; r < 2; ++r) {
        Floats mean(kCount);
        ASSERT_TRUE(ranks[r]->finish(p[r].data(), q[r].data(), share, mean.data()));
        EXPECT_TRUE(same_bits(mean.data(), means[r].data(), kCount)) << "step " << step;
        EXPECT_TRUE(same_bits(ranks[r]->residual(), matrices[r]->residual().data(), kCount));
        EXPECT_TRUE(same_bits(ranks[r]->q(), matrices[r]->q().data(), ranks[r]->q_count()));
      }
    }
  }
}

}  // namespace
}  // namespace tally::exchange
