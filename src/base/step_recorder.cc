#include "base/step_recorder.h"

#include <algorithm>

namespace tally {

void StepRecorder::set_figure(std::string_view name, double value) {
  MutexLock lock(mutex_);
  const auto known = std::find_if(figures_.begin(), figures_.end(),
                                  [name](const Figure& figure) { return figure.name == name; });
  if (known != figures_.end())
    known->value = value;
  else if (figures_.size() < kMaxFigures)
    figures_.push_back({.name = std::string(name), .value = value});
}

void StepRecorder::add_phase(std::string_view name, TimePoint started, TimePoint ended) {
  MutexLock lock(mutex_);
  if (phases_.size() == kMaxPhases) phases_.pop_front();
  phases_.push_back({.name = std::string(name), .started = started, .ended = ended});
}

std::vector<Figure> StepRecorder::figures() const {
  MutexLock lock(mutex_);
  return figures_;
}

std::vector<Phase> StepRecorder::phases() const {
  MutexLock lock(mutex_);
  return {phases_.begin(), phases_.end()};
}

}  // namespace tally
