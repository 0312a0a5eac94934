#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "tally/error.h"

// The option --device as text, and sentences for what libtorch says about GPUs. Pure: no libtorch.
namespace tally::app {

// The words of --device, each auto, cpu or cuda: "cuda", or "cuda,cpu,cpu". kInvalid for any other
// text.
Result<std::vector<std::string>> parse_devices(std::string_view text);

// One word for each worker, in the order of ranks. `words` are one word for all workers, one for
// each worker, or one for each host. `on_hosts` are the numbers of workers on each host; where the
// hosts are not known, it has the number of all workers. kInvalid for another number of words.
Result<std::vector<std::string>> devices_of_workers(const std::vector<std::string>& words,
                                                    const std::vector<int>& on_hosts);

// Why libtorch has no GPU here, from the message with which it refuses to use one: the text that
// follows "--device cuda: ".
std::string no_gpu_text(std::string_view message);

// The sentence for the failure of a GPU or for its exhausted memory, from a message of libtorch or
// of our own calls of CUDA; empty for other messages.
std::string gpu_failure_text(std::string_view message);

// The sentence for a failure in libtorch: that of gpu_failure_text(), and otherwise the first line
// of its message, which it follows by a stack.
std::string torch_failure_text(std::string_view message);

}  // namespace tally::app
