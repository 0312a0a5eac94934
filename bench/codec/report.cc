#include "bench/codec/report.h"

#include <algorithm>
#include <ostream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/common/statistics.h"

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

std::string targets_text(const Results& results) {
  const std::vector<Target> targets = targets_of(results);
  if (targets.empty()) return "";
  std::string text =
      fmt::format("\n{:<38}{:>10}{:>10}\n", "on " + results.codecs.front().input, "wanted", "seen");
  for (const Target& target : targets) {
    const auto cell = [&](double value) {
      return target.is_share ? fmt::format("{:.0f} %", 100 * value)
                             : fmt::format("{:.2f} GB/s", value);
    };
    text += fmt::format("{:<38}{:>10}{:>10}  {}\n", target.what, cell(target.wanted),
                        cell(target.seen), target.met() ? "met" : "missed");
  }
  return text;
}

nlohmann::ordered_json codec_line(const ReportContext& context) {
  nlohmann::ordered_json line = json_line("codec", context.machine);
  line["level"] = context.level;
  line["runs"] = context.repeats;
  return line;
}

}  // namespace

std::vector<std::string> usual_codecs() {
  return {"fp16",          "bf16",         "int8",
          "fp8",           "fp8:e5m2",     "qsgd:2",
          "qsgd:4",        "qsgd:8",       "ternary",
          "natural",       "onebit",       "sign",
          "onebit-adam",   "topk:0.01",    "topk:0.01,exact",
          "randk:0.01",    "dgc:0.001",    "threshold",
          "powersgd:2",    "int8+rans",    "int8+huffman",
          "int8+zstd",     "qsgd:4+rans",  "qsgd:4+huffman",
          "qsgd:4+zstd",   "ternary+rans", "ternary+zstd",
          "topk:0.01+rans"};
}

std::vector<Target> targets_of(const Results& results) {
  std::vector<Target> targets;
  if (results.codecs.empty()) return targets;
  const std::string& input = results.codecs.front().input;
  for (const Wish& wish : wishes())
    for (const Measurement& m : results.codecs)
      if (m.codec == wish.codec && m.input == input)
        targets.push_back({.what = fmt::format("{}: {}, of a memory copy", wish.codec, wish.does),
                           .wanted = wish.share,
                           .seen = median((m.*wish.speed).share)});
  for (const StageMeasurement& stage : results.stages) {
    if (stage.stage != "rans") continue;
    const auto add = [&](const char* does, const std::vector<double>& speeds) {
      targets.push_back({.what = fmt::format("rans on {}: {}, symbols", stage.of, does),
                         .wanted = kRansWanted,
                         .seen = median(speeds),
                         .is_share = false});
    };
    add("encode", stage.encode_gb_per_s);
    add("decode", stage.decode_gb_per_s);
  }
  return targets;
}

std::string table_text(const Results& results, const ReportContext& context) {
  std::string text;
  std::string input;
  for (const Measurement& m : results.codecs) {
    if (m.input != input) {
      input = m.input;
      text += fmt::format(
          "{}{}: {} values; memory copy {:.2f} GB/s; one core, {}; medians of {}\n"
          "{:<18}{:>14}{:>14}{:>14}{:>14}{:>9}{:>8}{:>9}{:>10}\n",
          text.empty() ? "" : "\n", m.input, m.elements, median(m.copy_gb_per_s), context.level,
          context.repeats, "codec", "encode GB/s", "decode", "decode-add", "send", "bytes/v",
          "ratio", "error", "after 20");
    }
    text +=
        fmt::format("{:<18}{}{}{}{}{:>9.3f}{:>8.1f}{:>9.1e}{:>10}\n", m.codec, speed_text(m.encode),
                    speed_text(m.decode), speed_text(m.decode_add), speed_text(m.send),
                    m.bytes_per_value, kFloatBytes / m.bytes_per_value, m.error,
                    m.error_with_feedback ? fmt::format("{:.1e}", *m.error_with_feedback) : "");
  }
  return text + stages_text(results) + targets_text(results);
}

void write_json(std::ostream& out, const Results& results, const ReportContext& context) {
  for (const Measurement& m : results.codecs) {
    nlohmann::ordered_json line = codec_line(context);
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
    out << line.dump() << '\n';
  }
  for (const StageMeasurement& stage : results.stages) {
    nlohmann::ordered_json line = codec_line(context);
    line["stage"] = stage.stage;
    line["bytes_of"] = stage.of;
    line["encode_gb_per_s"] = median(stage.encode_gb_per_s);
    line["decode_gb_per_s"] = median(stage.decode_gb_per_s);
    line["ratio"] = stage.ratio;
    out << line.dump() << '\n';
  }
}

}  // namespace tally::bench::codecs
