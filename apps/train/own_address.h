#pragma once
#include <string>

#include "tally/error.h"

namespace tally::app {

// Returns the local address of connections to `host`, a name or an address. Sends nothing. kSystem
// if there is no route.
Result<std::string> address_towards(const std::string& host);

}  // namespace tally::app
