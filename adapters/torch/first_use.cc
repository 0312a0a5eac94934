#include "adapters/torch/first_use.h"

#include <ATen/core/ivalue.h>

namespace tally::adapter {
namespace {

// libtorch's callbacks are plain functions without a user argument, so each thread keeps a list of
// its objects.
thread_local std::vector<const FirstUse*> of_this_thread;

void read(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return;
  for (const FirstUse* const watch : of_this_thread) watch->read(tensor);
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

FirstUse::FirstUse(const std::vector<at::Tensor>& parameters, std::function<void(std::size_t)> used)
    : used_(std::move(used)) {
  for (std::size_t p = 0; p < parameters.size(); ++p)
    index_of_.emplace(parameters[p].storage().unsafeGetStorageImpl(), p);
  of_this_thread.push_back(this);
  handle_ = at::addThreadLocalCallback(
      at::RecordFunctionCallback(before).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
}

FirstUse::~FirstUse() {
  at::removeCallback(handle_);
  std::erase(of_this_thread, this);
}

void FirstUse::read(const at::Tensor& tensor) const {
  const auto found = index_of_.find(tensor.storage().unsafeGetStorageImpl());
  if (found != index_of_.end()) used_(found->second);
}

}  // namespace tally::adapter
