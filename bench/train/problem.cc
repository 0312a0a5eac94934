#include "bench/train/problem.h"

#include <cstddef>
#include <cstring>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/file.h"
#include "bench/train/samples.h"

namespace tally::bench::train {
namespace {

Result<void> write_file(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (file) return {};
  return system_failure("cannot write " + path.string());
}

template <typename T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span<const T>(values));
}

// Reads a whole file as a tensor of this shape.
Result<torch::Tensor> read_tensor(const std::filesystem::path& path,
                                  const std::vector<std::int64_t>& shape, torch::ScalarType type) {
  const std::optional<std::string> bytes = file_contents(path.string());
  if (!bytes) return system_failure("cannot read " + path.string());
  torch::Tensor tensor = torch::empty(shape, type);
  if (bytes->size() != tensor.nbytes())
    return corrupt(
        fmt::format("{}: {} bytes, expected {}", path.string(), bytes->size(), tensor.nbytes()));
  std::memcpy(tensor.data_ptr(), bytes->data(), bytes->size());
  return tensor;
}

std::vector<std::int64_t> with_front(std::vector<std::int64_t> front,
                                     const std::vector<std::int64_t>& shape) {
  front.insert(front.end(), shape.begin(), shape.end());
  return front;
}

Result<void> load_weights(const std::filesystem::path& path, BenchModel& model) {
  std::int64_t count = 0;
  for (const torch::Tensor& parameter : model.parameters()) count += parameter.numel();
  TALLY_TRY(const torch::Tensor values, read_tensor(path, {count}, torch::kFloat32));
  const torch::NoGradGuard no_gradient;
  std::int64_t place = 0;
  for (torch::Tensor& parameter : model.parameters()) {
    parameter.copy_(values.narrow(0, place, parameter.numel()).view_as(parameter));
    place += parameter.numel();
  }
  return {};
}

}  // namespace

Result<void> write_problem(const std::filesystem::path& folder, const ModelFacts& facts, int ranks,
                           std::uint64_t seed) {
  torch::manual_seed(seed);
  const std::shared_ptr<BenchModel> model = make_model(facts, at::kCPU);
  nlohmann::ordered_json json = to_json(facts);
  json["model"] = facts.name;
  json["ranks"] = ranks;
  json["batches"] = kBatches;
  json["parameters"] = nlohmann::ordered_json::array();
  std::vector<float> weights;
  for (const auto& named : model->named_parameters()) {
    const torch::Tensor values = named.value().detach().contiguous();
    json["parameters"].push_back({{"name", named.key()}, {"shape", values.sizes().vec()}});
    weights.insert(weights.end(), values.data_ptr<float>(),
                   values.data_ptr<float>() + values.numel());
  }
  const std::string text = json.dump(1) + "\n";
  const Samples samples = make_samples(facts, ranks, seed);
  TALLY_TRY(write_file(folder / "problem.json", std::as_bytes(std::span<const char>(text))));
  TALLY_TRY(write_file(folder / "weights", bytes_of(weights)));
  TALLY_TRY(write_file(folder / "targets", bytes_of(samples.targets)));
  return write_file(folder / "inputs", facts.family == Family::kGpt ? bytes_of(samples.symbols)
                                                                    : bytes_of(samples.inputs));
}

Result<Problem> Problem::open(const std::filesystem::path& folder, const Computation& computation,
                              const at::Device& device) {
  const std::filesystem::path file = folder / "problem.json";
  const std::optional<std::string> text = file_contents(file.string());
  if (!text) return system_failure("cannot read " + file.string());
  const nlohmann::json json = nlohmann::json::parse(*text, nullptr, false);
  if (!json.is_object() || !json["model"].is_string() || !json["ranks"].is_number_integer())
    return corrupt(file.string() + ": model and ranks expected");
  Problem problem;
  TALLY_TRY(problem.facts, find_model(json["model"].get<std::string>()));
  problem.ranks = json["ranks"].get<int>();
  problem.folder_ = folder;
  problem.computation = computation;
  problem.device = device;
  problem.model = make_model(problem.facts, device);
  TALLY_TRY(load_weights(folder / "weights", *problem.model));
  problem.model->to(device);
  return problem;
}

Result<Batches> Problem::batches_of(Rank rank) const {
  const std::vector<std::int64_t> front = {kBatches, ranks, facts.batch};
  const auto type = facts.family == Family::kGpt ? torch::kInt64 : torch::kFloat32;
  TALLY_TRY(const torch::Tensor inputs,
            read_tensor(folder_ / "inputs", with_front(front, facts.input), type));
  TALLY_TRY(const torch::Tensor targets,
            read_tensor(folder_ / "targets", with_front(front, facts.target), torch::kInt64));
  Batches batches;
  for (std::int64_t i = 0; i < kBatches; ++i) {
    torch::Tensor input = inputs[i][rank].clone().to(device);
    if (computation.channels_last && input.dim() == 4)
      input = input.contiguous(at::MemoryFormat::ChannelsLast);
    batches.inputs.push_back(input);
    batches.targets.push_back(targets[i][rank].clone().to(device));
  }
  return batches;
}

}  // namespace tally::bench::train
