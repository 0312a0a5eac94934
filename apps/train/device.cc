#include "apps/train/device.h"

#include <torch/torch.h>

#include "adapters/torch/server_embeddings.h"
#include "adapters/torch/tensors.h"
#include "base/errors.h"
#include "recipes/model.h"

namespace tally::app {

int cuda_devices() {
  return torch::cuda::is_available() ? static_cast<int>(torch::cuda::device_count()) : 0;
}

bool uses_cuda(const std::string& device) {
  return device == "cuda" || (device == "auto" && cuda_devices() > 0);
}

Result<void> check_device(const std::string& device) {
  if (device != "cuda" || cuda_devices() > 0) return {};
  return invalid("--device cuda: libtorch sees no GPU here; --device cpu does without");
}

Result<void> check_precision(const std::string& precision, const std::string& device) {
  if (precision != "float16" || uses_cuda(device)) return {};
  return invalid(
      "--precision float16: libtorch computes float16 on GPUs only; --precision bfloat16 works "
      "here");
}

std::vector<checkpoint::TensorInfo> tensors_of(const recipes::Recipe& recipe,
                                               const data::Dataset& dataset) {
  const std::shared_ptr<recipes::Model> model = recipe.make_model(dataset.preprocessing());
  std::vector<checkpoint::TensorInfo> infos;
  for (const adapter::NamedTensor& named : adapter::all_tensors_of(*model))
    infos.push_back(adapter::info_of(named));
  return infos;
}

std::vector<std::string> sparse_tables_of(const recipes::Recipe& recipe,
                                          const data::Dataset& dataset) {
  const std::shared_ptr<recipes::Model> model = recipe.make_model(dataset.preprocessing());
  return adapter::embedding_names_of(*model);
}

std::uint64_t parameters_of(const recipes::Recipe& recipe, const data::Dataset& dataset) {
  const std::shared_ptr<recipes::Model> model = recipe.make_model(dataset.preprocessing());
  std::uint64_t count = 0;
  for (const adapter::NamedTensor& parameter : adapter::tensors_of(*model).trained)
    count += static_cast<std::uint64_t>(parameter.tensor.numel());
  return count;
}

void set_threads(int threads) { at::set_num_threads(threads); }

}  // namespace tally::app
