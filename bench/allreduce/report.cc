#include "bench/allreduce/report.h"

#include <algorithm>
#include <optional>
#include <ostream>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "bench/allreduce/contender.h"
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
  if (measurement.contender == "tally") return "tally " + measurement.transport;
  return measurement.contender;
}

std::vector<Row> rows_of(const Comparison& comparison) {
  std::vector<Row> rows;
  for (const Measurement& m : comparison.measurements) {
    if (rows.empty() || rows.back().title != title_of(m)) {
      rows.push_back({.title = title_of(m), .contender = m.contender});
    }
    rows.back().medians.push_back(m.samples_us.empty() ? std::nullopt
                                                       : std::optional(median(m.samples_us)));
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

}  // namespace

std::string table_text(const Comparison& comparison, const ReportContext& context) {
  const std::vector<Row> rows = rows_of(comparison);
  if (rows.empty()) return "nothing was measured\n";
  const std::size_t columns = rows.front().medians.size();
  std::string text = fmt::format(
      "all-reduce of float32 in place, ranks: {}, cores: {}, rounds: {}; median us per call\n\n",
      context.ranks, context.machine.cores, comparison.rounds);
  text += line_text("", columns,
                    [&](std::size_t i) { return format_bytes(comparison.measurements[i].bytes); });
  for (const Row& row : rows) {
    text += line_text(row.title, columns, [&](std::size_t i) -> std::string {
      return row.medians[i] ? number_text(*row.medians[i]) : "-";
    });
  }
  text += fmt::format("\n{}\n{}\n", ratio_lines(rows), kMemoryFloorFormula);
  return text + failures_text(comparison.failures);
}

void write_json(std::ostream& out, const Comparison& comparison, const ReportContext& context) {
  for (const Measurement& m : comparison.measurements) {
    if (m.samples_us.empty()) continue;
    const double median_us = median(m.samples_us);
    nlohmann::ordered_json line = json_line("allreduce", context.machine);
    line["contender"] = m.contender;
    line["transport"] = m.transport;
    line["ranks"] = context.ranks;
    line["bytes"] = m.bytes;
    line["median_us"] = median_us;
    line["spread_us"] = spread(m.samples_us);
    line["least_us"] = quantile(m.samples_us, 0);
    line["busbw_gbps"] = bus_bandwidth(m.bytes, median_us, context.ranks);
    line["checked"] = m.contender != "memory-floor";
    line["algorithm"] = m.contender == "tally" ? context.algorithm : "default";
    line["version"] = m.version;
    line["rounds"] = comparison.rounds;
    line["samples"] = m.samples_us.size();
    line["runs"] = m.calls;
    if (m.bytes_sent >= 0) line["bytes_sent"] = m.bytes_sent;
    out << line.dump() << "\n";
  }
}

}  // namespace tally::bench
