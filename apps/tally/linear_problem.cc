#include "apps/tally/linear_problem.h"

#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "base/rng.h"

namespace tally::app {
namespace {

// By Box and Muller's method.
double normal(Rng& rng) {
  const double radius = std::sqrt(-2 * std::log(1 - rng.uniform()));
  return radius * std::cos(2 * std::numbers::pi * rng.uniform());
}

Rng stream(const LinearSpec& spec, std::uint64_t number) {
  return Rng(Rng(spec.seed).next() ^ Rng(number).next());
}

std::vector<double> hidden_weights(const LinearSpec& spec) {
  Rng rng = stream(spec, spec.samples);  // the stream after the last sample's
  std::vector<double> weights(spec.features + 1);
  for (double& weight : weights) weight = normal(rng);
  return weights;
}

// Factors the symmetric matrix `a` (rows of n) into L·Lᵗ, L in its lower half. False unless
// positive.
bool factor(std::vector<double>& a, std::size_t n) {
  for (std::size_t j = 0; j < n; ++j) {
    for (std::size_t i = j; i < n; ++i) {
      double sum = a[i * n + j];
      for (std::size_t k = 0; k < j; ++k) sum -= a[i * n + k] * a[j * n + k];
      if (i == j && !(sum > 1e-9)) return false;
      a[i * n + j] = i == j ? std::sqrt(sum) : sum / a[j * n + j];
    }
  }
  return true;
}

// Solves L·Lᵗ·x = b in place of b.
void solve(const std::vector<double>& l, std::vector<double>& b) {
  const std::size_t n = b.size();
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) b[i] -= l[i * n + k] * b[k];
    b[i] /= l[i * n + i];
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) b[i] -= l[k * n + i] * b[k];
    b[i] /= l[i * n + i];
  }
}

}  // namespace

SampleRange shard_of(std::size_t samples, Rank rank, int size) {
  const auto shares = [](int ranks) { return static_cast<std::size_t>(ranks) * (ranks + 1) / 2; };
  const std::size_t first = samples * shares(rank) / shares(size);
  return {.first = first, .count = samples * shares(rank + 1) / shares(size) - first};
}

LinearData generate(const LinearSpec& spec, const SampleRange& range) {
  const std::vector<double> hidden = hidden_weights(spec);
  LinearData data{.columns = spec.features + 1};
  data.x.reserve(range.count * data.columns);
  data.y.reserve(range.count);
  for (std::size_t i = range.first; i < range.first + range.count; ++i) {
    Rng rng = stream(spec, i);
    double y = hidden.back();
    for (std::size_t k = 0; k < spec.features; ++k) {
      const double x = normal(rng);
      y += hidden[k] * x;
      data.x.push_back(static_cast<float>(x));
    }
    data.x.push_back(1.0F);
    data.y.push_back(static_cast<float>(y + spec.noise * normal(rng)));
  }
  return data;
}

void mean_gradient(const LinearData& data, std::span<const double> weights,
                   std::span<float> gradient) {
  std::vector<double> sum(data.columns, 0.0);
  for (std::size_t i = 0; i < data.samples(); ++i) {
    const float* row = &data.x[i * data.columns];
    double error = -data.y[i];
    for (std::size_t k = 0; k < data.columns; ++k) error += weights[k] * row[k];
    for (std::size_t k = 0; k < data.columns; ++k) sum[k] += error * row[k];
  }
  const double divisor = data.samples() > 0 ? static_cast<double>(data.samples()) : 1.0;
  for (std::size_t k = 0; k < data.columns; ++k) gradient[k] = static_cast<float>(sum[k] / divisor);
}

Result<std::vector<double>> least_squares(const LinearData& data) {
  const std::size_t n = data.columns;
  std::vector<double> moments(n * n, 0.0);
  std::vector<double> weights(n, 0.0);
  for (std::size_t i = 0; i < data.samples(); ++i) {
    const float* row = &data.x[i * n];
    for (std::size_t j = 0; j < n; ++j) {
      const double x = row[j];
      weights[j] += x * data.y[i];
      for (std::size_t k = 0; k <= j; ++k) moments[j * n + k] += x * row[k];
    }
  }
  if (!factor(moments, n)) {
    return Error{
        .code = ErrorCode::kInvalid,
        .message = fmt::format("{} samples do not determine {} weights", data.samples(), n)};
  }
  solve(moments, weights);
  return weights;
}

}  // namespace tally::app
