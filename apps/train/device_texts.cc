#include "apps/train/device_texts.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <numeric>

#include <fmt/format.h>

#include "base/errors.h"

namespace tally::app {
namespace {

bool has_any(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(), [text](std::string_view part) {
    return text.find(part) != std::string_view::npos;
  });
}

std::string_view first_line(std::string_view text) { return text.substr(0, text.find('\n')); }

// Our own calls of CUDA end their messages with its text, or have the name of its error.
bool is_gpu_memory(std::string_view message) {
  return has_any(message,
                 {"CUDA out of memory", "CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED",
                  "CUDNN_STATUS_ALLOC_FAILED", "cudaErrorMemoryAllocation"}) ||
         first_line(message).ends_with(": out of memory");
}

// Sentences of our own about a GPU, which say what to do.
bool is_sentence(std::string_view message) {
  return has_any(message, {"its memory is full", "of memory were wanted", "(cudaError",
                           "its work was not done after"});
}

// Whether the GPU has failed in the middle of the work: all later calls of CUDA fail, too.
bool is_gpu_failure(std::string_view message) {
  if (has_any(message, {"CUBLAS_STATUS_INVALID_VALUE", "CUBLAS_STATUS_NOT_SUPPORTED"}))
    return false;
  return has_any(message, {"CUDA error:", "CUDA driver error:", "CUDNN_STATUS_EXECUTION_FAILED",
                           "CUDNN_STATUS_INTERNAL_ERROR", "CUDNN_STATUS_MAPPING_ERROR",
                           "an illegal memory access was encountered", "unspecified launch failure",
                           "uncorrectable ECC error", "uncorrectable NVLink error"}) &&
         !is_gpu_memory(message);
}

}  // namespace

Result<std::vector<std::string>> parse_devices(std::string_view text) {
  constexpr std::array<std::string_view, 3> kWords = {"auto", "cpu", "cuda"};
  std::vector<std::string> words;
  for (bool more = true; more;) {
    const std::size_t comma = text.find(',');
    const std::string_view word = text.substr(0, comma);
    if (std::find(kWords.begin(), kWords.end(), word) == kWords.end())
      return invalid("'{}': expected auto, cpu or cuda, or a list of them as in cuda,cpu,cpu",
                     word);
    words.emplace_back(word);
    more = comma != std::string_view::npos;
    if (more) text.remove_prefix(comma + 1);
  }
  return words;
}

Result<std::vector<std::string>> devices_of_workers(const std::vector<std::string>& words,
                                                    const std::vector<int>& on_hosts) {
  const auto workers =
      static_cast<std::size_t>(std::accumulate(on_hosts.begin(), on_hosts.end(), 0));
  if (words.size() == 1) return std::vector<std::string>(workers, words.front());
  if (words.size() == workers) return words;
  if (on_hosts.size() == 1)
    return invalid("{} devices for {} workers: give one for all of them, or one for each",
                   words.size(), workers);
  if (words.size() != on_hosts.size())
    return invalid(
        "{} devices for {} workers on {} hosts: give one for all of them, one for each worker, or "
        "one for each host",
        words.size(), workers, on_hosts.size());
  std::vector<std::string> each;
  for (std::size_t host = 0; host < words.size(); ++host)
    each.insert(each.end(), static_cast<std::size_t>(on_hosts[host]), words[host]);
  return each;
}

std::string no_gpu_text(std::string_view message) {
  if (has_any(message, {"without ATen_cuda", "not linked", "from the 'CUDA' backend",
                        "not compiled with CUDA"}))
    return "this libtorch was built without CUDA: install one with CUDA, or give --device cpu";
  if (has_any(message, {"driver version is insufficient", "too old"}))
    return "the NVIDIA driver is too old for the CUDA of this libtorch: update the driver, or give "
           "--device cpu";
  if (has_any(message, {"no NVIDIA driver", "CUDA driver initialization failed",
                        "driver shutting down", "stub library"}))
    return "the NVIDIA driver is not installed or not loaded: install it until nvidia-smi shows "
           "the GPU, or give --device cpu";
  if (has_any(message, {"no CUDA GPUs are available", "No CUDA GPUs are available",
                        "no CUDA-capable device"}))
    return "libtorch sees no GPU here: check nvidia-smi and CUDA_VISIBLE_DEVICES, or give --device "
           "cpu";
  return fmt::format("libtorch cannot use a GPU here ({}); --device cpu does without",
                     first_line(message));
}

std::string gpu_failure_text(std::string_view message) {
  if (is_gpu_memory(message))
    return "out of GPU memory: a smaller --batch with a larger --accumulate makes the same steps "
           "with less, and so does --precision bfloat16";
  if (is_sentence(message)) return std::string(first_line(message));
  if (has_any(message, {"no kernel image is available"}))
    return "this libtorch has no kernels for this GPU: install one that supports it, or give "
           "--device cpu";
  if (has_any(message, {"device-side assert triggered"}))
    return "the GPU has stopped in a kernel that checks its input, usually because a label or an "
           "index is out of range: check the data; with CUDA_LAUNCH_BLOCKING=1 libtorch names the "
           "operation";
  if (is_gpu_failure(message))
    return fmt::format(
        "the GPU has failed: {}; with CUDA_LAUNCH_BLOCKING=1 libtorch names the "
        "operation",
        first_line(message));
  return {};
}

std::string torch_failure_text(std::string_view message) {
  if (std::string text = gpu_failure_text(message); !text.empty()) return text;
  if (has_any(message, {"allocate memory", "out of memory"}))
    return fmt::format("out of memory: {}", first_line(message));
  return fmt::format("libtorch: {}", first_line(message));
}

}  // namespace tally::app
