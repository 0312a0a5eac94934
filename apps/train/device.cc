#include "apps/train/device.h"

#include <torch/torch.h>

#include <algorithm>

#include "adapters/torch/server_embeddings.h"
#include "adapters/torch/tensors.h"
#include "apps/train/device_texts.h"
#include "base/errors.h"
#include "recipes/model.h"

namespace tally::app {
namespace {

#if TORCH_VERSION_MAJOR >= 2
namespace warnings = c10::WarningUtils;
#else
namespace warnings = c10::Warning;
#endif

class NoWarnings final : public c10::WarningHandler {
 public:
#if TORCH_VERSION_MAJOR >= 2
  void process(const c10::Warning& /*warning*/) override {}
#else
  void process(const c10::SourceLocation& /*from*/, const std::string& /*text*/,
               bool /*verbatim*/) override {}
#endif
};

}  // namespace

// libtorch warns of a driver that it cannot use; check_device() tells that those who asked for a
// GPU.
int cuda_devices() {
  static const int count = [] {
    NoWarnings none;
    const warnings::WarningHandlerGuard guard(&none);
    return torch::cuda::is_available() ? static_cast<int>(torch::cuda::device_count()) : 0;
  }();
  return count;
}

bool uses_cuda(const std::string& device) {
  return device == "cuda" || (device == "auto" && cuda_devices() > 0);
}

bool any_uses_cuda(const std::vector<std::string>& devices) {
  return std::any_of(devices.begin(), devices.end(), uses_cuda);
}

// libtorch says why it has no GPU only when it is asked to use one.
Result<void> check_device(const std::string& device) {
  if (device != "cuda" || cuda_devices() > 0) return {};
  std::string message = "No CUDA GPUs are available";
  NoWarnings none;
  const warnings::WarningHandlerGuard guard(&none);
  try {
    torch::empty({1}, at::kCUDA);
  } catch (const c10::Error& error) {
    message = error.what_without_backtrace();
  } catch (const std::exception& error) {
    message = error.what();
  }
  return invalid("--device cuda: {}", no_gpu_text(message));
}

Result<void> check_graphs(bool graphs, const std::vector<std::string>& devices) {
  if (!graphs || any_uses_cuda(devices)) return {};
  return invalid(
      "--graphs: needs a GPU, and no worker has one: leave it out or give --device cuda");
}

std::string why_no_graphs(const std::vector<std::string>& devices) {
  if (std::all_of(devices.begin(), devices.end(), uses_cuda)) return {};
  return "in a job with workers on the CPU gradients leave the GPU in every step";
}

void allow_tf32() { at::globalContext().setFloat32MatmulPrecision(std::string("high")); }

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
