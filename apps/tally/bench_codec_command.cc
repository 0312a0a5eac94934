#include "apps/tally/commands.h"

#include <filesystem>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "apps/tally/bench_scaffold.h"
#include "bench/codec/codec_list.h"
#include "bench/codec/measure.h"
#include "bench/common/rounds.h"

namespace tally::app {
namespace {

namespace bc = bench::codecs;

constexpr const char* kBenchCodecFooter = R"(
Examples:
  tally bench codec --json codec.jsonl
  tally bench codec --codecs int8,sign,topk:0.01,exact --repeat 15
  tally train lenet --epochs 1 --record-gradients lenet.safetensors
  tally bench codec --gradients lenet.safetensors

The benchmark measures encode, decode and decode-add in GB/s of float32 values on one core, over an
array that does not fit the caches, beside a memory copy of the same array in the same repetition.
Results are checked first. bench/codec/README.md explains the figures.

Exit codes: 0 success; 1 something failed; 2 wrong usage; 130 interrupted.)";

struct CodecBenchOptions {
  std::string codecs;
  std::vector<std::string> gradients;
  std::size_t elements = std::size_t{1} << 24;
  int repeats = 7;
  std::uint64_t seed = 1;
  std::string json;
};

std::string file_problem(const std::string& path) {
  std::error_code failed;
  return std::filesystem::is_regular_file(path, failed) ? "" : "no such file";
}

// Returns why the codecs cannot be measured alone; empty: they can.
std::string codecs_problem(const std::string& text) {
  const auto codecs = bc::parse_codec_list(text);
  if (!codecs) return codecs.error().message;
  for (const std::string& codec : *codecs)
    if (plan::parse_codec(codec)->kind == plan::Codec::kAuto)
      return "auto chooses from others: name those";
  return "";
}

class CodecBench {
 public:
  CodecBench(const CodecBenchOptions& options, process::Progress& progress)
      : options_(options), progress_(progress) {
    const std::vector<std::string> texts =
        options.codecs.empty() ? bc::usual_codecs() : *bc::parse_codec_list(options.codecs);
    for (const std::string& text : texts) specs_.push_back(*plan::parse_codec(text));
  }

  Result<bench::Report> run() {
    for (const bc::Shape shape : {bc::Shape::kGaussian, bc::Shape::kLaplace})
      TALLY_TRY(measure(bc::made_input(shape, options_.elements, options_.seed)));
    for (const std::string& file : options_.gradients) {
      TALLY_TRY(const bc::Input input, bc::recorded_input(file, options_.elements));
      TALLY_TRY(measure(input));
    }
    return report_on(results_, options_.repeats);
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
  // Measures the entropy stages of the codecs alone, on the first input.
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
    TALLY_TRY(bench::check_interrupted());
    progress_.now(what);
    return {};
  }

  const CodecBenchOptions& options_;
  std::vector<plan::CodecSpec> specs_;
  bc::Results results_;
  process::Progress& progress_;
};

}  // namespace

void add_bench_codec_command(Command bench) {
  Command command =
      bench.add_command("codec", "Speed, size and error of gradient codecs on one core");
  command.footer(kBenchCodecFooter);
  const auto o = std::make_shared<CodecBenchOptions>();
  command.add("--codecs", &o->codecs,
              "As in a plan, separated by commas; default: all, and some with entropy stages",
              {.value = "LIST", .check = codecs_problem});
  command.add("--gradients", &o->gradients,
              "Files of `tally train --record-gradients`, in addition to generated values",
              {.value = "FILE ...", .check = file_problem});
  command.add("--elements", &o->elements, "Approximate number of values of each input",
              {.least = 1, .most = 1 << 30});
  command.add("--repeat", &o->repeats, "Samples of each speed", {.least = 1, .most = 1000});
  command.add("--seed", &o->seed, "Seed of generated values");
  add_json_option(command, &o->json, " per codec and input");
  command.action([o] {
    return run_bench("codec", o->json,
                     [&](auto& progress) { return CodecBench(*o, progress).run(); });
  });
}

}  // namespace tally::app
