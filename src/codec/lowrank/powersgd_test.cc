#include "codec/lowrank/powersgd.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"

namespace tally::codec {
namespace {

using Values = std::vector<float>;

Values random_matrix(std::size_t count, std::uint64_t seed, double scale = 1) {
  Values values(count);
  Rng random(seed);
  for (float& value : values) value = static_cast<float>((random.uniform() * 2 - 1) * scale);
  return values;
}

void add(const Values& values, std::vector<double>& sum) {
  for (std::size_t i = 0; i < values.size(); ++i) sum[i] += values[i];
}

double norm(const std::vector<double>& values) {
  return std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> difference(a.size());
  std::transform(a.begin(), a.end(), b.begin(), difference.begin(), std::minus<>());
  return norm(difference);
}

std::vector<double> widened(const Values& values) { return {values.begin(), values.end()}; }

// Several weighted ranks. The mean that they would exchange is computed here in double.
class Ranks {
 public:
  Ranks(PowerSgd::Options options, std::vector<double> weights) : weights_(std::move(weights)) {
    for (std::size_t i = 0; i < weights_.size(); ++i) ranks_.emplace_back(options);
  }

  PowerSgd& operator[](std::size_t i) { return ranks_[i]; }

  // Runs one step and returns the mean, whose bits must be equal on all ranks.
  Values step(const std::vector<Values>& gradients) {
    const std::size_t count = ranks_.size();
    std::vector<Values> ps(count, Values(ranks_[0].p_count())),
        qs(count, Values(ranks_[0].q_count())), means(count, Values(gradients[0].size()));
    for (std::size_t i = 0; i < count; ++i) {
      if (weights_[i] > 0) ranks_[i].project(gradients[i], ps[i]);
    }
    ps.assign(count, mean_of(ps));
    for (std::size_t i = 0; i < count; ++i) ranks_[i].correlate(ps[i], qs[i]);
    qs.assign(count, mean_of(qs));
    for (std::size_t i = 0; i < count; ++i) {
      ranks_[i].finish(ps[i], qs[i], means[i]);
      for (std::size_t j = 0; j < means[i].size(); ++j) {
        if (std::isnan(means[0][j])) {
          EXPECT_TRUE(std::isnan(means[i][j]));
        } else {
          EXPECT_EQ(means[i][j], means[0][j]);
        }
      }
    }
    return means[0];
  }

  // The weighted mean, as for the gradients.
  Values mean_of(const std::vector<Values>& values) const {
    const double total = std::accumulate(weights_.begin(), weights_.end(), 0.0);
    Values mean(values[0].size());
    for (std::size_t j = 0; j < mean.size(); ++j) {
      double sum = 0;
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (weights_[i] > 0) sum += weights_[i] * values[i][j];
      }
      mean[j] = static_cast<float>(sum / total);
    }
    return mean;
  }

 private:
  const std::vector<double> weights_;
  std::vector<PowerSgd> ranks_;
};

// The best approximation of rank r: M V_r V_r^T with the eigenvectors of M^T M from Jacobi
// rotations.
std::vector<double> best_approximation(const Values& matrix, std::size_t rows, std::size_t columns,
                                       std::size_t rank) {
  std::vector<double> a(columns * columns), v(columns * columns);
  for (std::size_t i = 0; i < columns; ++i) {
    v[i * columns + i] = 1;
    for (std::size_t j = 0; j < columns; ++j) {
      for (std::size_t r = 0; r < rows; ++r)
        a[i * columns + j] +=
            static_cast<double>(matrix[r * columns + i]) * matrix[r * columns + j];
    }
  }
  for (int sweep = 0; sweep < 30; ++sweep) {
    for (std::size_t p = 0; p < columns; ++p) {
      for (std::size_t q = p + 1; q < columns; ++q) {
        const double angle =
            0.5 * std::atan2(2 * a[p * columns + q], a[q * columns + q] - a[p * columns + p]);
        const double c = std::cos(angle), s = std::sin(angle);
        const auto rotate = [c, s](double& x, double& y) {
          const double old = x;
          x = c * old - s * y;
          y = s * old + c * y;
        };
        for (std::size_t i = 0; i < columns; ++i) rotate(a[i * columns + p], a[i * columns + q]);
        for (std::size_t i = 0; i < columns; ++i) rotate(a[p * columns + i], a[q * columns + i]);
        for (std::size_t i = 0; i < columns; ++i) rotate(v[i * columns + p], v[i * columns + q]);
      }
    }
  }
  std::vector<std::size_t> order(columns);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t x, std::size_t y) { return a[x * columns + x] > a[y * columns + y]; });
  std::vector<double> best(rows * columns);
  for (std::size_t k = 0; k < rank; ++k) {
    for (std::size_t r = 0; r < rows; ++r) {
      double along = 0;
      for (std::size_t j = 0; j < columns; ++j)
        along += matrix[r * columns + j] * v[j * columns + order[k]];
      for (std::size_t j = 0; j < columns; ++j)
        best[r * columns + j] += along * v[j * columns + order[k]];
    }
  }
  return best;
}

// The singular values halve from one to the next, so that power iteration converges.
Values decaying_matrix(std::size_t rows, std::size_t columns, std::uint64_t seed) {
  Values matrix(rows * columns);
  float size = 1;
  for (std::size_t k = 0; k < std::min(rows, columns); ++k, size /= 2) {
    const Values left = random_matrix(rows, seed + 2 * k),
                 right = random_matrix(columns, seed + 2 * k + 1);
    for (std::size_t i = 0; i < matrix.size(); ++i)
      matrix[i] += size * left[i / columns] * right[i % columns];
  }
  return matrix;
}

TEST(PowerSgd, FullRankIsThePlainMean) {
  const std::size_t shapes[][2] = {{6, 6}, {5, 40}, {40, 5}, {1, 100}, {100, 1}, {1, 1}};
  for (const auto& [rows, columns] : shapes) {
    SCOPED_TRACE(testing::Message() << rows << 'x' << columns);
    Ranks ranks({.rows = rows, .columns = columns, .rank = 64}, {3, 1, 2});
    EXPECT_EQ(ranks[0].rank(), static_cast<int>(std::min(rows, columns)));
    for (std::uint64_t step = 0; step < 3; ++step) {
      std::vector<Values> gradients;
      for (std::uint64_t i = 0; i < 3; ++i)
        gradients.push_back(random_matrix(rows * columns, 10 * step + i));
      // A single rank has no residual. Several ranks keep the difference between their gradient and
      // the mean, and these residuals cancel in the mean.
      const std::vector<double> expected = widened(ranks.mean_of(gradients));
      const std::vector<double> found = widened(ranks.step(gradients));
      EXPECT_LE(distance(found, expected), 1e-5 * norm(expected));
    }
  }
}

TEST(PowerSgd, AWarmStartFindsTheBestApproximationOfAConstantMatrix) {
  for (const auto& [rows, columns] : {std::pair<std::size_t, std::size_t>{20, 12}, {9, 30}}) {
    for (const int rank : {1, 2, 3}) {
      const Values matrix = decaying_matrix(rows, columns, 5);
      const std::vector<double> best =
          best_approximation(matrix, rows, columns, static_cast<std::size_t>(rank));
      Ranks ranks({.rows = rows, .columns = columns, .rank = rank}, {1});
      std::vector<double> found;
      double first = 0;
      for (int step = 0; step < 60; ++step) {
        const auto residual = ranks[0].residual();
        std::fill(residual.begin(), residual.end(), 0.0F);
        found = widened(ranks.step({matrix}));
        if (step == 0) first = distance(found, best);
      }
      EXPECT_GT(first, 1e-3 * norm(best));
      EXPECT_LE(distance(found, best), 1e-4 * norm(best));
      EXPECT_LT(norm(best), 0.9999 * norm(widened(matrix)));
    }
  }
}

TEST(PowerSgd, WhatWasSentAndWhatIsLeftOverIsAllOfTheGradients) {
  constexpr std::size_t kRows = 30, kColumns = 17;
  const std::vector<double> weights = {1, 5, 2};
  Ranks ranks({.rows = kRows, .columns = kColumns, .rank = 2}, weights);
  std::vector<double> given(kRows * kColumns), sent(kRows * kColumns);
  for (std::uint64_t step = 0; step < 50; ++step) {
    std::vector<Values> gradients;
    for (std::uint64_t i = 0; i < 3; ++i)
      gradients.push_back(random_matrix(kRows * kColumns, 100 * step + i));
    add(ranks.mean_of(gradients), given);
    add(ranks.step(gradients), sent);
  }
  std::vector<Values> residuals;
  for (std::size_t i = 0; i < 3; ++i)
    residuals.emplace_back(ranks[i].residual().begin(), ranks[i].residual().end());
  EXPECT_GT(norm(widened(ranks.mean_of(residuals))), 0.1 * norm(given));
  add(ranks.mean_of(residuals), sent);
  EXPECT_LE(distance(sent, given), 1e-5 * norm(given));
}

TEST(PowerSgd, ARankWithoutAGradientHasTheSameMeanAndKeepsWhatIsLeftOver) {
  const PowerSgd::Options options{.rows = 8, .columns = 9, .rank = 2};
  Ranks all(options, {1, 0}), alone(options, {1});
  const auto left_over = all[1].residual();
  std::fill(left_over.begin(), left_over.end(), 7.0F);
  for (std::uint64_t step = 0; step < 3; ++step) {
    const Values gradient = random_matrix(72, step);
    EXPECT_EQ(all.step({gradient, gradient}), alone.step({gradient}));
  }
  for (const float value : all[1].residual()) EXPECT_EQ(value, 7.0F);
  EXPECT_TRUE(std::equal(all[0].q().begin(), all[0].q().end(), all[1].q().begin()));
}

TEST(PowerSgd, ZeroMatricesAreSentAsZeroAndDoNotStopWhatComesAfter) {
  Ranks ranks({.rows = 6, .columns = 5, .rank = 2}, {1, 1});
  const Values zero(30), gradient = decaying_matrix(6, 5, 1);
  for (int step = 0; step < 2; ++step) EXPECT_EQ(ranks.step({zero, zero}), zero);
  std::vector<double> sent(30), given(30);
  for (int step = 0; step < 40; ++step) {
    add(ranks.step({gradient, gradient}), sent);
    add(gradient, given);
  }
  EXPECT_LE(distance(sent, given), 0.2 * norm(given));
}

// The second column of p depends linearly on the first. Orthogonalization must not turn it into
// unbounded noise or NaN.
TEST(PowerSgd, AMatrixOfLowerRankIsSentWhole) {
  Values matrix(12 * 7);
  for (std::size_t i = 0; i < matrix.size(); ++i)
    matrix[i] = static_cast<float>((i / 7 + 1) * (i % 7 + 1));
  Ranks ranks({.rows = 12, .columns = 7, .rank = 4}, {1});
  for (int step = 0; step < 5; ++step) {
    const std::vector<double> found = widened(ranks.step({matrix}));
    EXPECT_LE(distance(found, widened(matrix)), 1e-5 * norm(widened(matrix)));
  }
}

TEST(PowerSgd, SmallAndLargeGradientsDoNotVanishOrOverflow) {
  for (const double scale : {1e-30, 1e30}) {
    Ranks ranks({.rows = 10, .columns = 10, .rank = 10}, {1});
    for (std::uint64_t step = 0; step < 4; ++step) {
      const Values gradient = random_matrix(100, step, scale);
      const std::vector<double> found = widened(ranks.step({gradient}));
      EXPECT_LE(distance(found, widened(gradient)), 1e-4 * norm(widened(gradient)));
    }
  }
}

TEST(PowerSgd, AGradientThatIsNotFiniteIsSeenInTheMeanAndForgotten) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Ranks ranks({.rows = 6, .columns = 5, .rank = 2}, {1, 1});
    const Values good = random_matrix(30, 3);
    Values broken = good;
    broken[17] = bad;
    ranks.step({good, good});
    for (const float value : ranks.step({good, broken})) EXPECT_TRUE(std::isnan(value));
    for (const float value : ranks[1].residual()) EXPECT_TRUE(std::isfinite(value));
    for (const float value : ranks.step({good, good})) EXPECT_TRUE(std::isfinite(value));
  }
}

TEST(PowerSgd, TheFirstQIsNormalAndHangsOnTheSeedAlone) {
  const PowerSgd::Options options{.rows = 64, .columns = 5000, .rank = 2, .seed = 9};
  PowerSgd one(options), same(options);
  PowerSgd other({.rows = 64, .columns = 5000, .rank = 2, .seed = 10});
  EXPECT_TRUE(std::equal(one.q().begin(), one.q().end(), same.q().begin()));
  EXPECT_FALSE(std::equal(one.q().begin(), one.q().end(), other.q().begin()));
  double sum = 0, squares = 0;
  for (const float value : one.q()) {
    sum += value;
    squares += static_cast<double>(value) * value;
  }
  EXPECT_NEAR(sum / 10000, 0, 0.05);
  EXPECT_NEAR(squares / 10000, 1, 0.05);
}

TEST(Orthonormalise, MakesColumnsOrthonormalAndKeepsWhatTheySpan) {
  constexpr std::size_t kRows = 50, kColumns = 4;
  Values columns = random_matrix(kRows * kColumns, 2);
  const Values before = columns;
  orthonormalise(columns, kRows);
  const auto product = [&](const Values& a, std::size_t i, std::size_t j) {
    double sum = 0;
    for (std::size_t r = 0; r < kRows; ++r)
      sum += static_cast<double>(a[i * kRows + r]) * columns[j * kRows + r];
    return sum;
  };
  for (std::size_t i = 0; i < kColumns; ++i) {
    double inside = 0, whole = 0;
    for (std::size_t j = 0; j < kColumns; ++j) {
      EXPECT_NEAR(product(columns, i, j), i == j ? 1 : 0, 1e-6);
      inside += std::pow(product(before, i, j), 2);
    }
    for (std::size_t r = 0; r < kRows; ++r)
      whole += std::pow(static_cast<double>(before[i * kRows + r]), 2);
    EXPECT_NEAR(inside, whole, 1e-5 * whole);
  }
}

TEST(Orthonormalise, DependentAndZeroColumnsBecomeZero) {
  Values columns = {3, 4, 6, 8, 0, 0};
  orthonormalise(columns, 2);
  EXPECT_EQ(columns, (Values{0.6F, 0.8F, 0, 0, 0, 0}));
}

}  // namespace
}  // namespace tally::codec
