#pragma once
#include <string>

#include "tally/error.h"

namespace tally::app {

// The address of this host that connections to `host`, a name or an address, leave from. Nothing is
// sent. kSystem where there is no way to it.
Result<std::string> address_towards(const std::string& host);

}  // namespace tally::app
