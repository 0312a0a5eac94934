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

// Empty if `info` can be loaded into the tensor; else the difference.
std::string difference(const at::Tensor& tensor, const TensorInfo& info) {
  if (tensor.sizes().vec() != info.shape)
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
  for (const adapter::NamedTensor& known : adapter::all_tensors_of(module)) {
    const TensorInfo* source = nullptr;
    const auto look_for = [&](const std::string& name) {
      const auto found = in_file.extract(name);
      if (source == nullptr && !found.empty()) source = found.mapped();
    };
    look_for(known.name);
    for (const std::string& name : known.other_names) look_for(name);
    if (source == nullptr) {
      report.missing.push_back(known.name);
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
