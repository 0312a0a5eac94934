#include "exchange/memory/model_memory.h"

#include <gtest/gtest.h>

#include <cstring>

#include "collective/test_jobs.h"
#include "soon.h"

namespace tally::exchange {
namespace {

using collective::Network;
using collective::run_ranks;

Layout two_buckets() {
  const std::vector<ParameterInfo> parameters = {{.name = "a", .shape = {5000}},
                                                 {.name = "b", .shape = {300}}};
  const std::vector<std::size_t> order = {1, 0};
  return make_layout(parameters, order, 1024);
}

std::unique_ptr<ModelMemory> make_memory(Job& job, const Tiers& tiers, int generations) {
  const auto factory = shared_memory(job.world(), tiers);
  auto made = ModelMemory::make(*factory, tiers.local, two_buckets(), generations, soon());
  EXPECT_TRUE(made.has_value());
  return std::move(*made);
}

TEST(ModelMemory, AnUpdateBesideThePresentVersionAppearsWithTheFlipOnly) {
  run_ranks(Network::kInProcess, 2, [](Job& job) {
    const Tiers tiers = *find_tiers(job.world(), Replicas::kPerHost, soon());
    const auto memory = make_memory(job, tiers, 2);
    const auto value = [&](int generation) {
      return reinterpret_cast<float*>(memory->values(1, generation));
    };
    EXPECT_NE(memory->present(), memory->next());
    if (job.rank() == 0) *value(memory->next()) = 7;
    ASSERT_TRUE(job.world().barrier().has_value());
    // Both ranks see the values of the host; the present version is unchanged.
    EXPECT_EQ(*value(memory->present()), 0);
    memory->flip();
    EXPECT_EQ(*value(memory->present()), 7);
    EXPECT_EQ(*value(memory->next()), 0);
    ASSERT_TRUE(job.world().barrier().has_value());
  });
}

TEST(ModelMemory, WithOneGenerationAnUpdateIsInPlace) {
  const auto memory = *ModelMemory::make(*ordinary_memory(), 0, two_buckets(), 1, soon());
  EXPECT_EQ(memory->values(0, memory->present()), memory->values(0, memory->next()));
}

// The ranks need not meet, and each of them keeps its own values.
TEST(ModelMemory, OrdinaryMemoryBelongsToOneRank) {
  run_ranks(Network::kInProcess, 2, [](Job& job) {
    const auto memory = *ModelMemory::make(*ordinary_memory(), 0, two_buckets(), 2, soon());
    auto* const value = reinterpret_cast<float*>(memory->values(1, memory->next()));
    *value = static_cast<float>(1 + job.rank());
    ASSERT_TRUE(job.world().barrier().has_value());
    memory->flip();
    EXPECT_EQ(*reinterpret_cast<float*>(memory->values(1, memory->present())), 1 + job.rank());
    EXPECT_EQ(memory->bytes(), 3 * memory->layout().bytes);
  });
}

// Every array of every rank has its own place, which all neighbours see.
TEST(ModelMemory, StateOfARankIsSeenByItsNeighbours) {
  run_ranks(Network::kInProcess, 3, [](Job& job) {
    const Tiers tiers = *find_tiers(job.world(), Replicas::kPerHost, soon());
    const auto memory = make_memory(job, tiers, 2);
    ModelMemory::Needs needs;
    for (std::size_t n = 0; n < 3; ++n)
      needs.push_back({{.count = 10 + n, .arrays = 2}, {.count = 7, .arrays = 1}});
    const auto factory = shared_memory(job.world(), tiers);
    ASSERT_TRUE(memory->make_state(*factory, needs, soon()).has_value());
    const auto visit = [&](int n, const auto& use) {
      for (int generation = 0; generation < 2; ++generation) {
        for (std::size_t b = 0; b < 2; ++b) {
          const StateArrays& need = needs[static_cast<std::size_t>(n)][b];
          for (std::size_t k = 0; k < need.arrays; ++k) {
            auto* const array = reinterpret_cast<float*>(memory->state(n, b, k, generation));
            const auto mark = static_cast<float>(1000 * n + 100 * generation +
                                                 10 * static_cast<int>(b) + static_cast<int>(k));
            use(std::span(array, need.count), mark);
          }
        }
      }
    };
    visit(job.rank(),
          [](std::span<float> array, float mark) { std::fill(array.begin(), array.end(), mark); });
    ASSERT_TRUE(job.world().barrier().has_value());
    for (int n = 0; n < 3; ++n)
      visit(n, [](std::span<float> array, float mark) {
        for (const float value : array) EXPECT_EQ(value, mark);
      });
    ASSERT_TRUE(job.world().barrier().has_value());
  });
}

}  // namespace
}  // namespace tally::exchange
