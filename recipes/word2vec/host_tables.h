#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "collective/topology.h"
#include "recipes/word2vec/chunk.h"
#include "tally/communicator.h"

namespace tally::word2vec {

// Progress of one worker for the others of its host. Only this worker writes it.
struct alignas(64) WorkerProgress {
  std::atomic<std::uint64_t> words;  // of all passes
  std::atomic<double> loss;          // summed over `pairs`
  std::atomic<std::uint64_t> pairs;
};

struct HostProgress {
  std::uint64_t words = 0;
  double loss = 0;
  std::uint64_t pairs = 0;
};

// The pair of tables of a host, in memory that all its workers have mapped, and the progress of
// each worker. All workers read and write the rows without locks: see kernel/skipgram/skipgram.h.
class HostTables final : public Rows {
 public:
  struct Shape {
    std::size_t rows = 0;
    std::size_t dimension = 0;
  };
  // Called by all ranks of the world. Inputs are uniform in +-0.5/dimension, by seed and row number
  // alone; outputs are 0. kExhausted if there is too little memory.
  static Result<std::unique_ptr<HostTables>> make(Communicator& world,
                                                  const collective::Topology& topology,
                                                  const Shape& shape, std::uint64_t seed,
                                                  Deadline by);
  ~HostTables() override;
  HostTables(const HostTables&) = delete;
  HostTables& operator=(const HostTables&) = delete;

  Result<RowTables> fetch(Chunk& chunk) override;
  Result<void> commit() override { return {}; }

  const Shape& shape() const { return shape_; }
  std::size_t stride() const { return stride_; }
  // Returns all rows, inputs and then outputs.
  std::span<float> values() const { return values_; }
  std::span<const float> input(WordId id) const {
    return {values_.data() + id * stride_, shape_.dimension};
  }

  WorkerProgress& own_progress() const { return progress_[static_cast<std::size_t>(local_)]; }
  HostProgress progress() const;
  // Visible to all workers of the host.
  void ask_to_stop() const;
  bool is_asked_to_stop() const;

 private:
  HostTables(const Shape& shape, int local);
  void initialise_part(int locals, std::uint64_t seed);

  const Shape shape_;
  const std::size_t stride_;
  const int local_;
  SharedBuffer own_;  // of the host's first worker; empty for the others
  std::span<float> values_;
  std::span<WorkerProgress> progress_;
  std::atomic<std::uint32_t>* stop_ = nullptr;
};

// Initialises input row `id` with random numbers.
void initialise_row(std::span<float> row, WordId id, std::uint64_t seed);

}  // namespace tally::word2vec
