#pragma once
#include "server/snapshot/row_snapshots.h"

namespace tally::adapter {
using server::row_snapshot_name;
using server::row_snapshot_of;
}  // namespace tally::adapter
