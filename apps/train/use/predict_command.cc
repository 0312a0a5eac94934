#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/tally/command_line.h"
#include "apps/train/train_commands.h"
#include "apps/train/use/prediction.h"
#include "apps/train/use/trained_model.h"
#include "base/counted.h"
#include "base/errors.h"
#include "data/image_folder.h"
#include "data/open_like.h"

namespace tally::app {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPredictFooter = R"(
Examples:
  tally predict runs/houses --input new.csv
  tally predict runs/lenet --input shoe.png shirt.jpg --top 3
  tally predict runs/lenet --input photos/ --format csv

RUN is the folder of `tally train --checkpoint`, of which the newest checkpoint is used, or one of
its checkpoints. Inputs are prepared as the training data were: tables need the columns of the
training by name, in any order, without the target; images are cut to their centre and resized. A
folder stands for the images in it, or in its class folders. In the output, FILE:N is input N of a
file with several inputs.

Exit codes: 0 success; 1 something failed; 2 wrong usage.)";

struct PredictCommand {
  std::string run;
  std::vector<std::string> inputs;
  std::string device = "auto";
  std::string format = "text";
  PredictOptions options;
};

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

// Prints one line per prediction.
class Printer final {
 public:
  Printer(const std::string& format, bool classes, std::size_t top) : format_(format) {
    if (format != "csv") return;
    std::string header = classes ? "input" : "input,value";
    for (std::size_t i = 1; classes && i <= top; ++i)
      header += i == 1 ? ",class,probability" : fmt::format(",class{0},probability{0}", i);
    fmt::print("{}\n", header);
  }

  void print(const std::string& input, const Prediction& prediction) const {
    if (format_ == "json") {
      print_json(input, prediction);
      return;
    }
    const bool csv = format_ == "csv";
    std::string line = csv ? csv_field(input) : input;
    if (prediction.classes.empty())
      line += fmt::format("{}{:.7g}", csv ? "," : "  ", prediction.value);
    for (const Prediction::Class& one : prediction.classes)
      line += csv ? fmt::format(",{},{:.6f}", csv_field(one.name), one.probability)
                  : fmt::format("  {} {:.4f}", one.name, one.probability);
    fmt::print("{}\n", line);
  }

 private:
  static void print_json(const std::string& input, const Prediction& prediction) {
    nlohmann::json line = {{"input", input}};
    if (prediction.classes.empty()) line["value"] = prediction.value;
    for (const Prediction::Class& one : prediction.classes)
      line["classes"].push_back({{"class", one.name}, {"probability", one.probability}});
    fmt::print("{}\n", line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }

  const std::string format_;
};

// The images among the inputs, those of folders included; other inputs are files of samples.
struct Inputs {
  std::vector<fs::path> images;
  std::vector<std::string> others;
};

// The images of a folder, or else of its class folders.
Result<std::vector<fs::path>> images_of(const fs::path& folder) {
  TALLY_TRY(std::vector<fs::path> images, data::images_in(folder));
  std::vector<fs::path> folders = {folder};
  if (const auto found = data::find_image_folders(folder); images.empty() && found) {
    if (found->test)
      return invalid("{} has two parts: name {}, {} or both", folder.string(),
                     found->train.string(), found->test->string());
    folders.clear();
    TALLY_TRY(const auto names, data::class_folders(found->train));
    for (const std::string& name : names) {
      folders.push_back(found->train / name);
      TALLY_TRY(const auto more, data::images_in(folders.back()));
      images.insert(images.end(), more.begin(), more.end());
    }
  }
  std::uint64_t files = 0;
  std::error_code ignored;
  for (const fs::path& one : folders)
    for (const auto& entry : fs::directory_iterator(one, ignored))
      if (entry.is_regular_file(ignored) && !entry.path().filename().string().starts_with('.'))
        ++files;
  if (!images.empty() && files > images.size())
    fmt::print(stderr, "tally predict: {}: skipped {}: only .jpg, .jpeg and .png are read\n",
               folder.string(), counted(files - images.size(), "other file"));
  return images;
}

Result<Inputs> sorted_inputs(const std::vector<std::string>& names) {
  Inputs inputs;
  std::error_code ignored;
  for (const std::string& name : names) {
    if (fs::is_directory(name, ignored)) {
      TALLY_TRY(const auto images, images_of(name));
      if (images.empty()) inputs.others.push_back(name);
      inputs.images.insert(inputs.images.end(), images.begin(), images.end());
    } else if (data::is_image_file(name)) {
      inputs.images.emplace_back(name);
    } else {
      inputs.others.push_back(name);
    }
  }
  return inputs;
}

Result<void> run_predict(const PredictCommand& command) {
  TALLY_TRY(const at::Device device, device_for(command.device));
  TALLY_TRY(const Inputs inputs, sorted_inputs(command.inputs));
  TALLY_TRY(const TrainedModel trained, load_model(command.run, device));
  if (trained.task == recipes::Task::kLanguage)
    return invalid("{} continues texts: use `tally generate {} --prompt TEXT`",
                   trained.state.recipe, command.run);
  const data::Preprocessing& like = trained.state.preprocessing;
  const Printer printer(command.format, recipes::has_accuracy(trained.task), command.options.top);
  if (!inputs.images.empty()) {
    TALLY_TRY(const auto images, data::open_images_like(inputs.images, like));
    std::size_t index = 0;
    TALLY_TRY(predict(trained, *images, command.options, device, [&](const Prediction& one) {
      printer.print(inputs.images[index++].string(), one);
    }));
  }
  for (const std::string& name : inputs.others) {
    TALLY_TRY(data::Location location, data::locate_like(name, "", like));
    location.test.clear();  // the file itself, not the test part beside it
    TALLY_TRY(const auto samples, data::open_like(location, like, data::Targets::kIgnored));
    std::size_t number = 0;
    TALLY_TRY(predict(trained, *samples, command.options, device, [&](const Prediction& one) {
      printer.print(fmt::format("{}:{}", name, ++number), one);
    }));
  }
  return {};
}

}  // namespace

int run_predict_command(const std::vector<std::string>& words) {
  CommandLine line("Predict with a trained model", "tally predict");
  Command top = line.top();
  top.footer(kPredictFooter);
  PredictCommand command;
  top.add("RUN", &command.run, "Folder of `tally train --checkpoint`", {.required = true});
  top.add("--input", &command.inputs, "Images, folders of images, tables or libsvm files",
          {.value = "FILE...", .required = true});
  top.add("--top", &command.options.top, "Classes to print, most probable first",
          {.least = 1, .most = 1000});
  top.add("--format", &command.format, "Of the output", {.choices = {"text", "csv", "json"}});
  top.add("--batch", &command.options.batch, "Inputs to compute at a time",
          {.least = 1, .most = 1 << 20});
  top.add("--device", &command.device, "auto: CUDA if available",
          {.choices = {"auto", "cpu", "cuda"}});
  top.action([&] { return guarded("tally predict", [&] { return run_predict(command); }); });
  return line.run(words).value_or(kWrongUsage);
}

}  // namespace tally::app
