#include "bench/server/run.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "base/cpu.h"
#include "bench/common/statistics.h"
#include "bench/server/worker.h"
#include "group/host.h"

namespace tally::bench::servers {
namespace {

// Returns GB/s of a figure that counts bytes: sparse rows by their bytes on the wire, in both
// directions.
std::optional<double> gigabytes(const std::string& name, double value) {
  if (name.rfind("dense", 0) == 0) return value;
  if (name == "sparse push d1") return value * (8.0 + 4.0) / 1e3;
  if (name == "sparse push-and-pull d1") return value * bytes_per_key(1) / 1e3;
  if (name == "sparse push-and-pull d64") return value * bytes_per_key(64) / 1e3;
  return std::nullopt;
}

const char* unit_of(const std::string& name) {
  if (name.rfind("dense", 0) == 0) return "GB/s";
  return name.rfind("sparse", 0) == 0 ? "Mkeys/s" : "us";
}

// The figures of one case in all runs.
struct Figures {
  std::vector<double> values;
  std::vector<double> shares;  // relative to the raw figure of the same run; of cases with bytes
};

Figures figures_of(const std::vector<Outcome>& outcomes, const std::string& name) {
  Figures figures;
  for (const Outcome& outcome : outcomes) {
    const auto found = outcome.sums.find(name);
    if (found == outcome.sums.end()) continue;
    figures.values.push_back(found->second);
    if (const auto rate = gigabytes(name, found->second))
      figures.shares.push_back(*rate / outcome.raw);
  }
  return figures;
}

}  // namespace

Report report_on(const std::vector<Series>& all, bool failed) {
  Report report{.failed = failed};
  report.table = fmt::format("{} cores, {}; raw: iperf3 for tcp and tls, a memory copy for shm\n",
                             usable_cores(), group::host_name());
  for (const auto& [setting, outcomes] : all) {
    if (outcomes.empty()) continue;
    std::vector<double> raw;
    for (const Outcome& outcome : outcomes) raw.push_back(outcome.raw);
    report.table +=
        fmt::format("\n{}, {} worker{}, {} server{}; raw {:.2f} GB/s; {} runs\n", setting.transport,
                    setting.workers, setting.workers == 1 ? "" : "s", setting.servers,
                    setting.servers == 1 ? "" : "s", median(raw), outcomes.size());
    for (const std::string_view each : kCases) {
      const std::string name(each);
      const auto [values, shares] = figures_of(outcomes, name);
      if (values.empty()) continue;
      report.table += fmt::format("  {:<26}{:>10.2f} {:<8}", name, median(values), unit_of(name));
      report.table +=
          shares.empty() ? "\n" : fmt::format("{:>6.0f} % of raw\n", 100 * median(shares));
      Json& line = report.lines.emplace_back();
      line["transport"] = setting.transport;
      line["workers"] = setting.workers;
      line["servers"] = setting.servers;
      line["case"] = name;
      line["unit"] = unit_of(name);
      line["runs"] = values.size();
      line["median"] = median(values);
      line["spread"] = spread(values);
      line["raw_gb_per_s"] = median(raw);
      if (!shares.empty()) line["share_of_raw"] = median(shares);
    }
  }
  return report;
}

}  // namespace tally::bench::servers
