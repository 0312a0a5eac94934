#pragma once
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include <ATen/record_function.h>

namespace tally::adapter {

// While it lives: before an operation of libtorch in this thread reads a tensor whose memory lies
// in parameter p's, calls used(p). As often as that happens, views included; what reads memory
// without libtorch's dispatcher is not seen. `used` must not throw: libtorch would only print it.
// Made and destroyed by one thread, of several in any order.
class FirstUse final {
 public:
  // memory[p] is parameter p's; in no order, and empty ones belong to nobody.
  FirstUse(const std::vector<std::span<const std::byte>>& memory,
           std::function<void(std::size_t)> used);
  ~FirstUse();
  FirstUse(const FirstUse&) = delete;
  FirstUse& operator=(const FirstUse&) = delete;

  // An operation is about to read this address.
  void read(const void* address) const;

 private:
  struct Place {
    const std::byte* begin = nullptr;
    const std::byte* end = nullptr;
    std::size_t parameter = 0;
  };

  std::vector<Place> places_;  // by address
  const std::function<void(std::size_t)> used_;
  at::CallbackHandle handle_ = 0;
};

}  // namespace tally::adapter
