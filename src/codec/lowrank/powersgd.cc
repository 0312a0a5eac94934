#include "codec/lowrank/powersgd.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/rng.h"
#include "kernel/lowrank/factor.h"

namespace tally::codec {
namespace {

constexpr int kMostPowerSgdRank = 64;
// A column whose remainder is below this share of its norm depends on the earlier ones within the
// precision of float32.
constexpr double kLeastShare = 1e-8;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

int used_rank(const PowerSgd::Options& options) {
  TALLY_CHECK(options.rows > 0 && options.columns > 0);
  TALLY_CHECK(options.rank >= 1 && options.rank <= kMostPowerSgdRank);
  const std::size_t most = std::min(options.rows, options.columns);
  return static_cast<int>(std::min(most, static_cast<std::size_t>(options.rank)));
}

// The sum of twelve uniform numbers less its mean is nearly normal, and has the same bits with
// every mathematical library.
float normal(Rng& random) {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += random.uniform();
  return static_cast<float>(sum);
}

// Four partial sums, so that additions do not wait for each other.
double dot(const double* a, const double* b, std::size_t count) {
  double sums[4] = {};
  std::size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    for (std::size_t lane = 0; lane < 4; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  for (; i < count; ++i) sums[i % 4] += a[i] * b[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// Subtracts the projections on the earlier columns, which are orthonormal, from column `k`, and
// normalizes the remainder.
void orthonormalise_column(std::vector<double>& columns, std::size_t rows, std::size_t k) {
  double* const own = columns.data() + k * rows;
  const double before = std::sqrt(dot(own, own, rows));
  for (std::size_t other = 0; other < k; ++other) {
    const double* const basis = columns.data() + other * rows;
    const double share = dot(basis, own, rows);
    for (std::size_t i = 0; i < rows; ++i) own[i] -= share * basis[i];
  }
  const double left = std::sqrt(dot(own, own, rows));
  // An earlier column that is NaN makes this one NaN as well.
  if (!std::isfinite(left) || !std::isfinite(before)) {
    std::fill_n(own, rows, std::numeric_limits<double>::quiet_NaN());
    return;
  }
  const double scale = left > before * kLeastShare ? 1 / left : 0;
  for (std::size_t i = 0; i < rows; ++i) own[i] *= scale;
}

}  // namespace

void orthonormalise(std::span<float> columns, std::size_t rows) {
  TALLY_CHECK(rows > 0 && columns.size() % rows == 0);
  std::vector<double> wide(columns.begin(), columns.end());
  for (std::size_t k = 0; k < columns.size() / rows; ++k) orthonormalise_column(wide, rows, k);
  std::transform(wide.begin(), wide.end(), columns.begin(),
                 [](double value) { return static_cast<float>(value); });
}

PowerSgd::PowerSgd(const Options& options)
    : options_(options),
      rank_(used_rank(options)),
      residual_(options.rows * options.columns),
      q_(q_count()) {
  // A sequence that no other user of this seed has.
  Rng random(Rng(options.seed ^ 0x706F776572736764ULL).next());
  std::generate(q_.begin(), q_.end(), [&random] { return normal(random); });
}

void PowerSgd::project(std::span<const float> gradient, std::span<float> p) {
  TALLY_CHECK(!sent_ && gradient.size() == residual_.size() && p.size() == p_count());
  kernel::factor_kernels().project(
      {options_.rows, options_.columns, static_cast<std::size_t>(rank_)}, gradient.data(),
      residual_.data(), q_.data(), p.data());
  sent_ = true;
}

void PowerSgd::correlate(std::span<float> p, std::span<float> q) {
  TALLY_CHECK(p.size() == p_count() && q.size() == q_count());
  orthonormalise(p, options_.rows);
  if (!sent_) {
    std::fill(q.begin(), q.end(), 0.0F);
    return;
  }
  kernel::factor_kernels().correlate(
      {options_.rows, options_.columns, static_cast<std::size_t>(rank_)}, residual_.data(),
      p.data(), q.data());
}

void PowerSgd::finish(std::span<const float> p, std::span<const float> q, std::span<float> mean) {
  TALLY_CHECK(p.size() == p_count() && q.size() == q_count() && mean.size() == residual_.size());
  const auto is_finite = [](float value) { return std::isfinite(value); };
  const bool sent = sent_;
  sent_ = false;
  if (!std::all_of(q.begin(), q.end(), is_finite) || !std::all_of(p.begin(), p.end(), is_finite)) {
    std::fill(mean.begin(), mean.end(), kNan);
    if (sent)
      std::replace_if(
          residual_.begin(), residual_.end(), [&](float value) { return !is_finite(value); }, 0.0F);
    return;
  }
  kernel::factor_kernels().multiply(
      {options_.rows, options_.columns, static_cast<std::size_t>(rank_)}, p.data(), q.data(),
      mean.data(), sent ? residual_.data() : nullptr);
  take_over(q);
}

// Keeps `q` for the next step, scaled to about 1. A zero column is not kept, because it would stay
// zero. Scaling by powers of two is exact, and prevents underflow of small gradients.
void PowerSgd::take_over(std::span<const float> q) {
  for (std::size_t k = 0; k < static_cast<std::size_t>(rank_); ++k) {
    const auto column = q.subspan(k * options_.columns, options_.columns);
    float largest = 0;
    for (const float value : column) largest = std::max(largest, std::abs(value));
    if (largest == 0) continue;
    const double scale = std::ldexp(1.0, -std::ilogb(largest));
    float* const own = q_.data() + k * options_.columns;
    for (std::size_t i = 0; i < column.size(); ++i) own[i] = static_cast<float>(column[i] * scale);
  }
}

}  // namespace tally::codec
