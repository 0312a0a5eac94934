#include "apps/tally/bench_codec_command.h"

#include <fstream>
#include <iostream>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "apps/tally/build_info.h"
#include "apps/tally/interrupt.h"
#include "apps/tally/progress.h"
#include "base/cpu.h"
#include "bench/codec/codec_list.h"
#include "bench/codec/report.h"
#include "group/host.h"
#include "kernel/reduce/reduce.h"

namespace tally::app {
namespace {

namespace bc = bench::codecs;

constexpr const char* kFooter = R"(
Examples:
  tally bench codec --json codec.jsonl
  tally bench codec --codecs int8,sign,topk:0.01,exact --repeat 15
  tally train lenet --epochs 1 --record-gradients lenet.safetensors
  tally bench codec --gradients lenet.safetensors

Encode, decode and decode-add in GB/s of float32 values on one core, run by run over an array that does not fit the caches, beside a
memory copy of the same array in the same repetition. What comes out is checked first. bench/codec/README.md says how to
read it.

Exit codes: 0 everything was measured; 1 something failed; 2 wrong usage; 130 interrupted.)";

struct Options {
  std::string codecs;
  std::vector<std::string> gradients;
  std::size_t elements = std::size_t{1} << 24;
  int repeats = 7;
  std::uint64_t seed = 1;
  std::string json;
};

// Why these cannot be measured alone; empty: they can.
std::string codecs_problem(const std::string& text) {
  const auto codecs = bc::parse_codec_list(text);
  if (!codecs) return codecs.error().message;
  for (const std::string& codec : *codecs)
    if (plan::parse_codec(codec)->kind == plan::Codec::kAuto)
      return "auto chooses from others: name those";
  return "";
}

class Bench {
 public:
  explicit Bench(const Options& options) : options_(options) {
    const std::vector<std::string> texts =
        options.codecs.empty() ? bc::usual_codecs() : *bc::parse_codec_list(options.codecs);
    for (const std::string& text : texts) specs_.push_back(*plan::parse_codec(text));
  }

  Result<bc::Results> run() {
    for (const bc::Shape shape : {bc::Shape::kGaussian, bc::Shape::kLaplace})
      TALLY_TRY(measure(bc::made_input(shape, options_.elements, options_.seed)));
    for (const std::string& file : options_.gradients) {
      TALLY_TRY(const bc::Input input, bc::recorded_input(file, options_.elements));
      TALLY_TRY(measure(input));
    }
    return std::move(results_);
  }

 private:
  Result<void> measure(const bc::Input& input) {
    for (const plan::CodecSpec& spec : specs_) {
      TALLY_TRY(go_on(fmt::format("{}: {}", input.name, plan::to_string(spec))));
      TALLY_TRY(results_.codecs.emplace_back(), bc::measure(spec, input, options_.repeats));
    }
    TALLY_TRY(go_on(input.name + ": zstd -1"));
    TALLY_TRY(results_.codecs.emplace_back(), bc::measure_zstd(input, options_.repeats));
    return results_.stages.empty() ? measure_stages(input) : Result<void>{};
  }
  // Those of the codecs alone, on the first input.
  Result<void> measure_stages(const bc::Input& input) {
    for (plan::CodecSpec spec : specs_) {
      if (spec.stage == plan::EntropyStage::kNone) continue;
      TALLY_TRY(go_on(fmt::format("{}: the stage of {}", input.name, plan::to_string(spec))));
      const plan::EntropyStage stage = std::exchange(spec.stage, plan::EntropyStage::kNone);
      TALLY_TRY(results_.stages.emplace_back(),
                bc::measure_stage(stage, spec, input, options_.repeats));
    }
    return {};
  }
  Result<void> go_on(const std::string& what) {
    if (interrupted() != 0) return Error{.code = ErrorCode::kClosed, .message = "interrupted"};
    progress_.now(what);
    return {};
  }

  const Options& options_;
  std::vector<plan::CodecSpec> specs_;
  bc::Results results_;
  Progress progress_;
};

bool save_json(const Options& options, const bc::Results& results,
               const bc::ReportContext& context) {
  if (options.json.empty()) return true;
  if (options.json == "-") {
    write_json(std::cout, results, context);
    return true;
  }
  std::ofstream file(options.json, std::ios::app);
  write_json(file, results, context);
  file.close();
  if (!file) fmt::print(stderr, "cannot write {}\n", options.json);
  return static_cast<bool>(file);
}

int run(const Options& options) {
  const InterruptGuard guard;
  const auto results = [&] { return Bench(options).run(); }();
  if (interrupted() != 0) return kInterruptedExitCode;
  if (!results) {
    fmt::print(stderr, "tally bench codec: {}\n", results.error().message);
    return 1;
  }
  const bc::ReportContext context{
      .commit = kCommit,
      .host = group::host_name(),
      .cores = usable_cores(),
      .level = std::string(to_string(kernel::available_levels().back())),
      .repeats = options.repeats};
  fmt::print("{}", table_text(*results, context));
  return save_json(options, *results, context) ? 0 : 1;
}

}  // namespace

void add_bench_codec_command(CLI::App& parent, int& exit_code) {
  CLI::App& command =
      *parent.add_subcommand("codec", "Speed, size and error of gradient codecs on one core");
  command.footer(kFooter);
  const auto o = std::make_shared<Options>();
  command
      .add_option("--codecs", o->codecs,
                  "As in a plan, with commas between them; default: all, and some with stages")
      ->check(CLI::Validator(codecs_problem, "LIST"));
  command
      .add_option("--gradients", o->gradients,
                  "Files of `tally train --record-gradients`, beside made values")
      ->check(CLI::ExistingFile);
  command.add_option("--elements", o->elements, "Values of each input, about")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 30))
      ->capture_default_str();
  command.add_option("--repeat", o->repeats, "Samples of each speed")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command.add_option("--seed", o->seed, "Of made values")->capture_default_str();
  command.add_option("--json", o->json, "Append one JSON line per codec and input; - is stdout");
  command.callback([o, &exit_code] { exit_code = run(*o); });
}

}  // namespace tally::app
