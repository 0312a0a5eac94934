#include <gmock/gmock.h>

#include "adapters/cuda/codec/codec_test_support.h"
#include "soon.h"

namespace tally::cuda {
namespace {

// For several blocks of threads.
constexpr std::size_t kManyBlocks = kIsSanitized ? 5003 : kIsEmulated ? 9001 : 70001;
const std::size_t kLengths[] = {0, 1, 2, 31, 32, 33, 127, 129, 500, 4095, 4096, 4097, kManyBlocks};
constexpr std::size_t kLong = (std::size_t{1} << (kIsSanitized ? 12 : kIsEmulated ? 15 : 20)) + 7;

// Calls use(text, name of the input, values) for all codecs, lengths and inputs; the longest run
// only with normal values.
template <typename Use>
void for_all_inputs(const Use& use) {
  for (const std::string& text : device_codec_texts()) {
    for (const std::size_t count : kLengths)
      for (const Input& input : inputs(count, 7 + count)) {
        SCOPED_TRACE(testing::Message() << text << ", " << count << " " << input.name);
        use(text, input.name, input.values);
        if (testing::Test::HasFailure()) return;
      }
    SCOPED_TRACE(testing::Message() << text << ", " << kLong << " normal values");
    use(text, "normal values", random_values(kLong, 5));
    if (testing::Test::HasFailure()) return;
  }
}

TEST(DeviceCodec, WritesTheBytesOfTheCpu) {
  for_all_inputs([](const std::string& text, const std::string&, const Floats& values) {
    CodecPair pair(text, values.size());
    ASSERT_EQ(pair.device->max_bytes(values.size()), pair.cpu->max_bytes(values.size()));
    ASSERT_EQ(pair.device->is_fixed_size(), pair.cpu->traits().fixed_size);
    for (const std::size_t skipped : {0U, 1U}) {
      const DeviceArray<float> gradient(values, skipped);
      const DeviceArray<std::byte> out(pair.device->max_bytes(values.size()));
      ASSERT_TRUE(pair.device->encode(gradient.data(), values.size(), out.data()));
      EXPECT_TRUE(pair.encoding(out) == pair.encode_on_cpu(values)) << "skipped " << skipped;
    }
  });
}

TEST(DeviceCodec, KeepsTheResidualOfTheCpu) {
  for_all_inputs([](const std::string& text, const std::string& name, const Floats& values) {
    CodecPair pair(text, values.size(), /*feedback=*/true);
    const std::size_t count = values.size();
    const auto encoder = codec::Encoder::make(pair.spec, *pair.cpu, count);
    const std::size_t skipped = count % 2;
    const DeviceArray<float> gradient(values, skipped);
    const DeviceArray<float> residual(Floats(count), skipped);
    const DeviceArray<std::byte> out(pair.device->max_bytes(count));
    for (std::uint64_t step = 0; step < 3; ++step) {
      ASSERT_TRUE(
          pair.device->encode_with_feedback(gradient.data(), residual.data(), count, out.data()));
      Bytes expected(encoder->max_bytes());
      expected.resize(encoder->encode(values, {.step = step}, expected));
      const Bytes bytes = pair.encoding(out);
      // The payload of a NaN in a sum is undefined.
      if (name == "values that are not finite") {
        Floats own(count), other(count);
        ASSERT_TRUE(pair.cpu->decode(bytes, own));
        ASSERT_TRUE(pair.cpu->decode(expected, other));
        ASSERT_TRUE(same_values(own, other)) << "step " << step;
      } else {
        ASSERT_TRUE(bytes == expected) << "step " << step;
      }
      if (count != 0) {
        ASSERT_TRUE(same_values(residual.read(), encoder->states().front().values))
            << "step " << step;
      }
    }
  });
}

TEST(DeviceCodec, DecodesTheValuesOfTheCpu) {
  for_all_inputs([](const std::string& text, const std::string&, const Floats& values) {
    CodecPair pair(text, values.size());
    const std::size_t count = values.size();
    const Bytes encoding = pair.encode_on_cpu(values);
    const DeviceArray<std::byte> bytes(encoding);
    const exchange::DeviceEncoded sender{
        .bytes = bytes.data(), .size = encoding.size(), .weight = 0.3F};
    const std::size_t skipped = count % 3 == 0 ? 0 : 1;
    const DeviceArray<float> out(count, skipped);
    Floats expected(count);
    ASSERT_TRUE(pair.cpu->decode(encoding, expected));
    ASSERT_TRUE(pair.device->decode(sender, out.data(), count));
    ASSERT_TRUE(same_values(out.read(), expected));

    Floats sum = random_values(count, 1);
    const DeviceArray<float> device_sum(sum, skipped);
    ASSERT_TRUE(pair.cpu->decode_add(encoding, sender.weight, sum));
    ASSERT_TRUE(pair.device->decode_add(sender, device_sum.data(), count));
    ASSERT_TRUE(same_values(device_sum.read(), sum));
    ASSERT_TRUE(pair.were_encodings());
  });
}

TEST(DeviceCodec, AveragesSendersAsTheCpu) {
  for (const std::string& text : device_codec_texts())
    for (const std::size_t senders : {0U, 1U, 3U, 35U})
      for (const std::size_t count : {1U, 33U, 4097U}) {
        SCOPED_TRACE(testing::Message() << text << ", " << senders << " senders of " << count);
        CodecPair pair(text, count);
        std::vector<Bytes> encodings;
        std::vector<std::unique_ptr<DeviceArray<std::byte>>> arrays;
        std::vector<codec::Encoded> for_cpu;
        std::vector<exchange::DeviceEncoded> for_device;
        const double total = static_cast<double>(senders * (senders + 1)) / 2;
        for (std::size_t s = 0; s < senders; ++s) {
          encodings.push_back(pair.encode_on_cpu(random_values(count, s)));
          arrays.push_back(std::make_unique<DeviceArray<std::byte>>(encodings.back()));
          const auto weight = static_cast<double>(s + 1);
          for_device.push_back({.bytes = arrays.back()->data(),
                                .size = encodings.back().size(),
                                .weight = static_cast<float>(weight / total)});
        }
        for (std::size_t s = 0; s < senders; ++s)
          for_cpu.push_back({.bytes = encodings[s], .weight = static_cast<double>(s + 1)});
        Floats expected(count);
        ASSERT_TRUE(codec::mean_of(pair.spec, *pair.cpu, for_cpu, expected));
        const DeviceArray<float> mean(count);
        ASSERT_TRUE(pair.device->decode_mean(for_device, mean.data(), count));
        ASSERT_TRUE(same_values(mean.read(), expected));
        ASSERT_TRUE(pair.were_encodings());
      }
}

// The device decodes the same bytes as the CPU, to the same values. Other bytes are kCorrupt, or
// the word says that they are damaged, and in sums of sparse codecs nothing happens. The guards of
// DeviceArray tell whether anything outside is touched.
void expect_as_cpu(CodecPair& pair, const Bytes& damaged, std::size_t count) {
  const DeviceArray<std::byte> bytes(damaged);
  const Floats before = random_values(count, 3);
  const DeviceArray<float> sum(before);
  Floats expected = before;
  const bool is_right = pair.cpu->decode_add(damaged, 1.0F, expected).has_value() &&
                        damaged.size() <= pair.device->max_bytes(count);
  const Result<void> decoded =
      pair.device->decode_add({.bytes = bytes.data(), .size = damaged.size()}, sum.data(), count);
  ASSERT_EQ(pair.were_encodings() && decoded.has_value(), is_right);
  if (is_right) {
    ASSERT_TRUE(same_values(sum.read(), expected));
    return;
  }
  if (!decoded) {
    EXPECT_EQ(decoded.error().code, ErrorCode::kCorrupt);
  }
  if (!pair.device->is_fixed_size()) {
    ASSERT_TRUE(same_values(sum.read(), before));
  }
}

TEST(DeviceCodec, RefusesWhatTheCpuRefuses) {
  Rng rng(9);
  for (const std::string& text : device_codec_texts()) {
    for (const std::size_t count : {1U, 33U, 700U, 5000U}) {
      CodecPair pair(text, count);
      const Bytes right = pair.encode_on_cpu(random_values(count, count));
      for (int round = 0; round < 40; ++round) {
        SCOPED_TRACE(testing::Message() << text << ", " << count << ", round " << round);
        Bytes damaged = right;
        switch (round % 4) {
          case 0:
            damaged[rng.below(damaged.size())] ^= std::byte{1} << rng.below(8);
            break;
          case 1:
            for (int i = 0; i < 4; ++i)
              damaged[rng.below(damaged.size())] = static_cast<std::byte>(rng.next());
            break;
          case 2:
            damaged.resize(rng.below(2 * damaged.size()));
            break;
          case 3:
            // Behind a right header.
            for (std::size_t i = 6; i < damaged.size(); ++i)
              damaged[i] = static_cast<std::byte>(rng.next());
            break;
        }
        expect_as_cpu(pair, damaged, count);
        if (testing::Test::HasFailure()) return;
      }
    }
  }
}

// Headers of sparse encodings with every kind of wrong number.
TEST(DeviceCodec, RefusesSparseHeadersThatAreWrong) {
  constexpr std::size_t kCount = 3000;
  Rng rng(10);
  CodecPair pair("topk:0.05", kCount);
  const Bytes right = pair.encode_on_cpu(random_values(kCount, 2));
  ASSERT_EQ(right[0], std::byte{1});
  for (unsigned form = 0; form < 5; ++form)
    for (unsigned parameter = 0; parameter < 34; ++parameter)
      for (const std::uint32_t entries : {0U, 1U, 149U, 150U, 151U, 3000U, 3001U, 0xFFFFFFFFU}) {
        SCOPED_TRACE(testing::Message() << form << ", " << parameter << ", " << entries);
        Bytes damaged = right;
        damaged[0] = static_cast<std::byte>(form);
        damaged[1] = static_cast<std::byte>(parameter);
        std::memcpy(&damaged[2], &entries, sizeof entries);
        // The CPU also reads indices that randk draws.
        if (form == 2) damaged.resize(16);
        expect_as_cpu(pair, damaged, kCount);
        if (testing::Test::HasFailure()) return;
      }
}

// A clustered selection takes parameters far from that of its mean gap.
TEST(DeviceCodec, ChoosesTheRiceParametersOfTheCpu) {
  for (const std::size_t count : {300U, 5000U, 66000U})
    for (const std::size_t stride : {1U, 2U, 3U, 17U, 250U, 4000U, 60000U})
      for (const std::size_t cluster : {1U, 5U, 64U, 700U}) {
        SCOPED_TRACE(testing::Message() << count << ", " << stride << ", " << cluster);
        Floats values(count);
        for (std::size_t i = 0; i < count; ++i)
          if (i / cluster % stride == stride - 1) values[i] = 1 + static_cast<float>(i % 7);
        CodecPair pair("threshold:0.5", count);
        const DeviceArray<float> gradient(values);
        const DeviceArray<std::byte> out(pair.device->max_bytes(count));
        ASSERT_TRUE(pair.device->encode(gradient.data(), count, out.data()));
        const Bytes bytes = pair.encoding(out);
        ASSERT_TRUE(bytes == pair.encode_on_cpu(values));
        expect_as_cpu(pair, bytes, count);
      }
}

// The sample misses the large values, or sees only them; all values are equal.
TEST(DeviceCodec, TopkIsThatOfTheCpuWhereTheSampleMisleads) {
  for (const std::string text : {"topk:0.01", "topk:0.01,exact", "topk:0.3"})
    for (const std::size_t count : {1000U, 65536U, 200000U})
      for (int kind = 0; kind < 4; ++kind) {
        SCOPED_TRACE(testing::Message() << text << ", " << count << ", kind " << kind);
        CodecPair pair(text, count);
        Floats values(count);
        for (std::size_t i = 0; i < count; ++i) {
          const bool is_sampled = i % 100 == 0;
          values[i] = kind == 2   ? -0.5F
                      : kind == 3 ? static_cast<float>(i % 5) - 2
                                  : (is_sampled == (kind == 1) ? 1.0F : 1e-3F) +
                                        1e-7F * static_cast<float>(i % 1000);
        }
        const DeviceArray<float> gradient(values);
        const DeviceArray<std::byte> out(pair.device->max_bytes(count));
        ASSERT_TRUE(pair.device->encode(gradient.data(), count, out.data()));
        ASSERT_TRUE(pair.encoding(out) == pair.encode_on_cpu(values));
      }
}

TEST(DeviceCodec, ServesShorterRunsThanItWasMadeFor) {
  for (const std::string text : {"int8", "sign", "topk", "threshold:1"}) {
    CodecPair pair(text, 5000);
    const DeviceArray<float> gradient(random_values(5001, 1));
    const DeviceArray<std::byte> out(pair.device->max_bytes(5001));
    for (const std::size_t count : {5000U, 0U, 7U, 600U, 4999U}) {
      SCOPED_TRACE(testing::Message() << text << ", " << count);
      const Floats values = gradient.read(count);
      ASSERT_TRUE(pair.device->encode(gradient.data(), count, out.data()));
      ASSERT_TRUE(pair.encoding(out) == pair.encode_on_cpu(values));
    }
    const auto longer = pair.device->encode(gradient.data(), 5001, out.data());
    ASSERT_FALSE(longer);
    EXPECT_EQ(longer.error().code, ErrorCode::kInvalid);
    const auto unaligned = pair.device->encode(gradient.data(), 100, out.data() + 4);
    ASSERT_FALSE(unaligned);
    EXPECT_EQ(unaligned.error().code, ErrorCode::kInvalid);
  }
}

TEST(DeviceCodec, RefusesCodecsThatDevicesDoNotHave) {
  for (const std::string text :
       {"qsgd", "ternary", "natural", "onebit-adam:1", "randk:0.1", "dgc:0.01", "powersgd:2",
        "auto", "sign:128,vote", "int8+rans", "topk:0.01+zstd"}) {
    SCOPED_TRACE(text);
    const auto spec = plan::parse_codec(text);
    ASSERT_TRUE(spec) << spec.error().message;
    const auto made = make_device_codec(*spec, 100, {}, nullptr, codec_gpu());
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, ErrorCode::kInvalid);
  }
}

TEST(DeviceCodec, WorksOnTheStreamOfTheMoment) {
  CodecPair pair("int8", 4096);
  const Floats values = random_values(4096, 4);
  const DeviceArray<float> gradient(values);
  const DeviceArray<std::byte> out(pair.cpu->max_bytes(4096));
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  codec_gpu().use_stream(stream);
  ASSERT_TRUE(pair.device->encode(gradient.data(), 4096, out.data()));
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_TRUE(out.read() == pair.encode_on_cpu(values));
  codec_gpu().use_stream(nullptr);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

// An error of a codec is one of the device: later calls return it, too.
TEST(DeviceCodec, ErrorsOfCudaNameTheGpuAndStay) {
  const auto gpu = CudaDevice::open(0);
  ASSERT_TRUE(gpu) << gpu.error().message;
  const auto codec = (*gpu)->make_codec(device_spec("int8", /*feedback=*/false), 4096, {}, nullptr);
  ASSERT_TRUE(codec) << codec.error().message;
  const Result<void> failed = (*codec)->decode_mean({}, nullptr, 1);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::kSystem);
  EXPECT_THAT(failed.error().message, testing::AllOf(testing::HasSubstr(", GPU 0, failed while "),
                                                     testing::HasSubstr("(cudaErrorInvalidValue: "),
                                                     testing::HasSubstr("restart this worker")));
  const Result<void> later = (*gpu)->wait(soon());
  ASSERT_FALSE(later);
  EXPECT_EQ(later.error().message, failed.error().message);
}

}  // namespace
}  // namespace tally::cuda
