#pragma once
#include <functional>

#include <c10/core/Event.h>

#include "base/clock.h"

namespace tally::adapter {

// Waits until the GPU has reached the event, which this thread polls. Failure kTimeout, with what
// to do, if that takes longer than any step should.
void wait_for(const c10::Event& event);

// The same for any question; the GPU has the time `limit`.
void wait_until(const std::function<bool()>& is_reached, Duration limit);

}  // namespace tally::adapter
