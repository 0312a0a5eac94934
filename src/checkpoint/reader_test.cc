// Files are made byte by byte here, as another program would write them.
#include <array>
#include <fstream>

#include <gmock/gmock.h>

#include "checkpoint/safetensors.h"
#include "checkpoint/test_content.h"

namespace tally::checkpoint {
namespace {

// A safetensors file: the length of the header in 8 little-endian bytes, the header, the data.
std::string safetensors(std::string_view header, std::string_view data) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(std::uint64_t{header.size()} >> (8 * i));
  return bytes.append(header).append(data);
}

class WeightsFile : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& bytes) const {
    const std::filesystem::path path = folder_.path() / "x.safetensors";
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    return path;
  }
  Error refusal(const std::string& bytes) const {
    const auto reader = Reader::open(write(bytes));
    EXPECT_FALSE(reader.has_value());
    return reader.has_value() ? Error{} : reader.error();
  }

  const TestFolder folder_;
};

// Python's save_file() adds metadata or none, orders tensors as it likes, and pads with spaces.
constexpr const char* kHeader = R"({"__metadata__":{"format":"pt"},)"
                                R"("fc.weight":{"dtype":"F32","shape":[2,1],"data_offsets":[1,9]},)"
                                R"("mask":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]},)"
                                R"("scale":{"dtype":"BF16","shape":[],"data_offsets":[9,11]}}   )";
// 1, then 1.0 and -2.0 as float32, then 1.0 as bfloat16; little-endian.
constexpr std::string_view kData("\x01\x00\x00\x80\x3f\x00\x00\x00\xc0\x80\x3f", 11);

TEST_F(WeightsFile, OpensWithItsTensorsByName) {
  const auto opened = Reader::open(write(safetensors(kHeader, kData)));
  ASSERT_TRUE(opened.has_value()) << to_string(opened.error());
  const Reader& reader = **opened;
  EXPECT_EQ(reader.step(), 0U);
  EXPECT_EQ(reader.ranks(), 1);
  EXPECT_EQ(reader.state(), "");
  EXPECT_THAT(reader.state_tensors(), testing::IsEmpty());
  EXPECT_THAT(reader.tensors(),
              testing::ElementsAre(TensorInfo{"mask", DataType::kUInt8, {1}},
                                   TensorInfo{"fc.weight", DataType::kFloat32, {2, 1}},
                                   TensorInfo{"scale", DataType::kBFloat16, {}}));
  std::vector<float> weight(2);
  ASSERT_TRUE(reader.read("fc.weight", 0, std::as_writable_bytes(std::span(weight))).has_value());
  EXPECT_THAT(weight, testing::ElementsAre(1.0F, -2.0F));
  const auto last = std::span(weight).first(1);
  ASSERT_TRUE(reader.read("fc.weight", 1, std::as_writable_bytes(last)).has_value());
  EXPECT_EQ(weight[0], -2.0F);
  std::uint16_t scale = 0;
  ASSERT_TRUE(reader.read("scale", 0, std::as_writable_bytes(std::span(&scale, 1))).has_value());
  EXPECT_EQ(scale, 0x3f80);
  EXPECT_TRUE(reader.verify().has_value());
}

TEST_F(WeightsFile, HasNoStateAndNoElementsBeyondItsTensors) {
  const auto opened = Reader::open(write(safetensors(kHeader, kData)));
  ASSERT_TRUE(opened.has_value()) << to_string(opened.error());
  std::array<std::byte, 8> out{};
  const auto code = [](const auto& outcome) {
    return outcome.has_value() ? ErrorCode{} : outcome.error().code;
  };
  EXPECT_EQ(code((*opened)->rank_state(0)), ErrorCode::kInvalid);
  EXPECT_EQ(code((*opened)->read_state("fc.weight", 0, out)), ErrorCode::kInvalid);
  EXPECT_EQ(code((*opened)->read("other", 0, out)), ErrorCode::kInvalid);
  EXPECT_EQ(code((*opened)->read("fc.weight", 1, out)), ErrorCode::kInvalid);
  EXPECT_EQ(code((*opened)->read("fc.weight", ~std::uint64_t{0}, out)), ErrorCode::kInvalid);
  EXPECT_EQ(code((*opened)->read("fc.weight", 0, std::span(out).first(3))), ErrorCode::kInvalid);
}

TEST_F(WeightsFile, ThatIsNotWholeIsRefusedWithItsName) {
  const std::string whole = safetensors(kHeader, kData);
  for (const std::size_t bytes : {0U, 7U, 8U, 20U}) {
    const Error error = refusal(whole.substr(0, bytes));
    EXPECT_EQ(error.code, ErrorCode::kCorrupt) << bytes;
    EXPECT_THAT(error.message, testing::HasSubstr("x.safetensors: ")) << bytes;
    EXPECT_THAT(error.message, testing::HasSubstr("not a safetensors file")) << bytes;
  }
  EXPECT_THAT(refusal(whole.substr(0, whole.size() - 1)).message,
              testing::HasSubstr("the tensors end at 11, the data at 10"));
  EXPECT_THAT(refusal(whole + "x").message, testing::HasSubstr("the data at 12"));
}

TEST_F(WeightsFile, OfAnotherFormatOrTypeIsRefusedWithARemedy) {
  EXPECT_THAT(refusal(std::string("PK\x03\x04", 4) + std::string(100, 'x')).message,
              testing::HasSubstr("write it with safetensors.torch.save_file"));
  EXPECT_THAT(
      refusal(safetensors(R"({"a":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]}})", "x"))
          .message,
      testing::HasSubstr(R"("a": unsupported dtype "F8_E4M3": convert it to F32)"));
  const auto absent = Reader::open(folder_.path() / "absent.safetensors");
  ASSERT_FALSE(absent.has_value());
  EXPECT_THAT(absent.error().message, testing::HasSubstr("no such checkpoint"));
}

TEST_F(WeightsFile, ThatShrinksAfterItWasOpenedFailsToVerifyAndToRead) {
  const auto path = write(safetensors(kHeader, kData));
  const auto opened = Reader::open(path);
  ASSERT_TRUE(opened.has_value()) << to_string(opened.error());
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  EXPECT_FALSE((*opened)->verify().has_value());
  std::uint16_t scale = 0;
  EXPECT_FALSE((*opened)->read("scale", 0, std::as_writable_bytes(std::span(&scale, 1))));
}

// The model file of a checkpoint is a file of weights, too.
TEST_F(WeightsFile, IsAlsoTheModelOfACheckpoint) {
  const auto path = folder_.path() / "model.safetensors";
  const std::vector<TensorInfo> tensors = test_tensors();
  const std::vector<Entry> entries = lay_out(tensors);
  std::string data;
  for (const Entry& entry : entries) data.resize(std::max<std::size_t>(data.size(), entry.end));
  const auto header = encode_header(entries, "pt");
  ASSERT_TRUE(header.has_value());
  std::ofstream(path, std::ios::binary) << *header << data;
  const auto opened = Reader::open(path);
  ASSERT_TRUE(opened.has_value()) << to_string(opened.error());
  EXPECT_THAT((*opened)->tensors(), testing::UnorderedElementsAreArray(tensors));
}

}  // namespace
}  // namespace tally::checkpoint
