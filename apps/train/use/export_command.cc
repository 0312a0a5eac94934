#include <filesystem>
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

struct ExportCommand {
  std::string run;
  std::string to;
};

// Writes to a temporary name first, so that FILE is whole or as it was.
template <typename Write>
Result<void> write_whole(const fs::path& file, const Write& write) {
  const fs::path partial = file.string() + fmt::format(".{}.partial", ::getpid());
  try {
    write(partial);
    fs::rename(partial, file);
  } catch (const std::exception& error) {
    std::error_code ignored;
    fs::remove(partial, ignored);
    const std::string what = error.what();
    return system_failure("cannot write {}: {}", file.string(), what.substr(0, what.find('\n')));
  }
  return {};
}

Result<void> write_export(const ExportCommand& command, const TrainedModel& trained) {
  const fs::path to = command.to;
  if (to.extension() == ".safetensors")
    return write_whole(to, [&](const fs::path& partial) {
      fs::copy_file(trained.checkpoint / "model.safetensors", partial);
    });
  TALLY_TRY(torch::jit::Module module, to_torchscript(trained));
  return write_whole(to, [&](const fs::path& partial) { module.save(partial.string()); });
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
