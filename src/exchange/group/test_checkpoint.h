#pragma once
// A checkpoint in memory for tests, filled by the ranks of a test.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "tally/checkpoint.h"

namespace tally::exchange {

// All its tensors are float32 state tensors. Threads: safe while it is filled.
class TestCheckpoint final : public checkpoint::Reader {
 public:
  // Declares a tensor that a rank must fill.
  void expect(const std::string& name, const std::vector<std::int64_t>& shape) {
    const MutexLock lock(mutex_);
    room(name, shape);
  }
  void add(const std::string& name, const std::vector<std::int64_t>& shape, std::uint64_t first,
           std::span<const float> values) {
    const MutexLock lock(mutex_);
    Tensor& tensor = room(name, shape);
    ASSERT_LE(first + values.size(), tensor.values.size()) << name;
    for (std::size_t i = 0; i < values.size(); ++i) {
      tensor.values[first + i] = values[i];
      ++tensor.written[first + i];
    }
  }
  // Whether every element was written exactly once.
  bool is_whole() const {
    return std::all_of(tensors_.begin(), tensors_.end(), [](const auto& named) {
      const auto& written = named.second.written;
      return std::all_of(written.begin(), written.end(), [](int times) { return times == 1; });
    });
  }

  const std::filesystem::path& path() const override { return path_; }
  std::uint64_t step() const override { return 0; }
  int ranks() const override { return 1; }
  const std::vector<checkpoint::TensorInfo>& tensors() const override { return none_; }
  const std::vector<checkpoint::TensorInfo>& state_tensors() const override { return infos_; }
  const std::string& state() const override { return state_; }
  Result<std::string> rank_state(Rank /*rank*/) const override { return std::string(); }
  Result<void> read(std::string_view tensor, std::uint64_t /*first*/,
                    std::span<std::byte> /*out*/) const override {
    return missing(tensor);
  }
  Result<void> read_state(std::string_view name, std::uint64_t first,
                          std::span<std::byte> out) const override {
    const auto found = tensors_.find(std::string(name));
    if (found == tensors_.end()) return missing(name);
    const auto& values = found->second.values;
    if (first * sizeof(float) + out.size() > values.size() * sizeof(float)) return missing(name);
    std::memcpy(out.data(), values.data() + first, out.size());
    return {};
  }
  Result<void> verify() const override { return {}; }

 private:
  struct Tensor {
    std::vector<float> values;
    std::vector<int> written;
  };
  static Error missing(std::string_view name) {
    return {.code = ErrorCode::kInvalid, .message = "there is no such " + std::string(name)};
  }
  Tensor& room(const std::string& name, const std::vector<std::int64_t>& shape) {
    Tensor& tensor = tensors_[name];
    if (!tensor.values.empty()) return tensor;
    std::size_t count = 1;
    for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
    tensor.values.resize(count);
    tensor.written.resize(count);
    infos_.push_back({.name = name, .type = DataType::kFloat32, .shape = shape});
    return tensor;
  }

  Mutex mutex_;
  std::map<std::string, Tensor> tensors_;
  std::vector<checkpoint::TensorInfo> infos_;
  const std::filesystem::path path_ = {};
  const std::vector<checkpoint::TensorInfo> none_ = {};
  const std::string state_ = {};
};

}  // namespace tally::exchange
