#pragma once
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include <ATen/record_function.h>

namespace tally::adapter {

// While the object lives, calls used(p) before an operation of libtorch in this thread reads a
// tensor in the memory of parameter p. It does so for every such operation, views included. Reads
// that bypass libtorch's dispatcher are not seen. `used` must not throw: libtorch would only print
// the exception. The thread that creates the object destroys it; several objects may end in any
// order.
class FirstUse final {
 public:
  // memory[p] is that of parameter p; in any order. Empty spans are ignored.
  FirstUse(const std::vector<std::span<const std::byte>>& memory,
           std::function<void(std::size_t)> used);
  ~FirstUse();
  FirstUse(const FirstUse&) = delete;
  FirstUse& operator=(const FirstUse&) = delete;

  // Called when an operation is about to read this address.
  void read(const void* address) const;

 private:
  struct Place {
    const std::byte* begin = nullptr;
    const std::byte* end = nullptr;
    std::size_t parameter = 0;
  };

  std::vector<Place> places_;  // sorted by address
  const std::function<void(std::size_t)> used_;
  at::CallbackHandle handle_ = 0;
};

}  // namespace tally::adapter
