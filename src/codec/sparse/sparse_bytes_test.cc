#include "codec/sparse/sparse_bytes.h"

#include <algorithm>

#include "codec/families.h"
#include "codec/sparse/sparse_test_support.h"

namespace tally::codec {
namespace {

std::vector<std::unique_ptr<Codec>> all_sparse() {
  std::vector<std::unique_ptr<Codec>> codecs;
  codecs.push_back(make_topk(0.05, /*exact=*/true));
  codecs.push_back(make_topk(0.05, /*exact=*/false));
  codecs.push_back(make_threshold(1.0));
  codecs.push_back(make_randk(0.05, /*scaled=*/false));
  codecs.push_back(make_nonzero());
  return codecs;
}

TEST(SparseBytes, EveryLengthAndAlignmentComesBackTheSame) {
  Rng rng(1);
  for (const auto& codec : all_sparse()) {
    for (std::size_t count = 0; count <= 1000; count += count < 200 ? 1 : 7) {
      const std::size_t shift = count % 17;
      Floats memory = awkward_values(count + 32, rng, count % 2 == 0);
      const std::span<const float> values(memory.data() + shift, count);
      const Bytes bytes = encoded(*codec, values);
      const Floats arrived = decoded(*codec, bytes, count);
      sent_places(values, arrived);
      // Decode a copy at an odd address and add it to other values.
      Bytes moved(bytes.size() + 1 + shift);
      std::copy(bytes.begin(), bytes.end(), moved.begin() + 1 + static_cast<long>(shift));
      Floats sum(count, 0.5F);
      ASSERT_TRUE(codec->decode_add(std::span(moved).subspan(1 + shift), 2.0F, sum).has_value());
      for (std::size_t i = 0; i < count; ++i) {
        const float want = 0.5F + 2.0F * arrived[i];
        ASSERT_TRUE(sum[i] == want || (std::isnan(sum[i]) && std::isnan(want))) << i;
      }
      const Floats copy(values.begin(), values.end());
      ASSERT_EQ(encoded(*codec, copy), bytes);
    }
  }
}

TEST(SparseBytes, NonFiniteValuesArriveAsThemselves) {
  Rng rng(2);
  for (const auto& codec : all_sparse()) {
    for (const std::size_t count : {1U, 100U, 5000U}) {
      const Floats values = awkward_values(count, rng, /*odd_ones=*/true);
      const std::vector<bool> sent = sent_places(values, round_trip(*codec, values));
      for (std::size_t i = 0; i < count; ++i)
        EXPECT_TRUE(sent[i] || std::isfinite(values[i])) << "value " << i;
    }
  }
}

TEST(SparseBytes, NonzeroIsExactAndDenseWhereThatIsSmaller) {
  Rng rng(3);
  const auto codec = make_nonzero();
  EXPECT_TRUE(codec->traits().exact);
  std::size_t forms[3] = {};
  for (const double share : {0.0, 0.001, 0.03, 0.3, 0.9, 0.95, 0.97, 0.98, 1.0}) {
    Floats values = normal_values(10000, rng);
    std::size_t kept = 0;
    for (float& value : values) {
      value = rng.uniform() < share ? value : 0.0F;
      kept += value != 0 ? 1 : 0;
    }
    const Bytes bytes = encoded(*codec, values);
    EXPECT_TRUE(same_bits(decoded(*codec, bytes, values.size()), values));
    EXPECT_LE(bytes.size(), 4 * kept + values.size() / 8 + 1 + kGapsHeader);
    EXPECT_LE(bytes.size(), dense_bytes(values.size()));
    ++forms[std::to_integer<std::size_t>(bytes[0])];
  }
  EXPECT_GT(forms[0], 0U);
  EXPECT_GT(forms[1], 0U);
}

TEST(SparseBytes, ThresholdSendsWhatIsNotBelow) {
  // 0.001 lies between two floats; the smaller one is below the threshold.
  const float below = std::nextafter(0.001F, 0.0F);
  const float above = std::nextafter(below, 1.0F);
  const double nearest = 0.001F;
  const float least = nearest >= 0.001 ? 0.001F : std::nextafter(0.001F, 1.0F);
  const Floats values = {below, above, -least, std::nextafter(least, 0.0F), 1, -2, 0};
  const Floats arrived = round_trip(*make_threshold(0.001), values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool is_sent = std::fabs(static_cast<double>(values[i])) >= 0.001;
    EXPECT_EQ(arrived[i], is_sent ? values[i] : 0.0F) << i;
  }
}

// True if the codec accepts the bytes. The allocations have exact sizes, so that the sanitizer
// detects any access outside of them.
bool reads(const Codec& codec, std::span<const std::byte> bytes, std::size_t count) {
  const std::vector<std::byte> alone(bytes.begin(), bytes.end());
  Floats out(count);
  Floats sum(count);
  const Result<void> read = codec.decode(alone, out);
  const Result<void> added = codec.decode_add(alone, 1.0F, sum);
  EXPECT_EQ(read.has_value(), added.has_value());
  EXPECT_TRUE(read.has_value() || read.error().code == ErrorCode::kCorrupt);
  return read.has_value();
}

TEST(SparseBytes, TruncatedAndLengthenedBytesAreRefused) {
  Rng rng(4);
  for (const auto& codec : all_sparse()) {
    for (const std::size_t count : {1U, 9U, 500U}) {
      Bytes bytes = encoded(*codec, normal_values(count, rng));
      ASSERT_TRUE(reads(*codec, bytes, count));
      for (std::size_t size = 0; size < bytes.size(); ++size)
        EXPECT_FALSE(reads(*codec, std::span(bytes).first(size), count)) << size;
      bytes.push_back(std::byte{0});
      EXPECT_FALSE(reads(*codec, bytes, count));
    }
  }
}

TEST(SparseBytes, OtherBytesAreRefusedOrHarmless) {
  Rng rng(5);
  const auto codec = make_topk(0.05, /*exact=*/true);
  std::size_t refused = 0;
  for (int round = 0; round < 20000; ++round) {
    const std::size_t count = rng.below(300);
    Bytes bytes;
    if (round % 2 == 0 && count > 0) {
      // A valid encoding with some flipped bits.
      bytes = encoded(*codec, normal_values(count, rng));
      for (int flips = 0; flips < 3; ++flips)
        bytes[rng.below(bytes.size())] ^= static_cast<std::byte>(1U << rng.below(8));
    } else {
      bytes.resize(rng.below(80));
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng.below(256));
      if (!bytes.empty()) bytes[0] = static_cast<std::byte>(rng.below(4));
    }
    refused += reads(*codec, bytes, count) ? 0 : 1;
  }
  EXPECT_GT(refused, 10000U);
}

TEST(SparseBytes, EveryFieldOfTheHeaderIsChecked) {
  const auto codec = make_nonzero();
  Floats values(100);
  values[3] = 1;
  values[50] = 2;
  const Bytes good = encoded(*codec, values);
  const auto with = [&good](std::size_t at, int value) {
    Bytes changed = good;
    changed[at] = static_cast<std::byte>(value);
    return changed;
  };
  EXPECT_TRUE(reads(*codec, good, 100));
  EXPECT_FALSE(reads(*codec, with(0, 3), 100));
  EXPECT_FALSE(reads(*codec, with(1, 32), 100));
  EXPECT_FALSE(reads(*codec, with(2, 3), 100));
  EXPECT_FALSE(reads(*codec, with(5, 0xFF), 100));
  // The last index is out of range for fewer values.
  EXPECT_FALSE(reads(*codec, good, 50));
  EXPECT_TRUE(reads(*codec, good, 51));
  // A set bit after the last index.
  EXPECT_FALSE(reads(*codec, with(good.size() - 1, std::to_integer<int>(good.back()) | 0x80), 100));
}

}  // namespace
}  // namespace tally::codec
