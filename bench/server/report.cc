#include "bench/server/report.h"

#include <algorithm>
#include <optional>
#include <ostream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/common/statistics.h"
#include "bench/server/worker.h"

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

std::vector<double> values_of(const Series& series, const std::string& name) {
  std::vector<double> values;
  for (const Outcome& outcome : series.outcomes)
    if (const auto found = outcome.sums.find(name); found != outcome.sums.end())
      values.push_back(found->second);
  return values;
}

// Returns the figures relative to the raw figure of the same run.
std::vector<double> shares_of(const Series& series, const std::string& name) {
  std::vector<double> shares;
  for (const Outcome& outcome : series.outcomes) {
    const auto found = outcome.sums.find(name);
    if (found == outcome.sums.end()) continue;
    if (const auto rate = gigabytes(name, found->second)) shares.push_back(*rate / outcome.raw);
  }
  return shares;
}

std::vector<double> raw_of(const Series& series) {
  std::vector<double> raw;
  for (const Outcome& outcome : series.outcomes) raw.push_back(outcome.raw);
  return raw;
}

}  // namespace

std::string table_text(const std::vector<Series>& all, const HostFacts& machine) {
  std::string text =
      fmt::format("{} cores, {}; raw: iperf3 for tcp and tls, a memory copy for shm\n",
                  machine.cores, machine.host);
  for (const Series& series : all) {
    if (series.outcomes.empty()) continue;
    const Setting& setting = series.setting;
    text += fmt::format("\n{}, {} worker{}, {} server{}; raw {:.2f} GB/s; {} runs\n",
                        setting.transport, setting.workers, setting.workers == 1 ? "" : "s",
                        setting.servers, setting.servers == 1 ? "" : "s", median(raw_of(series)),
                        series.outcomes.size());
    for (const std::string_view each : kCases) {
      const std::string name(each);
      const std::vector<double> values = values_of(series, name);
      if (values.empty()) continue;
      text += fmt::format("  {:<26}{:>10.2f} {:<8}", name, median(values), unit_of(name));
      const std::vector<double> shares = shares_of(series, name);
      text += shares.empty() ? "\n" : fmt::format("{:>6.0f} % of raw\n", 100 * median(shares));
    }
  }
  return text;
}

void write_json(std::ostream& out, const std::vector<Series>& all, const HostFacts& machine) {
  for (const Series& series : all) {
    for (const std::string_view each : kCases) {
      const std::string name(each);
      const std::vector<double> values = values_of(series, name);
      if (values.empty()) continue;
      nlohmann::ordered_json line = json_line("server", machine);
      line["transport"] = series.setting.transport;
      line["workers"] = series.setting.workers;
      line["servers"] = series.setting.servers;
      line["case"] = name;
      line["unit"] = unit_of(name);
      line["runs"] = values.size();
      line["median"] = median(values);
      line["spread"] = spread(values);
      line["raw_gb_per_s"] = median(raw_of(series));
      const std::vector<double> shares = shares_of(series, name);
      if (!shares.empty()) line["share_of_raw"] = median(shares);
      out << line.dump() << '\n';
    }
  }
}

}  // namespace tally::bench::servers
