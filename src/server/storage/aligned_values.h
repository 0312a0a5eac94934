#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace tally::server {

// Bytes as values: in place where they lie as a T must, otherwise copied. Borrows the bytes.
template <typename T>
class AlignedValues final {
 public:
  explicit AlignedValues(std::span<const std::byte> bytes) : count_(bytes.size() / sizeof(T)) {
    if (reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(T) == 0) {
      data_ = reinterpret_cast<const T*>(bytes.data());
      return;
    }
    copy_.resize(count_);
    std::memcpy(copy_.data(), bytes.data(), count_ * sizeof(T));
  }

  const T* data() const { return copy_.empty() ? data_ : copy_.data(); }
  std::size_t size() const { return count_; }

 private:
  std::size_t count_;
  const T* data_ = nullptr;
  std::vector<T> copy_;
};

}  // namespace tally::server
