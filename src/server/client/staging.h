#pragma once
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "tally/error.h"

namespace tally::server {

// Memory that lives as long as the client, zero at first.
using Allocate = std::function<Result<std::span<std::byte>>(std::size_t bytes)>;

// Memory for messages, used again and again: sizes are rounded up to powers of two, so that at most
// half of what was ever needed at once is wasted. Threads: safe.
class Staging {
 public:
  // Without `allocate`: from the heap.
  explicit Staging(Allocate allocate) : allocate_(std::move(allocate)) {}
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // Aligned to 64 bytes. What allocate() says where there is no more.
  Result<std::span<std::byte>> take(std::size_t bytes);
  // What take() gave, as it gave it.
  void give_back(std::span<std::byte> memory);

 private:
  Result<std::span<std::byte>> make(std::size_t bytes) TALLY_REQUIRES(mutex_);

  const Allocate allocate_;
  Mutex mutex_;
  std::map<std::size_t, std::vector<std::span<std::byte>>> free_ TALLY_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<std::byte[]>> heap_ TALLY_GUARDED_BY(mutex_);
};

}  // namespace tally::server
