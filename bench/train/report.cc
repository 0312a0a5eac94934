#include "bench/train/comparison.h"

#include <fmt/format.h>

#include "base/cpu.h"
#include "bench/common/statistics.h"
#include "bench/train/curves.h"

namespace tally::bench::train {
namespace {

constexpr double kMillisecondsPerSecond = 1000;

const Measurement* find(const Comparison& comparison, const std::string& model,
                        const std::string& contender) {
  for (const Measurement& m : comparison.measurements)
    if (m.model == model && m.contender == contender && !m.samples_ms.empty()) return &m;
  return nullptr;
}

// How the contenders compute, for the heading.
std::string computation_text(const Computation& computation) {
  std::string text = fmt::format("on {} in {}", computation.device, computation.precision);
  if (computation.on_gpu())
    text += computation.tf32 ? ", TF32 in cuDNN and matrix products" : ", TF32 in cuDNN only";
  if (computation.channels_last) text += ", channels last";
  return text;
}

std::string cell(const std::optional<double>& value, double factor, const char* unit) {
  return value ? fmt::format("{:.{}f}{}", *value * factor, factor == 1 ? 2 : 0, unit) : "";
}

}  // namespace

std::optional<double> units_per_second(const Measurement& measurement) {
  if (measurement.samples_ms.empty()) return std::nullopt;
  return measurement.units_per_step / median(measurement.samples_ms) * kMillisecondsPerSecond;
}

Standing standing(const Measurement& measurement, const Comparison& comparison) {
  Standing standing;
  const auto mine = units_per_second(measurement);
  if (!mine) return standing;
  if (const Measurement* torch = find(comparison, measurement.model, "torch"))
    standing.over_torch = *mine / *units_per_second(*torch);
  const Measurement* const ddp = find(comparison, measurement.model, "ddp");
  if (ddp != nullptr && ddp->ranks == measurement.ranks)
    standing.over_ddp = *mine / *units_per_second(*ddp);
  if (const Measurement* single = find(comparison, measurement.model, "single"))
    standing.efficiency = *mine / (measurement.ranks * *units_per_second(*single));
  if (!measurement.passes_ms.empty())
    standing.other_work = 1 - median(measurement.passes_ms) / median(measurement.samples_ms);
  return standing;
}

Report report_on(const Comparison& comparison, const Workers& workers) {
  const Computation& computation = workers.computation;
  Report report{.failed = !comparison.failures.texts.empty()};
  report.table = fmt::format(
      "training {}; threads per rank: {}, cores: {}, rounds: {}; losses of {} steps agree within "
      "{:.0e}\n\n"
      "{:<12}{:<13}{:>5}{:>10}{:>9}{:>12} {:<8}{:>8}{:>8}{:>12}{:>12}{:>10}\n",
      computation_text(computation), workers.threads, usable_cores(), comparison.rounds,
      kCheckedSteps, tolerance_of(computation.device, computation.precision), "model", "contender",
      "ranks", "ms/step", "spread", "per second", "", "/ torch", "/ ddp", "efficiency",
      "other work", "apart");
  for (const Measurement& m : comparison.measurements) {
    if (m.samples_ms.empty()) continue;
    const Standing stands = standing(m, comparison);
    report.table += fmt::format(
        "{:<12}{:<13}{:>5}{:>10.2f}{:>9.2f}{:>12.1f} {:<8}{:>8}{:>8}{:>12}{:>12}"
        "{:>10.1e}\n",
        m.model, m.contender, m.ranks, median(m.samples_ms), spread(m.samples_ms),
        *units_per_second(m), m.unit, cell(stands.over_torch, 1, ""), cell(stands.over_ddp, 1, ""),
        m.ranks > 1 ? cell(stands.efficiency, 100, " %") : "", cell(stands.other_work, 100, " %"),
        m.difference);
    const bool is_tally = m.contender.starts_with("tally");
    Json& line = report.lines.emplace_back();
    line["contender"] = m.contender;
    line["model"] = m.model;
    line["ranks"] = m.ranks;
    line["median_ms"] = median(m.samples_ms);
    line["units_per_s"] = *units_per_second(m);
    line["checked"] = true;
    line["unit"] = m.unit;
    line["spread_ms"] = spread(m.samples_ms);
    line["least_ms"] = quantile(m.samples_ms, 0);
    if (stands.over_torch) line["over_torch"] = *stands.over_torch;
    if (stands.over_ddp) line["over_ddp"] = *stands.over_ddp;
    if (stands.efficiency) line["efficiency"] = *stands.efficiency;
    if (stands.other_work) line["other_work"] = *stands.other_work;
    line["loss_difference"] = m.difference;
    line["rounds"] = comparison.rounds;
    line["runs"] = m.samples_ms.size();
    line["threads"] = workers.threads;
    line["device"] = computation.device;
    line["precision"] = computation.precision;
    if (computation.on_gpu()) line["tf32"] = computation.tf32;
    line["channels_last"] = computation.channels_last;
    if (is_tally) line["bucket_bytes"] = workers.bucket_bytes;
    line["torch"] = m.version;
  }
  report.table += failures_text(comparison.failures.texts);
  return report;
}

}  // namespace tally::bench::train
