#pragma once
#include "server/snapshot/saved_tables.h"

namespace tally::adapter {
using server::check_home_of_rows;
}  // namespace tally::adapter
