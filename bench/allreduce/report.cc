#include "bench/allreduce/comparison.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/cpu.h"
#include "base/units.h"
#include "bench/common/statistics.h"

namespace tally::bench {
namespace {

constexpr int kTitleWidth = 28;
constexpr int kCellWidth = 11;

// One line of the table: a value per size, or none.
struct Row {
  std::string title;
  std::string contender;
  std::vector<std::optional<double>> medians;
};

std::string title_of(const Measurement& measurement) {
  const ContenderFacts& contender = measurement.contender;
  return contender.name == "tally" ? "tally " + contender.transport : contender.name;
}

std::vector<Row> rows_of(const Comparison& comparison) {
  std::vector<Row> rows;
  for (const Measurement& m : comparison.measurements) {
    if (rows.empty() || rows.back().title != title_of(m)) {
      rows.push_back({.title = title_of(m), .contender = m.contender.name});
    }
    rows.back().medians.push_back(
        m.sum.samples_us.empty() ? std::nullopt : std::optional(median(m.sum.samples_us)));
  }
  return rows;
}

// Formats about three digits.
std::string number_text(double value) {
  if (value < 10) return fmt::format("{:.2f}", value);
  if (value < 100) return fmt::format("{:.1f}", value);
  return fmt::format("{:.0f}", value);
}

// Returns the least value of the rows that `wanted` accepts, by size.
template <typename Wanted>
std::optional<Row> best_of(const std::vector<Row>& rows, const std::string& title, Wanted wanted) {
  std::optional<Row> best;
  for (const Row& row : rows) {
    if (!wanted(row)) continue;
    if (!best) {
      best = row;
      best->title = title;
      continue;
    }
    for (std::size_t i = 0; i < row.medians.size(); ++i) {
      auto& least = best->medians[i];
      if (row.medians[i] && (!least || *row.medians[i] < *least)) least = row.medians[i];
    }
  }
  return best;
}

template <typename Cell>
std::string line_text(const std::string& title, std::size_t columns, Cell cell) {
  std::string line = fmt::format("{:<{}}", title, kTitleWidth);
  for (std::size_t i = 0; i < columns; ++i) line += fmt::format("{:>{}}", cell(i), kCellWidth);
  return line + "\n";
}

// Returns `above` over `below`, times `factor`, by size.
std::string ratio_line(const std::string& title, const Row& above, const Row& below, double factor,
                       const char* unit) {
  return line_text(title, above.medians.size(), [&](std::size_t i) -> std::string {
    if (!above.medians[i] || !below.medians[i]) return "-";
    return number_text(factor * *above.medians[i] / *below.medians[i]) + unit;
  });
}

std::string ratio_lines(const std::vector<Row>& rows) {
  const auto named = [](const char* name) {
    return [name](const Row& row) { return row.contender == name; };
  };
  const auto is_mpi = [](const Row& row) {
    return row.contender == "openmpi" || row.contender == "mpich";
  };
  const auto gloo = best_of(rows, "gloo", named("gloo"));
  const auto mpi = best_of(rows, "best MPI", is_mpi);
  const auto floor = best_of(rows, "memory floor", named("memory-floor"));
  std::string text;
  for (const auto& peer : {gloo, mpi}) {
    for (const Row& row : rows) {
      if (!peer || row.contender != "tally") continue;
      text += ratio_line(row.title + " / " + peer->title, row, *peer, 1, "");
    }
  }
  for (const Row& row : rows) {
    if (!floor || row.contender == "memory-floor") continue;
    text += ratio_line("floor / " + row.title, *floor, row, 100, " %");
  }
  return text;
}

std::string table_text(const Comparison& comparison, int ranks) {
  const std::vector<Row> rows = rows_of(comparison);
  if (rows.empty()) return "nothing was measured\n";
  const std::size_t columns = rows.front().medians.size();
  std::string text = fmt::format(
      "all-reduce of float32 in place, ranks: {}, cores: {}, rounds: {}; median us per call\n\n",
      ranks, usable_cores(), comparison.rounds);
  text += line_text("", columns,
                    [&](std::size_t i) { return format_bytes(comparison.measurements[i].bytes); });
  for (const Row& row : rows) {
    text += line_text(row.title, columns, [&](std::size_t i) -> std::string {
      return row.medians[i] ? number_text(*row.medians[i]) : "-";
    });
  }
  text += fmt::format("\n{}\n{}\n", ratio_lines(rows), kMemoryFloorFormula);
  return text + failures_text(comparison.failures.texts);
}

}  // namespace

Report report_on(const Comparison& comparison, int ranks, const std::string& algorithm) {
  Report report{.table = table_text(comparison, ranks),
                .failed = !comparison.failures.texts.empty()};
  for (const auto& [contender, bytes, sum] : comparison.measurements) {
    if (sum.samples_us.empty()) continue;
    const double median_us = median(sum.samples_us);
    Json& line = report.lines.emplace_back();
    line["contender"] = contender.name;
    line["transport"] = contender.transport;
    line["ranks"] = ranks;
    line["bytes"] = bytes;
    line["median_us"] = median_us;
    line["spread_us"] = spread(sum.samples_us);
    line["least_us"] = quantile(sum.samples_us, 0);
    line["busbw_gbps"] = bus_bandwidth(bytes, median_us, ranks);
    line["checked"] = contender.name != "memory-floor";
    line["algorithm"] = contender.name == "tally" ? algorithm : "default";
    line["version"] = contender.version;
    line["rounds"] = comparison.rounds;
    line["samples"] = sum.samples_us.size();
    line["runs"] = sum.calls;
    if (sum.bytes_sent >= 0) line["bytes_sent"] = sum.bytes_sent;
  }
  return report;
}

}  // namespace tally::bench
