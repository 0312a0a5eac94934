#include "bench/codec/measure.h"

#include <algorithm>

#include <fmt/format.h>

#include "bench/common/statistics.h"
#include "kernel/reduce/reduce.h"

namespace tally::bench::codecs {
namespace {

constexpr double kFloatBytes = 4;

struct Wish {
  const char* codec;
  Measurement::Speed Measurement::*speed;
  const char* does;
  double share;
};

const std::vector<Wish>& wishes() {
  static const std::vector<Wish> all = {
      {"fp16", &Measurement::encode, "encode", 0.8},
      {"fp16", &Measurement::decode, "decode", 0.8},
      {"bf16", &Measurement::encode, "encode", 0.8},
      {"bf16", &Measurement::decode, "decode", 0.8},
      {"int8", &Measurement::encode, "encode", 0.5},
      {"int8", &Measurement::decode_add, "decode-add", 0.5},
      {"sign", &Measurement::encode, "encode", 0.5},
      {"sign", &Measurement::decode_add, "decode-add", 0.5},
      {"onebit", &Measurement::encode, "encode", 0.5},
      {"onebit", &Measurement::decode_add, "decode-add", 0.5},
      {"qsgd", &Measurement::encode, "encode", 0.25},
      {"qsgd", &Measurement::decode_add, "decode-add", 0.25},
      {"topk", &Measurement::encode, "encode", 0.25},
  };
  return all;
}

// GB/s of symbols.
constexpr double kRansWanted = 0.5;

std::string speed_text(const Measurement::Speed& speed) {
  if (speed.gb_per_s.empty()) return fmt::format("{:>8}{:>6}", "", "");
  return fmt::format("{:>8.2f}{:>4.0f} %", median(speed.gb_per_s), 100 * median(speed.share));
}

std::string stages_text(const Results& results) {
  if (results.stages.empty()) return "";
  std::string text = fmt::format("\n{:<10}{:<14}{:>10}{:>10}{:>8}\n", "stage", "on bytes of",
                                 "encode", "decode", "ratio");
  for (const StageMeasurement& stage : results.stages)
    text += fmt::format("{:<10}{:<14}{:>10.2f}{:>10.2f}{:>8.2f}\n", stage.stage, stage.of,
                        median(stage.encode_gb_per_s), median(stage.decode_gb_per_s), stage.ratio);
  return text;
}

}  // namespace

std::vector<Target> targets_of(const Results& results) {
  std::vector<Target> targets;
  if (results.codecs.empty()) return targets;
  const std::string& input = results.codecs.front().input;
  for (const Wish& wish : wishes())
    for (const Measurement& m : results.codecs)
      if (m.codec == wish.codec && m.input == input)
        targets.push_back({.what = fmt::format("{}: {}, of a memory copy", wish.codec, wish.does),
                           .wanted = wish.share,
                           .seen = median((m.*wish.speed).share),
                           .unit = "%"});
  for (const StageMeasurement& stage : results.stages) {
    if (stage.stage != "rans") continue;
    const auto add = [&](const char* does, const std::vector<double>& speeds) {
      targets.push_back({.what = fmt::format("rans on {}: {}, symbols", stage.of, does),
                         .wanted = kRansWanted,
                         .seen = median(speeds),
                         .unit = " GB/s"});
    };
    add("encode", stage.encode_gb_per_s);
    add("decode", stage.decode_gb_per_s);
  }
  return targets;
}

Report report_on(const Results& results, int repeats) {
  const std::string level(to_string(kernel::available_levels().back()));
  Report report;
  std::string input;
  const auto new_line = [&]() -> Json& {
    return report.lines.emplace_back(Json{{"level", level}, {"runs", repeats}});
  };
  for (const Measurement& m : results.codecs) {
    if (m.input != input) {
      input = m.input;
      report.table += fmt::format(
          "{}{}: {} values; memory copy {:.2f} GB/s; one core, {}; medians of {}\n"
          "{:<18}{:>14}{:>14}{:>14}{:>14}{:>9}{:>8}{:>9}{:>10}\n",
          report.table.empty() ? "" : "\n", m.input, m.elements, median(m.copy_gb_per_s), level,
          repeats, "codec", "encode GB/s", "decode", "decode-add", "send", "bytes/v", "ratio",
          "error", "after 20");
    }
    report.table +=
        fmt::format("{:<18}{}{}{}{}{:>9.3f}{:>8.1f}{:>9.1e}{:>10}\n", m.codec, speed_text(m.encode),
                    speed_text(m.decode), speed_text(m.decode_add), speed_text(m.send),
                    m.bytes_per_value, kFloatBytes / m.bytes_per_value, m.error,
                    m.error_with_feedback ? fmt::format("{:.1e}", *m.error_with_feedback) : "");
    Json& line = new_line();
    line["codec"] = m.codec;
    line["data"] = m.input;
    line["elements"] = m.elements;
    const auto add = [&line](const std::string& name, const Measurement::Speed& speed) {
      if (speed.gb_per_s.empty()) return;
      line[name + "_gb_per_s"] = median(speed.gb_per_s);
      line[name + "_spread"] = spread(speed.gb_per_s);
      line[name + "_of_copy"] = median(speed.share);
    };
    add("encode", m.encode);
    add("decode", m.decode);
    add("decode_add", m.decode_add);
    add("send", m.send);
    line["copy_gb_per_s"] = median(m.copy_gb_per_s);
    line["bytes_per_value"] = m.bytes_per_value;
    line["ratio"] = kFloatBytes / m.bytes_per_value;
    line["error"] = m.error;
    if (m.error_with_feedback) line["error_with_feedback"] = *m.error_with_feedback;
  }
  for (const StageMeasurement& stage : results.stages) {
    Json& line = new_line();
    line["stage"] = stage.stage;
    line["bytes_of"] = stage.of;
    line["encode_gb_per_s"] = median(stage.encode_gb_per_s);
    line["decode_gb_per_s"] = median(stage.decode_gb_per_s);
    line["ratio"] = stage.ratio;
  }
  report.table += stages_text(results);
  if (!results.codecs.empty())
    report.table += targets_text("on " + results.codecs.front().input, 38, targets_of(results));
  return report;
}

}  // namespace tally::bench::codecs
