#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "tally/error.h"

namespace tally::bench::train {

enum class Family : std::uint8_t { kMlp, kCnn, kGpt };

// A model to train: its sizes, batch and learning rate. models.cc and ddp_worker.py build the same
// model from it.
struct ModelFacts {
  std::string name;
  Family family = Family::kMlp;
  std::vector<std::int64_t> input;   // shape of one sample; gpt: symbols
  std::vector<std::int64_t> target;  // shape of one sample: {} is one class
  std::int64_t classes = 10;         // gpt: symbols
  std::int64_t batch = 1;            // samples per worker
  std::vector<std::int64_t> widths;  // mlp: of all layers, input and output included
  std::vector<std::vector<std::int64_t>>
      stages;               // cnn: channels of the convolutions between two poolings
  std::int64_t layers = 0;  // gpt
  std::int64_t width = 0;   // gpt
  std::int64_t heads = 0;   // gpt
  double rate = 0.01;
  double momentum = 0.9;

  // The unit of throughput, and the units in a worker's batch: samples, for gpt tokens.
  const char* unit() const { return family == Family::kGpt ? "tokens" : "samples"; }
  std::int64_t units() const { return family == Family::kGpt ? batch * input.front() : batch; }
};

// Finds mlp, cnn, gpt; and tiny-mlp, tiny-cnn, tiny-gpt, which test the benchmark itself. kInvalid:
// no such model.
Result<ModelFacts> find_model(std::string_view name);

// Returns the format that ddp_worker.py reads.
nlohmann::ordered_json to_json(const ModelFacts& facts);

}  // namespace tally::bench::train
