#include "adapters/cuda/codec/low_rank.h"

#include <algorithm>
#include <cmath>

#include "adapters/cuda/codec/codec_test_support.h"
#include "exchange/device/host_low_rank.h"

namespace tally::cuda {
namespace {

// The bound of DeviceLowRank, for each column of a factor or a whole matrix.
constexpr float kBound = 1e-5F;

void expect_near(const Floats& device, const Floats& host, std::size_t column) {
  ASSERT_EQ(device.size(), host.size());
  for (std::size_t first = 0; first < host.size(); first += column) {
    float largest = 0, distance = 0;
    for (std::size_t i = first; i < first + column; ++i) {
      largest = std::max(largest, std::abs(host[i]));
      distance = std::max(distance, std::abs(host[i] - device[i]));
      ASSERT_EQ(std::isfinite(device[i]), std::isfinite(host[i])) << "element " << i;
    }
    ASSERT_LE(distance, kBound * largest) << "column " << first / column;
  }
}

// The device beside the host.
class LowRankPair {
 public:
  LowRankPair(const codec::PowerSgd::Options& options, bool feedback)
      : options_(options),
        host_(exchange::host_low_rank(options, feedback)),
        p_(host_->p_count()),
        q_(host_->q_count()),
        mean_(count()) {
    auto made = make_device_low_rank(options, feedback, codec_gpu());
    if (!made) {
      ADD_FAILURE() << made.error().message;
      return;
    }
    device_ = std::move(*made);
    EXPECT_EQ(device_->rank(), host_->rank());
    EXPECT_EQ(device_->p_count(), host_->p_count());
    EXPECT_EQ(device_->q_count(), host_->q_count());
  }

  std::size_t count() const { return options_.rows * options_.columns; }

  // One step of this rank; without a gradient it only takes part. The factors of the host replace
  // the device's before each product, so that differences do not add up.
  void step(const Floats* gradient, float weight, float share, std::size_t skipped) {
    Floats p(p_.read().size()), q(q_.read().size()), mean(count());
    if (gradient == nullptr) {
      p = random_values(p.size(), 5);
    } else {
      const DeviceArray<float> on_device(*gradient, skipped);
      ASSERT_TRUE(host_->project(gradient->data(), weight, p.data()));
      ASSERT_TRUE(device_->project(on_device.data(), weight, p_.data()));
      expect_near(p_.read(), p, options_.rows);
    }
    p_.write(p);
    ASSERT_TRUE(host_->correlate(p.data(), share, weight, q.data()));
    ASSERT_TRUE(device_->correlate(p_.data(), share, weight, q_.data()));
    expect_near(p_.read(), p, options_.rows);
    expect_near(q_.read(), q, options_.columns);
    p_.write(p);
    q_.write(q);
    ASSERT_TRUE(host_->finish(p.data(), q.data(), share, mean.data()));
    ASSERT_TRUE(device_->finish(p_.data(), q_.data(), share, mean_.data()));
    // The same factors give the same bits.
    EXPECT_TRUE(same_values(mean_.read(), mean));
    EXPECT_TRUE(same_values(q_.read(), q));
    EXPECT_TRUE(same_values(read(device_->residual(), count()),
                            {host_->residual(), host_->residual() + count()}));
    EXPECT_TRUE(same_values(read(device_->q(), q.size()), {host_->q(), host_->q() + q.size()}));
  }

  static Floats read(const float* from, std::size_t count) {
    Floats values(count);
    EXPECT_EQ(cudaMemcpy(values.data(), from, count * sizeof(float), cudaMemcpyDeviceToHost),
              cudaSuccess);
    return values;
  }

 private:
  const codec::PowerSgd::Options options_;
  std::unique_ptr<exchange::DeviceLowRank> host_, device_;
  DeviceArray<float> p_, q_, mean_;
};

struct MatrixCase {
  std::size_t rows, columns;
};
constexpr std::size_t rows(std::size_t gpu, std::size_t emulated, std::size_t sanitized) {
  return kIsSanitized ? sanitized : kIsEmulated ? emulated : gpu;
}
// The last ones have more rows than the GPU runs warps.
const MatrixCase kMatrices[] = {{1, 1},
                                {1, 500},
                                {700, 1},
                                {3, 5},
                                {32, 128},
                                {33, 129},
                                {rows(64, 64, 16), 576},
                                {rows(300, 100, 20), 1000},
                                {rows(2048, 500, 150), 37},
                                {rows(9000, 900, 200), 64}};

TEST(DeviceLowRank, AgreesWithTheHost) {
  for (const MatrixCase& matrix : kMatrices)
    for (const int rank : {1, 2, 3, 4, 7, 8, 9, 20})
      for (const bool feedback : {true, false}) {
        SCOPED_TRACE(testing::Message() << matrix.rows << " x " << matrix.columns << ", rank "
                                        << rank << ", feedback " << feedback);
        if (rank > 4 && !feedback) continue;
        LowRankPair pair({.rows = matrix.rows, .columns = matrix.columns, .rank = rank, .seed = 3},
                         feedback);
        for (std::uint64_t step = 0; step < (kIsSanitized ? 2 : 3); ++step) {
          const Floats gradient = random_values(pair.count(), 10 + step);
          pair.step(&gradient, 3, 0.25F, step % 2);
          if (testing::Test::HasFailure()) return;
        }
      }
}

TEST(DeviceLowRank, TakesPartWithoutAGradient) {
  LowRankPair pair({.rows = 100, .columns = 60, .rank = 3}, /*feedback=*/true);
  const Floats gradient = random_values(pair.count(), 1);
  pair.step(&gradient, 1, 1, 0);
  pair.step(nullptr, 0, 1, 0);
  pair.step(&gradient, 1, 1, 0);
}

TEST(DeviceLowRank, AgreesForZerosAndForTinyAndHugeGradients) {
  for (const float scale : {0.0F, 1e-20F, 1e15F}) {
    SCOPED_TRACE(scale);
    LowRankPair pair({.rows = 40, .columns = 70, .rank = 2}, /*feedback=*/true);
    for (std::uint64_t step = 0; step < 2; ++step) {
      Floats gradient = random_values(pair.count(), step);
      for (float& value : gradient) value *= scale;
      pair.step(&gradient, 2, 0.5F, 0);
    }
  }
}

// The whole mean is NaN, the residual keeps the finite values, and the next step is a number again.
TEST(DeviceLowRank, ShowsValuesThatAreNotFinite) {
  for (const float odd :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    const codec::PowerSgd::Options options{.rows = 50, .columns = 40, .rank = 2};
    auto device = make_device_low_rank(options, /*feedback=*/true, codec_gpu());
    ASSERT_TRUE(device);
    Floats gradient = random_values(2000, 2);
    const DeviceArray<float> p((*device)->p_count()), q((*device)->q_count()), mean(2000);
    for (int step = 0; step < 2; ++step) {
      Floats given = gradient;
      if (step == 0) given[777] = odd;
      const DeviceArray<float> on_device(given);
      ASSERT_TRUE((*device)->project(on_device.data(), 1, p.data()));
      ASSERT_TRUE((*device)->correlate(p.data(), 1, 1, q.data()));
      ASSERT_TRUE((*device)->finish(p.data(), q.data(), 1, mean.data()));
      for (const float value : mean.read()) ASSERT_EQ(std::isnan(value), step == 0);
      const Floats residual = LowRankPair::read((*device)->residual(), 2000);
      for (std::size_t i = 0; i < 2000; ++i) {
        if (step == 0)
          ASSERT_EQ(residual[i], i == 777 ? 0 : gradient[i]);
        else
          ASSERT_TRUE(std::isfinite(residual[i]));
      }
    }
  }
}

TEST(DeviceLowRank, RefusesEmptyMatricesAndWrongRanks) {
  const codec::PowerSgd::Options wrong[] = {{.rows = 0, .columns = 5, .rank = 1},
                                            {.rows = 5, .columns = 0, .rank = 1},
                                            {.rows = 5, .columns = 5, .rank = 0},
                                            {.rows = 5, .columns = 5, .rank = 65}};
  for (const auto& options : wrong) {
    const auto made = make_device_low_rank(options, /*feedback=*/true, codec_gpu());
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, ErrorCode::kInvalid);
  }
}

}  // namespace
}  // namespace tally::cuda
