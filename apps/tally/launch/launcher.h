#pragma once
#include "apps/tally/launch/launch_options.h"

namespace tally::launch {

// Runs a job to its end, restarts included, and tells on stderr what went wrong. Returns what
// `tally run` exits with: 0; the code of the rank that failed first, or 128 and its signal;
// kTimeoutExitCode; kTroubleExitCode; 128 and the signal that interrupted us. Signals of this
// process are taken for the time. Called on the main thread.
int run_job(const LaunchOptions& options);

}  // namespace tally::launch
