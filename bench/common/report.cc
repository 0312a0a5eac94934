#include "bench/common/report.h"

#include <cstdio>
#include <fstream>
#include <iostream>
#include <string_view>

#include <fmt/format.h>

#include "base/cpu.h"
#include "group/host.h"
#include "process/interrupt.h"

namespace tally::bench {

int publish(const Report& report, const std::string& bench, const std::string& commit,
            const std::string& json) {
  fmt::print("{}", report.table);
  std::fflush(stdout);  // before output of std::cout
  std::ofstream file;
  if (!json.empty() && json != "-") file.open(json, std::ios::app);
  std::ostream& out = json == "-" ? std::cout : file;
  for (const Json& figures : report.lines) {
    if (json.empty()) break;
    Json line{{"bench", bench},
              {"commit", commit},
              {"host", group::host_name()},
              {"cores", usable_cores()}};
    line.update(figures);
    out << line.dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
  }
  if (file.is_open()) file.close();
  if (!file) fmt::print(stderr, "cannot write {}\n", json);
  if (process::interrupted() != 0) return process::kInterruptedExitCode;
  return file && !report.failed ? 0 : 1;
}

std::string targets_text(const std::string& heading, int width,
                         const std::vector<Target>& targets) {
  std::string text;
  for (const Target& target : targets) {
    const auto cell = [&](double value) {
      return target.unit == std::string_view("%") ? fmt::format("{:.0f} %", 100 * value)
                                                  : fmt::format("{:.2f}{}", value, target.unit);
    };
    if (text.empty())
      text = fmt::format("\n{:<{}}{:>10}{:>10}\n", heading, width, "wanted", "seen");
    text += fmt::format("{:<{}}{:>10}{:>10}  {}\n", target.what, width, cell(target.wanted),
                        cell(target.seen), target.met() ? "met" : "missed");
  }
  return text;
}

std::string failures_text(const std::vector<std::string>& failures) {
  std::string text;
  for (const std::string& failure : failures) text += "\nfailed: " + failure + "\n";
  return text;
}

}  // namespace tally::bench
