#include "recipes/linear/problem.h"

#include <cmath>
#include <cstring>
#include <numbers>

#include <fmt/format.h>

#include "base/check.h"
#include "base/errors.h"
#include "base/rng.h"
#include "data/preprocessing.h"

namespace tally::recipes {
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
  Rng rng = stream(spec, ~std::uint64_t{0});  // no sample has that number
  std::vector<double> weights(static_cast<std::size_t>(spec.features) + 1);
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

LinearSamples::LinearSamples(const LinearSpec& spec, const Range& range) {
  shape_ = {.input = {spec.features}, .target_type = DataType::kFloat32};
  const std::vector<double> hidden = hidden_weights(spec);
  x_.reserve(range.count * static_cast<std::size_t>(spec.features));
  y_.reserve(range.count);
  for (std::uint64_t i = range.first; i < range.first + range.count; ++i) {
    Rng rng = stream(spec, i);
    double y = hidden.back();
    for (std::size_t k = 0; k + 1 < hidden.size(); ++k) {
      const double x = normal(rng);
      y += hidden[k] * x;
      x_.push_back(static_cast<float>(x));
    }
    y_.push_back(static_cast<float>(y + spec.noise * normal(rng)));
  }
}

data::Preprocessing LinearSamples::preprocessing() const {
  const auto features = static_cast<std::size_t>(shape_.input.front());
  data::TableEncoding table{.target = features};
  for (std::size_t i = 0; i < features; ++i)
    table.columns.push_back({.name = fmt::format("x{}", i), .features = {data::FeatureScale{}}});
  table.columns.push_back({.name = "y"});
  return {.shape = shape_, .classes = {}, .encoding = std::move(table)};
}

Result<void> LinearSamples::read(std::uint64_t index, Rng& /*augment*/, std::span<std::byte> input,
                                 std::span<std::byte> target) const {
  TALLY_CHECK(index < size() && target.size() == sizeof(float));
  std::memcpy(input.data(), &x_[index * (input.size() / sizeof(float))], input.size());
  std::memcpy(target.data(), &y_[index], sizeof(float));
  return {};
}

Result<std::vector<double>> least_squares(const data::Dataset& samples) {
  TALLY_CHECK(samples.shape().input_type == DataType::kFloat32);
  TALLY_CHECK(samples.shape().target_type == DataType::kFloat32);
  std::vector<float> row(data::input_bytes(samples.shape()) / sizeof(float) + 1);
  const std::size_t n = row.size();
  std::vector<double> moments(n * n, 0.0);
  std::vector<double> weights(n, 0.0);
  Rng unused(0);
  for (std::uint64_t i = 0; i < samples.size(); ++i) {
    float y = 0;
    const std::span<float> inputs(row.data(), n - 1);
    TALLY_TRY(samples.read(i, unused, std::as_writable_bytes(inputs),
                           std::as_writable_bytes(std::span<float>(&y, 1))));
    row.back() = 1;
    for (std::size_t j = 0; j < n; ++j) {
      const double x = row[j];
      weights[j] += x * y;
      for (std::size_t k = 0; k <= j; ++k) moments[j * n + k] += x * row[k];
    }
  }
  if (!factor(moments, n)) {
    return invalid("{} samples do not determine {} weights", samples.size(), n);
  }
  solve(moments, weights);
  return weights;
}

}  // namespace tally::recipes
