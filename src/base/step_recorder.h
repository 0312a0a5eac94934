#pragma once
#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "tally/deadline.h"

namespace tally {

// A number that describes the training of a rank, such as its loss.
struct Figure {
  std::string name;
  double value = 0;
  friend bool operator==(const Figure&, const Figure&) = default;
};

// A part of a step, such as the forward pass.
struct Phase {
  std::string name;
  TimePoint started{};
  TimePoint ended{};
  friend bool operator==(const Phase&, const Phase&) = default;
};

// Records the figures of a rank and its last phases, for people who watch the job. Threads: safe.
class StepRecorder final {
 public:
  static constexpr std::size_t kMaxFigures = 16;
  static constexpr std::size_t kMaxPhases = 256;

  // Replaces the figure of that name. Further names than kMaxFigures are ignored.
  void set_figure(std::string_view name, double value);
  // The oldest of more than kMaxPhases phases is dropped.
  void add_phase(std::string_view name, TimePoint started, TimePoint ended);

  std::vector<Figure> figures() const;
  std::vector<Phase> phases() const;  // oldest first

 private:
  mutable Mutex mutex_;
  std::vector<Figure> figures_ TALLY_GUARDED_BY(mutex_);
  std::deque<Phase> phases_ TALLY_GUARDED_BY(mutex_);
};

}  // namespace tally
