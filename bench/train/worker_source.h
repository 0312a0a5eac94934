#pragma once

namespace tally::bench::train {

// The text of ddp_worker.py, so that the program needs no files beside it.
extern const char* const kDdpWorkerSource;

}  // namespace tally::bench::train
