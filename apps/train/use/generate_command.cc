#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "apps/tally/command_line.h"
#include "apps/train/train_commands.h"
#include "apps/train/use/trained_model.h"
#include "base/errors.h"
#include "data/text.h"
#include "recipes/gpt/model.h"
#include "recipes/gpt/sampling.h"

namespace tally::app {
namespace {

constexpr const char* kGenerateFooter = R"(
Examples:
  tally generate runs/gpt --prompt "Call me"
  tally generate runs/gpt --prompt "The whale" --tokens 1000 --temperature 0.5 --seed 7

RUN is the folder of `tally train gpt --checkpoint`, of which the newest checkpoint is used, or one
of its checkpoints. The prompt may contain the characters of the training text.

Exit codes: 0 success; 1 something failed; 2 wrong usage.)";

struct GenerateCommand {
  std::string run;
  std::string prompt;
  std::string device = "auto";
  recipes::SampleOptions sampling;
};

// Returns the symbols of the prompt. An empty prompt becomes a line end, or the first symbol of an
// alphabet without one.
Result<std::vector<std::int64_t>> prompt_symbols(const GenerateCommand& command,
                                                 const data::Preprocessing& like) {
  const auto* const text = std::get_if<data::TextEncoding>(&like.encoding);
  if (text == nullptr) return corrupt("the checkpoint has no alphabet");
  if (command.prompt.empty()) {
    const auto line_end = std::find(like.classes.begin(), like.classes.end(), "\n");
    return std::vector<std::int64_t>{
        line_end == like.classes.end() ? 0 : line_end - like.classes.begin()};
  }
  TALLY_TRY(const auto symbols, data::symbols_of(std::as_bytes(std::span(command.prompt)),
                                                 "--prompt", like.classes, text->level));
  return std::vector<std::int64_t>(symbols.begin(), symbols.end());
}

Result<void> run_generate(const GenerateCommand& command) {
  TALLY_TRY(const at::Device device, device_for(command.device));
  TALLY_TRY(const TrainedModel trained, load_model(command.run, device));
  auto* const gpt = dynamic_cast<recipes::Gpt*>(trained.model.get());
  if (gpt == nullptr)
    return invalid("{} does not write texts: use `tally predict {} --input FILE`",
                   trained.state.recipe, command.run);
  TALLY_TRY(auto prompt, prompt_symbols(command, trained.state.preprocessing));
  fmt::print("{}", command.prompt);
  recipes::sample(*gpt, std::move(prompt), command.sampling, [&](std::int64_t symbol) {
    fmt::print("{}", trained.state.preprocessing.classes[static_cast<std::size_t>(symbol)]);
    std::fflush(stdout);
  });
  fmt::print("\n");
  return {};
}

}  // namespace

int run_generate_command(const std::vector<std::string>& words) {
  CommandLine line("Continue a text with a trained gpt", "tally generate");
  Command top = line.top();
  top.footer(kGenerateFooter);
  GenerateCommand command;
  top.add("RUN", &command.run, "Folder of `tally train gpt --checkpoint`", {.required = true});
  top.add("--prompt", &command.prompt, "The beginning of the text");
  top.add("--tokens", &command.sampling.length, "Symbols to write", {.least = 0, .most = 1e6});
  top.add("--temperature", &command.sampling.temperature,
          "1: the model's probabilities; less: likely symbols more often; 0: always the likeliest",
          {.least = 0, .most = 100});
  top.add("--top-k", &command.sampling.top_k, "Draw from the N likeliest symbols only; 0: all",
          {.least = 0, .most = 1e6});
  top.add("--seed", &command.sampling.seed, "Of the random draws");
  top.add("--device", &command.device, "auto: CUDA if available",
          {.choices = {"auto", "cpu", "cuda"}});
  top.action([&] { return guarded("tally generate", [&] { return run_generate(command); }); });
  return line.run(words).value_or(kWrongUsage);
}

}  // namespace tally::app
