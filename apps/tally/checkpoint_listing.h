#pragma once
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "tally/checkpoint.h"

namespace tally::app {

// The contents of a checkpoint.
struct CheckpointFacts {
  std::string path;
  std::string damage;  // empty: whole
  // False if the damage prevents reading; the fields below are then empty.
  bool readable = false;
  std::uint64_t step = 0;
  int ranks = 0;
  std::vector<checkpoint::TensorInfo> tensors;
  std::vector<checkpoint::TensorInfo> state_tensors;
  std::string state;  // JSON
};

// Reads and verifies every byte.
CheckpointFacts facts_of(const std::filesystem::path& path);

std::string listing(const CheckpointFacts& facts);
nlohmann::json to_json(const CheckpointFacts& facts);

}  // namespace tally::app
