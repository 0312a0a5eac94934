#include "codec/conformance_test_support.h"

// Bytes that encode() did not produce are refused as corrupt or decode to some values. Decoding
// touches no memory outside its arguments; the sanitizers detect this better than the guards here.
namespace tally::codec {
namespace {

class DamagedBytes : public EveryCodec {
 protected:
  // True if decode() accepts the bytes; decode_add() must agree.
  bool taken(std::span<const std::byte> bytes, std::size_t count) const {
    Values out(count + 16, -77);
    const auto decoded = codec_->decode(bytes, std::span(out).first(count));
    if (!decoded) {
      EXPECT_EQ(decoded.error().code, ErrorCode::kCorrupt);
    }
    EXPECT_EQ(std::count(out.end() - 16, out.end(), -77.0F), 16);
    Values sum(count, 1);
    EXPECT_EQ(codec_->decode_add(bytes, 1, sum).has_value(), decoded.has_value());
    return decoded.has_value();
  }
};

TEST_P(DamagedBytes, CutOffAreRefused) {
  with_each_stage([&] {
    for (const std::size_t count : {1U, 90U, 1100U}) {
      const Bytes good = encode(*codec_, normal_values(count, 1));
      for (std::size_t size = 0; size < good.size(); ++size) {
        // A separate allocation, so that the sanitizer detects a read past the end.
        const Bytes cut(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size));
        ASSERT_FALSE(taken(cut, count)) << size << " of " << good.size();
      }
    }
  });
}

TEST_P(DamagedBytes, ExtendedAreRefused) {
  with_each_stage([&] {
    for (const std::size_t count : {0U, 1U, 90U, 1100U}) {
      for (const std::size_t more : {1U, 4U, 100U}) {
        for (const std::byte fill : {std::byte{0}, std::byte{0xFF}}) {
          Bytes bytes = encode(*codec_, normal_values(count, 1));
          bytes.insert(bytes.end(), more, fill);
          EXPECT_FALSE(taken(bytes, count)) << count << " values and " << more << " bytes more";
        }
      }
    }
  });
}

TEST_P(DamagedBytes, WithAnyBitFlippedDoNoHarm) {
  with_each_stage([&] {
    for (const std::size_t count : {3U, 90U, 400U}) {
      const Bytes good = encode(*codec_, normal_values(count, 1));
      for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
        Bytes bad = good;
        bad[bit / 8] ^= std::byte{1} << (bit % 8);
        taken(bad, count);
        ASSERT_FALSE(HasFailure()) << bit;
      }
    }
  });
}

TEST_P(DamagedBytes, OfChanceDoNoHarm) {
  with_each_stage([&] {
    Rng rng(7);
    for (int round = 0; round < 2000; ++round) {
      const std::size_t count = rng.below(300);
      Bytes bytes(rng.below(codec_->max_bytes(count) + 20));
      for (std::byte& byte : bytes)
        byte = static_cast<std::byte>(rng.below(4) == 0 ? rng.next() : 0);
      taken(bytes, count);
      ASSERT_FALSE(HasFailure()) << round;
    }
  });
}

TEST_P(DamagedBytes, OfAnotherCountDoNoHarm) {
  with_each_stage([&] {
    const Bytes bytes = encode(*codec_, normal_values(600, 1));
    for (std::size_t count = 0; count < 1300; count += 7) {
      if (count != 600) taken(bytes, count);
      ASSERT_FALSE(HasFailure()) << count;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, DamagedBytes, testing::ValuesIn(codec_texts()), codec_test_name);

}  // namespace
}  // namespace tally::codec
