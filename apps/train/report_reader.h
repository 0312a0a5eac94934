#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "apps/train/report.h"
#include "tally/error.h"

namespace tally::app {

// A record and the name of its run.
struct NamedRecord {
  std::string name;
  TrainingRecord record;
};

// Returns the record that to_json() turned into `json`; null values become NaN. Only recipe, steps
// and points must be present. kInvalid, with the name of the member, if one has another type.
Result<TrainingRecord> record_of(const nlohmann::ordered_json& json);

// Reads the lines that `tally train --json` appended to a file. A run has the name of its file
// without the extension, and the number of its line if there are several. kInvalid, with file and
// line, if a line is no record or there are none; kSystem if the file cannot be read.
Result<std::vector<NamedRecord>> read_records(const std::filesystem::path& file);

}  // namespace tally::app
