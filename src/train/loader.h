#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "data/dataset.h"
#include "data/order.h"
#include "tally/deadline.h"
#include "tally/error.h"

namespace tally::train {

struct LoaderOptions {
  // Threads that read ahead; 0: next() reads on the caller's thread.
  int threads = 1;
  // Batches that may be ready or being read, beside the batch that the caller has.
  int prefetch = 4;
  // Seed of augmentation. The augmentation of a sample depends on seed, epoch and index only, so it
  // is the same for any number of threads and workers.
  std::uint64_t seed = 1;
  // Allocates the memory of batches, such as pinned memory, from which GPUs copy while the caller
  // goes on. Called in the constructor only. Empty: the heap.
  std::function<std::shared_ptr<std::byte>(std::size_t bytes)> allocate = {};
};

// Inputs and targets, each a contiguous array of samples. `samples` is 0 if the worker's part of a
// step is empty.
struct Batch {
  std::uint64_t samples = 0;
  std::span<std::byte> input;
  std::span<std::byte> target;
  bool last_of_epoch = false;
  data::Position after;  // the position to continue from after this batch
};

// Reads a worker's batches ahead in threads, epoch after epoch without end. Batches are returned in
// the order of `order`, independent of the order in which threads finish. Memory: prefetch + 1
// batches, which are reused. The dataset must outlive the loader, whose destructor waits for
// samples that are being read. Threads: one caller.
class Loader final {
 public:
  // `threads` must not be negative; `prefetch` must be positive.
  Loader(const data::Dataset& dataset, data::Order order, const LoaderOptions& options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The next batch. The caller may read and change its memory until the next call. Waits as long as
  // the dataset takes to read it. If the dataset fails, its Error replaces the batch, and all
  // further calls return it.
  Result<Batch> next();
  // The position after the last returned batch, for checkpoints.
  data::Position position() const;
  // Total time that next() has waited for data.
  Duration waited() const;

 private:
  class Worker;
  std::unique_ptr<Worker> worker_;
};

}  // namespace tally::train
