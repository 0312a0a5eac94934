#pragma once
#include "apps/tally/launch/launch_options.h"

namespace tally::launch {

// Runs a job to its end, restarts included, and reports failures on stderr. Returns the exit code
// of `tally run`: 0; the code of the rank that failed first, or 128 plus its signal;
// kTimeoutExitCode; kTroubleExitCode; 128 plus the signal that interrupted the launcher. Handles
// the signals of the process meanwhile. Called on the main thread.
int run_job(const LaunchOptions& options);

}  // namespace tally::launch
