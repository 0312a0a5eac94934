#pragma once

namespace tally::launch {

// `tally host-agent`: starts the ranks of one host for a launcher, which it hears on stdin and
// answers on stdout. It forwards the output of the ranks and reports how they end. When stdin ends,
// or the launcher is silent for longer than the lease, it kills everything that it or its ranks
// started, and ends. Returns the exit code.
int run_agent();

}  // namespace tally::launch
