#include "adapters/torch/first_use.h"

#include <algorithm>

#include <ATen/core/ivalue.h>

namespace tally::adapter {
namespace {

// libtorch's callbacks are plain functions without a user argument, so each thread keeps a list of
// its objects.
thread_local std::vector<const FirstUse*> of_this_thread;

void read(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage() || !tensor.device().is_cpu()) return;
  const void* const address = tensor.data_ptr();
  for (const FirstUse* const watch : of_this_thread) watch->read(address);
}

std::unique_ptr<at::ObserverContext> before(const at::RecordFunction& operation) {
  for (const c10::IValue& input : operation.inputs()) {
    if (input.isTensor()) {
      read(input.toTensor());
    } else if (input.isTensorList() || input.isOptionalTensorList()) {
      for (const c10::IValue& each : input.toListRef())
        if (each.isTensor()) read(each.toTensor());
    }
  }
  return nullptr;
}

}  // namespace

FirstUse::FirstUse(const std::vector<std::span<const std::byte>>& memory,
                   std::function<void(std::size_t)> used)
    : used_(std::move(used)) {
  for (std::size_t p = 0; p < memory.size(); ++p)
    if (!memory[p].empty())
      places_.push_back({memory[p].data(), memory[p].data() + memory[p].size(), p});
  std::sort(places_.begin(), places_.end(),
            [](const Place& a, const Place& b) { return std::less<>()(a.begin, b.begin); });
  of_this_thread.push_back(this);
  handle_ = at::addThreadLocalCallback(
      at::RecordFunctionCallback(before).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
}

FirstUse::~FirstUse() {
  at::removeCallback(handle_);
  std::erase(of_this_thread, this);
}

void FirstUse::read(const void* address) const {
  const auto* const byte = static_cast<const std::byte*>(address);
  const auto after = std::upper_bound(
      places_.begin(), places_.end(), byte,
      [](const std::byte* a, const Place& b) { return std::less<>()(a, b.begin); });
  if (after == places_.begin()) return;
  const Place& place = *std::prev(after);
  if (std::less<>()(byte, place.end)) used_(place.parameter);
}

}  // namespace tally::adapter
