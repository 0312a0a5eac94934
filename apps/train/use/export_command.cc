#include <algorithm>
#include <filesystem>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include <unistd.h>

#include <fmt/format.h>

#include "apps/tally/command_line.h"
#include "apps/tally/outputs.h"
#include "apps/train/train_commands.h"
#include "apps/train/use/torchscript.h"
#include "apps/train/use/trained_model.h"
#include "base/errors.h"
#include "base/units.h"
#include "checkpoint/layout.h"
#include "checkpoint/tensor_file.h"
#include "server/snapshot/saved_tables.h"
#include "tally/checkpoint.h"

namespace tally::app {
namespace {

namespace fs = std::filesystem;

constexpr const char* kExportFooter = R"(
Examples:
  tally export runs/houses --to houses.pt             TorchScript, with the preprocessing
  tally export runs/lenet --to lenet.safetensors      the weights alone

In Python:
  model = torch.jit.load("houses.pt")
  model.predict(list(csv.DictReader(open("new.csv"))))

RUN is the folder of `tally train --checkpoint`, of which the newest checkpoint is used, or one of
its checkpoints. docs/using.md lists the methods of the TorchScript module.

Exit codes: 0 success; 1 something failed; 2 wrong usage.)";

// Of a tensor in memory at a time.
constexpr std::uint64_t kCopiedElements = std::uint64_t{1} << 20;

struct ExportCommand {
  std::string run;
  std::string to;
};

// Writes to a temporary name first, so that FILE is whole or as it was.
Result<void> copy_whole(const fs::path& from, const fs::path& file) {
  const fs::path partial = file.string() + fmt::format(".{}.part", ::getpid());
  std::error_code failed;
  fs::copy_file(from, partial, failed);
  if (!failed) fs::rename(partial, file, failed);
  if (!failed) return {};
  std::error_code ignored;
  fs::remove(partial, ignored);
  return system_failure("cannot write {}: {}", file.string(), failed.message());
}

// Copies a tensor of a checkpoint to tensor `index` of the file.
Result<void> copy_tensor(const checkpoint::Reader& reader, const checkpoint::TensorInfo& info,
                         std::size_t index, const checkpoint::WriteRange& write) {
  TALLY_TRY(const std::uint64_t count, checkpoint::element_count(info));
  const std::size_t element_bytes = size_of(info.type);
  std::vector<std::byte> bytes;
  for (std::uint64_t first = 0; first < count; first += bytes.size() / element_bytes) {
    bytes.resize(std::min<std::uint64_t>(count - first, kCopiedElements) * element_bytes);
    TALLY_TRY(reader.read(info.name, first, bytes));
    TALLY_TRY(write(index, first, bytes));
  }
  return {};
}

// Writes keys as tensor `index` of the file and their rows as the next.
Result<void> write_rows(const server::SavedRows& saved, std::size_t index,
                        const checkpoint::WriteRange& write) {
  const std::vector<std::uint64_t> keys = saved.keys();
  TALLY_TRY(write(index, 0, std::as_bytes(std::span(keys))));
  const std::size_t most = std::max<std::size_t>(1, kCopiedElements / saved.dimension());
  std::vector<float> rows;
  for (std::size_t first = 0; first < keys.size(); first += most) {
    const auto batch = std::span(keys).subspan(first, std::min(most, keys.size() - first));
    rows.resize(batch.size() * saved.dimension());
    saved.look_up(batch, rows);
    TALLY_TRY(write(index + 1, first * saved.dimension(), std::as_bytes(std::span(rows))));
  }
  return {};
}

// The tensors of the checkpoint, and keys and rows of each sparse table.
Result<void> write_weights(const TrainedModel& trained, const fs::path& to) {
  TALLY_TRY(const auto reader, checkpoint::Reader::open(trained.checkpoint));
  const std::size_t plain = reader->tensors().size();
  std::vector<checkpoint::TensorInfo> tensors = reader->tensors();
  for (const auto& rows : trained.rows) {
    const auto count = static_cast<std::int64_t>(rows->saved().size());
    tensors.push_back({.name = server::tensor_name(rows->name(), "keys"),
                       .type = DataType::kInt64,
                       .shape = {count}});
    tensors.push_back({.name = server::tensor_name(rows->name(), "weight"),
                       .type = DataType::kFloat32,
                       .shape = {count, rows->saved().dimension()}});
  }
  return checkpoint::write_tensors(
      to, tensors, "pt", [&](const checkpoint::WriteRange& write) -> Result<void> {
        for (std::size_t i = 0; i < plain; ++i)
          TALLY_TRY(copy_tensor(*reader, tensors[i], i, write));
        for (std::size_t i = 0; i < trained.rows.size(); ++i)
          TALLY_TRY(write_rows(trained.rows[i]->saved(), plain + 2 * i, write));
        return {};
      });
}

Result<void> check_has_script(const TrainedModel& trained, const std::string& run) {
  if (trained.rows.empty()) return {};
  std::string names;
  for (const auto& rows : trained.rows) names += (names.empty() ? "" : ", ") + rows->name();
  return invalid(
      "{} has the rows of {} by key, because it was trained with home=server, and TorchScript has "
      "tables of a fixed size: export to a .safetensors file, or train with home=group",
      run, names);
}

Result<void> write_export(const ExportCommand& command, const TrainedModel& trained) {
  const fs::path to = command.to;
  if (to.extension() == ".safetensors" && !trained.rows.empty()) return write_weights(trained, to);
  if (to.extension() == ".safetensors")
    return copy_whole(trained.checkpoint / "model.safetensors", to);
  TALLY_TRY(check_has_script(trained, command.run));
  TALLY_TRY(torch::jit::Module module, to_torchscript(trained));
  // In memory first: the writer of libtorch throws from its destructor when a file cannot grow.
  std::ostringstream bytes;
  module.save(bytes);
  return write_file(to, bytes.str());
}

Result<void> check_export_name(const std::string& name) {
  const std::string end = fs::path(name).extension().string();
  if (end == ".pt" || end == ".safetensors") return {};
  if (end == ".onnx")
    return invalid(
        "ONNX is not offered, because libtorch converts to it in Python only; give a .pt file");
  return invalid("the name must end in .pt (TorchScript) or .safetensors (weights)");
}

Result<void> run_export(const ExportCommand& command) {
  TALLY_TRY(check_writable_file("--to", command.to));
  TALLY_TRY(const TrainedModel trained, load_model(command.run, at::kCPU));
  TALLY_TRY(write_export(command, trained));
  fmt::print("{} of step {} in {}, {}\n", trained.state.recipe, trained.step, command.to,
             format_bytes(fs::file_size(command.to)));
  return {};
}

}  // namespace

int run_export_command(const std::vector<std::string>& words) {
  CommandLine line("Write a trained model as a file for other programs", "tally export");
  Command top = line.top();
  top.footer(kExportFooter);
  ExportCommand command;
  top.add("RUN", &command.run, "Folder of `tally train --checkpoint`", {.required = true});
  top.add("--to", &command.to, "The file to write: *.pt is TorchScript, *.safetensors weights",
          {.value = "FILE",
           .check = [](const std::string& name) { return problem_of(check_export_name(name)); },
           .required = true});
  top.action([&] { return guarded("tally export", [&] { return run_export(command); }); });
  return line.run(words).value_or(kWrongUsage);
}

}  // namespace tally::app
