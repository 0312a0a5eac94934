#pragma once
#include <chrono>

#include "tally/deadline.h"

namespace tally {

// A deadline that a healthy test never reaches, not even on a loaded machine.
inline Deadline soon() { return Deadline::after(std::chrono::seconds(60)); }

}  // namespace tally
