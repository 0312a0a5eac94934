#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "data/dataset.h"
#include "data/order.h"
#include "tally/deadline.h"
#include "tally/error.h"

namespace tally::train {

struct LoaderOptions {
  // Threads that read ahead; 0: next() reads, on the caller's thread.
  int threads = 1;
  // Batches that may be ready or being read, beside the one that was given out.
  int prefetch = 4;
  // Of augmentation: what happens to a sample is by seed, epoch and index, so the same however many
  // threads and workers.
  std::uint64_t seed = 1;
};

// Samples behind each other, inputs and targets each. Where the worker's part of a step is empty,
// `samples` is 0.
struct Batch {
  std::uint64_t samples = 0;
  std::span<std::byte> input;
  std::span<std::byte> target;
  bool last_of_epoch = false;
  data::Position after;  // where to go on after this batch
};

// Reads a worker's batches ahead in threads, epoch after epoch without end, in the order of `order`
// whoever reads first. Memory: prefetch + 1 batches, used again and again. Threads: one caller; the
// dataset must outlive the loader, whose destructor waits for samples that are being read.
class Loader final {
 public:
  // `threads` is not negative, `prefetch` is positive.
  Loader(const data::Dataset& dataset, data::Order order, const LoaderOptions& options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The next batch; its memory is the caller's, to change too, until the next call. Waits as long
  // as the dataset takes to read it. An Error of the dataset comes in place of the batch that it
  // spoiled, and from then on always.
  Result<Batch> next();
  // After the batch last given out: what a checkpoint stores.
  data::Position position() const;
  // Time spent in next() for data that were not there yet, all in all.
  Duration waited() const;

 private:
  class Worker;
  std::unique_ptr<Worker> worker_;
};

}  // namespace tally::train
