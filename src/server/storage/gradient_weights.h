#pragma once
#include <span>
#include <string>
#include <vector>

#include "server/storage/storage.h"

namespace tally::server {

// What each gradient is multiplied with, so that their sum is the mean by weight; all zero if no
// gradient has a weight. kInvalid for a weight that is negative or not finite.
Result<std::vector<double>> shares_of(std::span<const Gradient> gradients);

// "table 'NAME' part 3".
std::string name_of_part(const TableSpec& spec, std::uint32_t part);

}  // namespace tally::server
