#pragma once
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "data/preprocessing.h"
#include "tally/error.h"

namespace tally::app {

// The preprocessing of a trained model in the state of its checkpoints, docs/checkpoints.md. Texts
// that are not UTF-8 are written as {"hex": "ff"}.
nlohmann::json preprocessing_json(const data::Preprocessing& preprocessing);

// The reverse. kCorrupt, with the field, for a value that is absent, of the wrong type, or does not
// fit the others.
Result<data::Preprocessing> preprocessing_of(const nlohmann::json& object);

}  // namespace tally::app
