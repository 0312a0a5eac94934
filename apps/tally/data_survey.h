#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/locate.h"

namespace tally::app {

// Result of reading all samples of a part of a dataset.
struct PartSurvey {
  std::string name;  // "training", "test"
  std::uint64_t samples = 0;
  data::SampleShape shape;
  std::vector<std::string> classes;
  std::vector<std::uint64_t> histogram;  // samples, or symbols of a text, by label
  // For targets that are values:
  double least = 0;
  double mean = 0;
  double most = 0;
};

// Reads every sample, in several threads. Returns the first error of the dataset; kSystem if the
// process is interrupted.
Result<PartSurvey> survey(const data::Dataset& dataset, const std::string& name);

// Returns lines with counts, shapes, and classes with a histogram over the parts, and warns of
// classes with a single sample in the first part. The symbols of a text are counted but not listed.
std::string describe(data::Kind kind, const std::vector<PartSurvey>& parts);

// kInvalid unless a classifier can learn from the part: two classes or more, all with samples.
Result<void> check_classes(data::Kind kind, const PartSurvey& part);

}  // namespace tally::app
