#pragma once
#include "apps/tally/launch/launch_options.h"

namespace tally::launch {

// `tally host-agent`: starts the ranks of one host for a launcher, which it hears on stdin and
// answers on stdout. It forwards the output of the ranks and reports how they end. When stdin ends,
// or the launcher is silent for longer than the lease, it kills everything that it or its ranks
// started, and ends. Returns the exit code.
int run_agent();

// Runs a job to its end, restarts included, and reports failures on stderr. Returns the exit code
// of `tally run`: 0; the code of the rank that failed first, or 128 plus its signal;
// kTimeoutExitCode; kTroubleExitCode; 128 plus the signal that interrupted the launcher. Handles
// the signals of the process meanwhile. Called on the main thread.
int run_job(const LaunchOptions& options);

}  // namespace tally::launch
