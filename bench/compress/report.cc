#include "bench/compress/comparison.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "base/cpu.h"
#include "bench/common/statistics.h"

namespace tally::bench::compress {
namespace {

constexpr double kBestWanted = 3;
constexpr double kAutoOfBest = 1 / 1.10;
constexpr double kAutoOfFirst = 1 / 1.03;
constexpr const char* kAuto = "codec=auto";

// The measurements of one model and link; the first plan first.
struct Table {
  std::string model;
  std::string link;
  std::vector<const Measurement*> rows;
};

std::vector<Table> tables_of(const PlanComparison& comparison) {
  std::vector<Table> tables;
  for (const Measurement& m : comparison.measurements) {
    if (m.samples_ms.empty()) continue;
    if (tables.empty() || tables.back().model != m.model || tables.back().link != m.link)
      tables.push_back({.model = m.model, .link = m.link, .rows = {}});
    tables.back().rows.push_back(&m);
  }
  return tables;
}

double ms(const Measurement& m) { return median(m.samples_ms); }

double gain(const Table& table, const Measurement& m) { return ms(*table.rows.front()) / ms(m); }

const Measurement& fastest(const Table& table) {
  return **std::min_element(table.rows.begin(), table.rows.end(),
                            [](const auto* a, const auto* b) { return ms(*a) < ms(*b); });
}

const Measurement* own_choice(const Table& table) {
  for (const Measurement* m : table.rows)
    if (m->plan == kAuto) return m;
  return nullptr;
}

}  // namespace

std::vector<Target> targets_of(const PlanComparison& comparison) {
  std::vector<Target> targets;
  for (const Table& table : tables_of(comparison)) {
    const Measurement& best = fastest(table);
    const std::string where = fmt::format("{}, {}", table.model, table.link);
    if (table.model == "mlp" && table.link == "1gbit" && table.rows.size() > 1)
      targets.push_back({.what = fmt::format("{}: best ({}) over {}", where, short_name(best.plan),
                                             short_name(table.rows.front()->plan)),
                         .wanted = kBestWanted,
                         .seen = gain(table, best)});
    const Measurement* const own = own_choice(table);
    if (own == nullptr || table.rows.size() < 2) continue;
    targets.push_back(
        {.what = fmt::format("{}: auto over the best ({})", where, short_name(best.plan)),
         .wanted = kAutoOfBest,
         .seen = ms(best) / ms(*own)});
    targets.push_back(
        {.what = fmt::format("{}: auto over {}", where, short_name(table.rows.front()->plan)),
         .wanted = kAutoOfFirst,
         .seen = gain(table, *own)});
  }
  return targets;
}

Report report_on(const PlanComparison& comparison, int threads) {
  Report report{.failed = !comparison.failures.texts.empty()};
  std::string& text = report.table;
  text = fmt::format(
      "two hosts with a worker each, threads per worker: {}, cores of the machine: {}\n", threads,
      usable_cores());
  for (const Table& table : tables_of(comparison)) {
    text += fmt::format("\n{}, link {}\n  {:<30}{:>10}{:>10}{:>12}{:>9}{:>11}\n", table.model,
                        table.link, "plan", "ms/step", "spread", "MB/step", "gain", "loss ratio");
    for (const Measurement* m : table.rows) {
      text +=
          fmt::format("  {:<30}{:>10.2f}{:>10.2f}{:>12.3f}{:>8.2f}x{:>11.4f}\n",
                      short_name(m->plan), ms(*m), spread(m->samples_ms),
                      median(m->sent_bytes) / kBytesPerMegabyte, gain(table, *m), m->loss_ratio);
      Json& line = report.lines.emplace_back();
      line["threads"] = threads;
      line["model"] = m->model;
      line["link"] = m->link;
      line["plan"] = m->plan;
      line["runs"] = m->samples_ms.size();
      line["median_ms"] = ms(*m);
      line["spread_ms"] = spread(m->samples_ms);
      line["sent_bytes_per_step"] = median(m->sent_bytes);
      line["gain"] = gain(table, *m);
      line["loss_ratio"] = m->loss_ratio;
      if (!m->said.empty()) line["said"] = m->said;
    }
    if (const Measurement* own = own_choice(table); own != nullptr && !own->said.empty())
      text += fmt::format("  auto: {}\n", own->said);
  }
  text += targets_text("what is asked", 52, targets_of(comparison));
  text += failures_text(comparison.failures.texts);
  return report;
}

}  // namespace tally::bench::compress
