#include "bench/common/report.h"

#include <fstream>
#include <iostream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/cpu.h"
#include "group/host.h"
#include "process/interrupt.h"

namespace tally::bench {
namespace {

bool append(const std::string& path, const std::function<void(std::ostream&)>& write) {
  if (path.empty()) return true;
  if (path == "-") {
    write(std::cout);
    return true;
  }
  std::ofstream file(path, std::ios::app);
  write(file);
  file.close();
  if (!file) fmt::print(stderr, "cannot write {}\n", path);
  return static_cast<bool>(file);
}

}  // namespace

HostFacts host_facts(std::string commit) {
  return {.commit = std::move(commit), .host = group::host_name(), .cores = usable_cores()};
}

nlohmann::ordered_json json_line(const char* bench, const HostFacts& facts) {
  return {{"bench", bench}, {"commit", facts.commit}, {"host", facts.host}, {"cores", facts.cores}};
}

int publish(const std::string& table, const std::string& json,
            const std::function<void(std::ostream&)>& write_json, bool failed) {
  fmt::print("{}", table);
  std::fflush(stdout);  // before output of std::cout
  const bool saved = append(json, write_json);
  if (process::interrupted() != 0) return process::kInterruptedExitCode;
  return saved && !failed ? 0 : 1;
}

std::string failures_text(const std::vector<std::string>& failures) {
  std::string text;
  for (const std::string& failure : failures) text += "\nfailed: " + failure + "\n";
  return text;
}

}  // namespace tally::bench
