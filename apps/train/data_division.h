#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "apps/train/report.h"
#include "data/order.h"
#include "tally/error.h"

namespace tally::app {

// Settings of the division, equal on all workers but for `rank`.
struct DivisionOptions {
  data::Strategy strategy = data::Strategy::kPartition;
  std::uint64_t size = 0;  // number of samples in the dataset; at least 1
  std::uint64_t seed = 1;
  std::uint64_t batch = 1;  // samples per worker and step
  Rank rank = 0;
  int workers = 1;  // that the training began with
  // A step has one batch of every worker: the others take the batches of a lost worker into theirs,
  // so that steps, epochs and schedule stay. Otherwise a step is a number of batches of any
  // workers, and the others make more of them.
  bool step_has_all_workers = true;
};

// Which worker trains on which samples while workers may be lost. Every worker has its own copy of
// this object. At each meeting, the workers sum the vectors of report(); take() then finds the same
// lost workers on all of them, and the others divide the data from their common position on. With
// kReplicate every worker has all data: the passes of a lost worker stay missing. A value; it sends
// nothing.
class DataDivision final {
 public:
  explicit DataDivision(const DivisionOptions& options);

  // Continues after `step` of a checkpoint with these positions, one of each worker of that time.
  // With another number of workers every worker continues at the common_position() of them.
  // kInvalid if the dataset has fewer samples than a position.
  Result<void> seek(const std::vector<data::Position>& saved, std::uint64_t step);
  // The batches of this worker from its position on.
  data::Order order() const;

  // Gives every worker that is left its part of a step, in the order of ranks, from `position` on.
  // All workers call it with the same arguments, and are at this position. The parts end with the
  // loss of a worker: the others then have equal ones. Requires workers that make steps together.
  void divide(const data::Position& position, std::vector<std::uint64_t> parts);
  // The samples of a whole step by worker, in the order of ranks.
  std::vector<std::uint64_t> parts() const;

  // The vector of this worker for the sum of all workers. `samples` are those that it has trained
  // on.
  std::vector<double> report(const data::Position& position, std::uint64_t samples) const;
  static std::size_t report_size(int workers) { return 3 * static_cast<std::size_t>(workers); }
  // Takes the sums after `step`. True if workers were lost since the last call; order() has
  // then changed.
  bool take(std::span<const double> sums, std::uint64_t step);

  // In ascending order.
  const std::vector<Rank>& living() const { return living_; }
  // The place of this worker among them.
  int place() const;
  const std::vector<LostWorker>& lost() const { return lost_; }
  // The positions of the living workers at the last take(), in the order of their ranks.
  std::vector<data::Position> positions() const;
  // All samples that workers have reported, those of lost workers included.
  std::uint64_t samples() const;

 private:
  struct Worker {
    data::Position position;
    std::uint64_t samples = 0;
    std::uint64_t step = 0;  // of its last report
  };

  data::Order order_of(Rank rank, const data::Position& position) const;
  Worker& of(Rank rank) { return workers_[static_cast<std::size_t>(rank)]; }
  const Worker& of(Rank rank) const { return workers_[static_cast<std::size_t>(rank)]; }

  DivisionOptions options_;
  std::vector<Worker> workers_;  // by rank
  std::vector<Rank> living_;
  std::vector<std::uint64_t> parts_;  // of divide(); empty: equal parts
  std::vector<LostWorker> lost_;
};

// The mean of the positions: about as many samples are read twice as are left out. Requires at
// least one position.
data::Position common_position(const std::vector<data::Position>& positions, std::uint64_t size);

}  // namespace tally::app
