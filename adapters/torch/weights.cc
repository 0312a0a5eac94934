#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "adapters/torch/tensors.h"

namespace tally {

using adapter::or_throw;
using adapter::scalar_type_of;
using checkpoint::TensorInfo;

namespace {

// A tensor of the module with all its names: tied parameters have several.
struct ModuleTensor {
  std::vector<std::string> names;
  at::Tensor tensor;
};

std::vector<ModuleTensor> tensors_with_names(const torch::nn::Module& module) {
  std::vector<ModuleTensor> tensors;
  std::map<const void*, std::size_t> index_of;
  const auto add = [&](const std::string& name, const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    const auto [found, is_new] = index_of.emplace(tensor.unsafeGetTensorImpl(), tensors.size());
    if (is_new) tensors.push_back({.names = {}, .tensor = tensor});
    tensors[found->second].names.push_back(name);
  };
  for (const auto& item : module.named_parameters()) add(item.key(), item.value());
  for (const auto& item : module.named_buffers()) add(item.key(), item.value());
  return tensors;
}

// Empty if `info` can be loaded into the tensor; else the difference.
std::string difference(const at::Tensor& tensor, const TensorInfo& info) {
  if (adapter::shape_of(tensor) != info.shape)
    return fmt::format("{}: the module has [{}], the file [{}]", info.name,
                       fmt::join(tensor.sizes(), ", "), fmt::join(info.shape, ", "));
  if (!tensor.is_floating_point() && at::isFloatingType(scalar_type_of(info.type)))
    return fmt::format("{}: the module has {}, the file {}", info.name,
                       c10::toString(tensor.scalar_type()), to_string(info.type));
  return {};
}

void load(at::Tensor tensor, const TensorInfo& info, const checkpoint::Reader& reader) {
  const at::NoGradGuard no_grad;
  const at::Tensor host = at::empty(info.shape, scalar_type_of(info.type));
  or_throw(reader.read(info.name, 0, adapter::bytes_of(host)));
  tensor.copy_(host);
}

void add_line(std::string& text, const char* what, const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 8;
  if (names.empty()) return;
  const std::size_t shown = std::min(names.size(), kShown);
  text += fmt::format(
      "{}{}: {}", text.empty() ? "" : "\n", what,
      fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  if (shown < names.size()) text += fmt::format(" and {} more", names.size() - shown);
}

}  // namespace

LoadReport load_weights(torch::nn::Module& module, const checkpoint::Reader& reader) {
  std::map<std::string, const TensorInfo*> in_file;
  for (const TensorInfo& info : reader.tensors()) in_file[info.name] = &info;
  LoadReport report;
  for (const ModuleTensor& known : tensors_with_names(module)) {
    const TensorInfo* source = nullptr;
    for (const std::string& name : known.names) {
      const auto found = in_file.find(name);
      if (found == in_file.end()) continue;
      if (source == nullptr) source = found->second;
      in_file.erase(found);
    }
    if (source == nullptr) {
      report.missing.push_back(known.names.front());
    } else if (std::string found = difference(known.tensor, *source); !found.empty()) {
      report.mismatched.push_back(std::move(found));
    } else {
      load(known.tensor, *source, reader);
      ++report.loaded;
    }
  }
  // In the order of the file.
  for (const TensorInfo& info : reader.tensors())
    if (in_file.contains(info.name)) report.unexpected.push_back(info.name);
  return report;
}

std::string to_string(const LoadReport& report) {
  std::string text;
  add_line(text, "not in the file", report.missing);
  add_line(text, "not in the module", report.unexpected);
  add_line(text, "different", report.mismatched);
  return text.empty() ? fmt::format("{} tensors loaded", report.loaded) : text;
}

}  // namespace tally
