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
  const Measurement* const ddp = find(comparison, measurement.model, "ddp");
  if (ddp != nullptr && ddp->ranks == measurement.ranks)
    standing.over_ddp = *mine / *units_per_second(*ddp);
  if (const Measurement* single = find(comparison, measurement.model, "single"))
    standing.efficiency = *mine / (measurement.ranks * *units_per_second(*single));
  return standing;
}

Report report_on(const Comparison& comparison, const Workers& workers) {
  Report report{.failed = !comparison.failures.texts.empty()};
  report.table = fmt::format(
      "training with momentum SGD, threads per rank: {}, cores: {}, rounds: {}; losses of {} steps "
      "agree within {:.0e}\n\n"
      "{:<10}{:<11}{:>5}{:>12}{:>10}{:>14} {:<8}{:>8}{:>12}{:>10}\n",
      workers.threads, usable_cores(), comparison.rounds, kCheckedSteps, kTolerance, "model",
      "contender", "ranks", "ms/step", "spread", "per second", "", "/ ddp", "efficiency", "apart");
  for (const Measurement& m : comparison.measurements) {
    if (m.samples_ms.empty()) continue;
    const Standing stands = standing(m, comparison);
    report.table +=
        fmt::format("{:<10}{:<11}{:>5}{:>12.2f}{:>10.2f}{:>14.1f} {:<8}{:>8}{:>12}{:>10.1e}\n",
                    m.model, m.contender, m.ranks, median(m.samples_ms), spread(m.samples_ms),
                    *units_per_second(m), m.unit, cell(stands.over_ddp, 1, ""),
                    m.ranks > 1 ? cell(stands.efficiency, 100, " %") : "", m.difference);
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
    if (stands.over_ddp) line["over_ddp"] = *stands.over_ddp;
    if (stands.efficiency) line["efficiency"] = *stands.efficiency;
    line["loss_difference"] = m.difference;
    line["rounds"] = comparison.rounds;
    line["runs"] = m.samples_ms.size();
    line["threads"] = workers.threads;
    if (m.contender == "tally") line["bucket_bytes"] = workers.bucket_bytes;
    line["torch"] = m.version;
  }
  report.table += failures_text(comparison.failures.texts);
  return report;
}

}  // namespace tally::bench::train
