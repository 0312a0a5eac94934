#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "tally/error.h"

namespace tally::bench::train {

enum class Family : std::uint8_t { kMlp, kCnn, kGpt, kResnet };
enum class Update : std::uint8_t { kSgd, kAdamW };

// A model to train: its sizes, batch and optimizer. models.cc and python_worker.py build the same
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
      stages;                      // cnn: channels of the convolutions between two poolings
  std::int64_t layers = 0;         // gpt
  std::int64_t width = 0;          // gpt
  std::int64_t heads = 0;          // gpt
  std::array<int, 4> blocks = {};  // resnet: of each stage
  Update update = Update::kSgd;
  double rate = 0.01;
  double momentum = 0.9;  // sgd
  double beta2 = 0.999;   // adamw
  double weight_decay = 0;

  // The unit of throughput, and the units in a worker's batch: samples, for gpt tokens.
  const char* unit() const { return family == Family::kGpt ? "tokens" : "samples"; }
  std::int64_t units() const { return family == Family::kGpt ? batch * input.front() : batch; }
};

// How all contenders of a comparison compute.
struct Computation {
  std::string device = "cpu";         // cpu, cuda
  std::string precision = "float32";  // float32; bfloat16: by autocast
  bool tf32 = false;                  // on a GPU, in matrix products too; cuDNN has it by default
  bool channels_last = false;         // in the memory of pictures

  bool on_gpu() const { return device == "cuda"; }
};

// Finds mlp, cnn, gpt, resnet18, gpt10m; and tiny-mlp, tiny-cnn, tiny-gpt, tiny-resnet and
// tiny-adamw, which test the benchmark itself. kInvalid: no such model.
Result<ModelFacts> find_model(std::string_view name);

// Returns the format that python_worker.py reads.
nlohmann::ordered_json to_json(const ModelFacts& facts);

}  // namespace tally::bench::train
