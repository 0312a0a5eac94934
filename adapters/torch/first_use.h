#pragma once
#include <cstddef>
#include <functional>
#include <unordered_map>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

namespace tally::adapter {

// While the object lives, calls used(p) before an operation of libtorch in this thread reads a
// tensor that shares the storage of parameter p. It does so for every such operation, views
// included. Reads that bypass libtorch's dispatcher are not seen. `used` must not throw: libtorch
// would only print the exception. The thread that creates the object destroys it; several objects
// may end in any order.
class FirstUse final {
 public:
  FirstUse(const std::vector<at::Tensor>& parameters, std::function<void(std::size_t)> used);
  ~FirstUse();
  FirstUse(const FirstUse&) = delete;
  FirstUse& operator=(const FirstUse&) = delete;

  // Called when an operation is about to read the tensor.
  void read(const at::Tensor& tensor) const;

 private:
  std::unordered_map<const c10::StorageImpl*, std::size_t> index_of_;
  const std::function<void(std::size_t)> used_;
  at::CallbackHandle handle_ = 0;
};

}  // namespace tally::adapter
