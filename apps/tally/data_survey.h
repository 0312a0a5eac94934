#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/locate.h"

namespace tally::app {

// What reading all samples of a part of a dataset has shown.
struct PartSurvey {
  std::string name;  // "training", "test"
  std::uint64_t samples = 0;
  data::SampleShape shape;
  std::vector<std::string> classes;
  std::vector<std::uint64_t> histogram;  // samples, or symbols of a text, by label
  // Of targets that are values.
  double least = 0;
  double mean = 0;
  double most = 0;
};

// Reads every sample, in several threads. The first error of the dataset; kSystem if we are
// interrupted.
Result<PartSurvey> survey(const data::Dataset& dataset, const std::string& name);

// As lines: counts, shapes, classes with a histogram over the parts. A text's symbols are counted,
// not listed.
std::string describe(data::Kind kind, const std::vector<PartSurvey>& parts);

}  // namespace tally::app
