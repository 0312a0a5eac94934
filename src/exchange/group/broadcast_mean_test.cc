#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "exchange/group/encoded_update_test_support.h"

// The encoding of the mean on its way back (back=), seen from the values after an update. The
// expected means and errors are computed from docs/codecs.md, without the codecs.

namespace tally::exchange {
namespace {

using Doubles = std::vector<double>;

constexpr int kSenders = 3;
constexpr std::size_t kMeanCount = 3000;
constexpr std::size_t kSignBlock = 128;  // of sign and onebit
constexpr std::size_t kBackBlock = 256;  // of the int8 of means
constexpr double kFloatError = 1e-6;     // of sums in float32, relative to the largest value

double samples_of_sender(Rank rank) { return 1 + rank; }

// sign: the mean magnitude of the block, with the sign of the value.
Doubles as_signs(const Doubles& values) {
  Doubles decoded(values.size());
  for (std::size_t first = 0; first < values.size(); first += kSignBlock) {
    const std::size_t end = std::min(first + kSignBlock, values.size());
    double sum = 0;
    for (std::size_t i = first; i < end; ++i) sum += std::abs(values[i]);
    for (std::size_t i = first; i < end; ++i)
      decoded[i] = std::copysign(sum / static_cast<double>(end - first), values[i]);
  }
  return decoded;
}

// onebit: the mean of the block's values with the same sign.
Doubles as_one_bits(const Doubles& values) {
  Doubles decoded(values.size());
  for (std::size_t first = 0; first < values.size(); first += kSignBlock) {
    const std::size_t end = std::min(first + kSignBlock, values.size());
    for (std::size_t i = first; i < end; ++i) {
      double sum = 0;
      double count = 0;
      for (std::size_t other = first; other < end; ++other) {
        if ((values[other] < 0) != (values[i] < 0)) continue;
        sum += values[other];
        ++count;
      }
      decoded[i] = sum / count;
    }
  }
  return decoded;
}

using Encoding = Doubles (*)(const Doubles&);

double largest_of(const Doubles& values, std::size_t first, std::size_t end) {
  double largest = 0;
  for (std::size_t i = first; i < std::min(end, values.size()); ++i)
    largest = std::max(largest, std::abs(values[i]));
  return largest;
}

Doubles exact_mean(Encoding encoding) {
  Doubles mean(kMeanCount);
  double total = 0;
  for (Rank rank = 0; rank < kSenders; ++rank) total += samples_of_sender(rank);
  for (Rank rank = 0; rank < kSenders; ++rank) {
    Doubles gradient(kMeanCount);
    for (std::size_t i = 0; i < kMeanCount; ++i) gradient[i] = gradient_value(0, i, 0, rank);
    const Doubles decoded = encoding(gradient);
    for (std::size_t i = 0; i < kMeanCount; ++i)
      mean[i] += samples_of_sender(rank) / total * decoded[i];
  }
  return mean;
}

// The mean that all ranks receive: plain sgd at the rate 1 subtracts it from zeros.
std::vector<float> received_mean(const std::string& codec) {
  std::vector<std::vector<float>> received(kSenders);
  collective::run_ranks(collective::Network::kInProcess, kSenders, [&](Job& job) {
    const GroupUpdate::Options options{.parameters = {{.name = "w", .shape = {30, 100}}},
                                       .optimizers = {sgd({.rate = 1})},
                                       .codec = spec_of(codec)};
    const auto update = std::move(*GroupUpdate::make(job.world(), options, soon()));
    ASSERT_TRUE(update->spread_values(soon()).has_value());
    auto* const gradient = reinterpret_cast<float*>(update->gradient(0).data());
    for (std::size_t i = 0; i < kMeanCount; ++i) gradient[i] = gradient_value(0, i, 0, job.rank());
    ASSERT_TRUE(update->ready(0).has_value());
    const double samples = samples_of_sender(job.rank());
    ASSERT_TRUE(update->complete({.samples = samples, .weight = samples}, {}).has_value());
    const auto* const values = reinterpret_cast<const float*>(update->values(0).data());
    for (std::size_t i = 0; i < kMeanCount; ++i)
      received[static_cast<std::size_t>(job.rank())].push_back(-values[i]);
    ASSERT_TRUE(job.world().barrier().has_value());
  });
  for (const std::vector<float>& each : received) EXPECT_EQ(each, received[0]) << codec;
  return received[0];
}

// Numbers of 16 bits within 2^-8 of the value.
bool is_bf16_of(const Doubles& mean, const std::vector<float>& received) {
  const double rounding = kFloatError * largest_of(mean, 0, mean.size());
  for (std::size_t i = 0; i < mean.size(); ++i) {
    if ((std::bit_cast<std::uint32_t>(received[i]) & 0xFFFF) != 0) return false;
    if (std::abs(received[i] - mean[i]) > 0x1p-8 * std::abs(mean[i]) + rounding) return false;
  }
  return true;
}

// Multiples of a scale, which is 1/127 of the largest value of the block, within half of it.
bool is_int8_of(const Doubles& mean, const std::vector<float>& received) {
  for (std::size_t i = 0; i < mean.size(); ++i) {
    const std::size_t first = i / kBackBlock * kBackBlock;
    const double scale = largest_of(mean, first, first + kBackBlock) / 127;
    const double steps = received[i] / scale;
    if (std::abs(steps - std::round(steps)) > 127 * kFloatError) return false;
    if (std::abs(received[i] - mean[i]) > scale * (0.5 + 127 * kFloatError)) return false;
  }
  return true;
}

// Encoded once more as gradients are.
bool is_same_of(const Doubles& mean, const std::vector<float>& received, Encoding encoding) {
  const double rounding = kFloatError * largest_of(mean, 0, mean.size());
  const Doubles again = encoding(mean);
  for (std::size_t i = 0; i < mean.size(); ++i)
    if (std::abs(received[i] - again[i]) > rounding) return false;
  return true;
}

TEST(BroadcastMean, HasTheEncodingThatThePlanNames) {
  const struct {
    std::string codec;
    Encoding encoding;
    plan::Back back;
  } cases[] = {
      {"sign", as_signs, plan::Back::kInt8},
      {"sign:back=int8", as_signs, plan::Back::kInt8},
      {"sign:back=bf16", as_signs, plan::Back::kBf16},
      {"sign:back=same", as_signs, plan::Back::kSame},
      {"onebit", as_one_bits, plan::Back::kInt8},
      {"onebit:back=int8", as_one_bits, plan::Back::kInt8},
      {"onebit:back=bf16", as_one_bits, plan::Back::kBf16},
      {"onebit:back=same", as_one_bits, plan::Back::kSame},
  };
  for (const auto& [codec, encoding, back] : cases) {
    const Doubles mean = exact_mean(encoding);
    const std::vector<float> received = received_mean(codec);
    ASSERT_EQ(received.size(), mean.size());
    EXPECT_EQ(is_int8_of(mean, received), back == plan::Back::kInt8) << codec;
    EXPECT_EQ(is_bf16_of(mean, received), back == plan::Back::kBf16) << codec;
    EXPECT_EQ(is_same_of(mean, received, encoding), back == plan::Back::kSame) << codec;
  }
}

}  // namespace
}  // namespace tally::exchange
