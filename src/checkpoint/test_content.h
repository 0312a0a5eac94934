#pragma once
// For tests: content whose bytes are a function of step, tensor and offset.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/check.h"
#include "base/rng.h"
#include "checkpoint/layout.h"
#include "tally/checkpoint.h"

namespace tally::checkpoint {

// A temporary folder, removed by the destructor.
class TestFolder final {
 public:
  TestFolder() : path_(std::filesystem::temp_directory_path().string() + "/tally_test_XXXXXX") {
    TALLY_CHECK(::mkdtemp(path_.data()) != nullptr);
  }
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  std::filesystem::path path() const { return path_; }

 private:
  std::string path_;
};

// Several types and shapes: odd sizes, a scalar, an empty tensor, a name with quotes and letters
// outside ASCII.
inline std::vector<TensorInfo> test_tensors() {
  return {{"conv.weight", DataType::kFloat32, {4, 3, 5}},
          {"mask", DataType::kUInt8, {7}},
          {"steps", DataType::kInt64, {}},
          {"none", DataType::kFloat32, {3, 0, 2}},
          {"half", DataType::kBFloat16, {33}},
          {"a \"name\" \\ \xC3\xBC", DataType::kFloat64, {2, 2}}};
}
inline std::vector<TensorInfo> test_state_tensors() {
  return {{"conv.weight/exp_avg", DataType::kFloat32, {4, 3, 5}},
          {"conv.weight/exp_avg_sq", DataType::kFloat32, {4, 3, 5}},
          {"odd@name@3", DataType::kFloat32, {11}}};
}

// The bytes of a tensor at this step.
inline std::vector<std::byte> bytes_of(const TensorInfo& tensor, std::uint64_t step) {
  std::uint64_t seed = step;
  for (const char letter : tensor.name) seed = seed * 31 + static_cast<unsigned char>(letter);
  Rng rng(seed);
  std::vector<std::byte> bytes(*element_count(tensor) * size_of(tensor.type));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng.next());
  return bytes;
}

// One rank's content and the memory of its pieces. pieces_of() gives each rank two pieces of each
// tensor, of unequal sizes.
struct OwnedContent {
  Content content;
  std::vector<std::vector<std::byte>> memory;
};

inline std::vector<Piece> pieces_of(const std::vector<TensorInfo>& tensors, Rank rank, int ranks,
                                    std::uint64_t step,
                                    std::vector<std::vector<std::byte>>& memory) {
  std::vector<Piece> pieces;
  for (std::size_t index = 0; index < tensors.size(); ++index) {
    memory.push_back(bytes_of(tensors[index], step));
    const std::size_t element = size_of(tensors[index].type);
    const std::size_t count = memory.back().size() / element;
    // Cut the tensor into 2 * ranks parts; rank r has the parts r and 2 * ranks - 1 - r.
    const auto parts = static_cast<std::size_t>(2 * ranks);
    for (const int part : {rank, 2 * ranks - 1 - rank}) {
      const std::size_t first = count * static_cast<std::size_t>(part) / parts;
      const std::size_t end = count * static_cast<std::size_t>(part + 1) / parts;
      pieces.push_back(
          {.tensor = index,
           .first = first,
           .bytes = std::span(memory.back()).subspan(first * element, (end - first) * element)});
    }
  }
  return pieces;
}

inline std::string test_state(std::uint64_t step) {
  return fmt::format(R"({{"plan":"home=group","position":{{"epoch":1,"samples":{}}}}})", step * 64);
}
inline std::string test_rank_state(Rank rank) {
  return std::string("random\0state of ", 16) + std::to_string(rank);
}

inline OwnedContent test_content(Rank rank, int ranks, std::uint64_t step) {
  OwnedContent owned;
  owned.memory.reserve(64);
  owned.content = {.step = step, .tensors = test_tensors(), .state_tensors = test_state_tensors()};
  owned.content.model = pieces_of(owned.content.tensors, rank, ranks, step, owned.memory);
  owned.content.optimizer = pieces_of(owned.content.state_tensors, rank, ranks, step, owned.memory);
  if (rank == 0) owned.content.state = test_state(step);
  owned.content.rank_state = test_rank_state(rank);
  return owned;
}

// Expects that the checkpoint has the test_content() of all ranks.
inline void expect_content(const std::filesystem::path& path, std::uint64_t step, int ranks) {
  const auto reader = Reader::open(path);
  ASSERT_TRUE(reader.has_value()) << to_string(reader.error());
  const auto whole = (*reader)->verify();
  ASSERT_TRUE(whole.has_value()) << to_string(whole.error());
  EXPECT_EQ((*reader)->step(), step);
  ASSERT_EQ((*reader)->ranks(), ranks);
  EXPECT_EQ((*reader)->tensors(), test_tensors());
  EXPECT_EQ((*reader)->state_tensors(), test_state_tensors());
  EXPECT_EQ((*reader)->state(), test_state(step));
  for (Rank rank = 0; rank < ranks; ++rank)
    EXPECT_EQ(*(*reader)->rank_state(rank), test_rank_state(rank));
  for (const TensorInfo& tensor : test_tensors()) {
    std::vector<std::byte> bytes(bytes_of(tensor, step).size());
    ASSERT_TRUE((*reader)->read(tensor.name, 0, bytes).has_value()) << tensor.name;
    EXPECT_EQ(bytes, bytes_of(tensor, step)) << tensor.name;
  }
  for (const TensorInfo& tensor : test_state_tensors()) {
    std::vector<std::byte> bytes(bytes_of(tensor, step).size());
    ASSERT_TRUE((*reader)->read_state(tensor.name, 0, bytes).has_value()) << tensor.name;
    EXPECT_EQ(bytes, bytes_of(tensor, step)) << tensor.name;
  }
}

}  // namespace tally::checkpoint
