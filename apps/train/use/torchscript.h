#pragma once
#include <torch/script.h>

#include "apps/train/use/trained_model.h"
#include "tally/error.h"

namespace tally::app {

// Makes a TorchScript module of a trained model with its preprocessing, which Python and C++ load
// without Tally. docs/using.md lists its methods. The trained model is its submodule `model`,
// with the names of the checkpoint. The result is compared with the trained model before it is
// returned. kInvalid for models of sparse tables or bytes.
Result<torch::jit::Module> to_torchscript(const TrainedModel& trained);

}  // namespace tally::app
