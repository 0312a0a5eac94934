#pragma once
#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace tally::bench {

// The facts that every JSON line of a result has.
struct HostFacts {
  std::string commit = {};
  std::string host = {};
  int cores = 1;
};
HostFacts host_facts(std::string commit);

// The first fields of a JSON line: bench, commit, host, cores.
nlohmann::ordered_json json_line(const char* bench, const HostFacts& facts);

// Prints the table and appends the output of `write_json` to the file `json`; "-" is stdout, empty:
// nothing is written. Returns the exit code of the benchmark: 130 if it was interrupted, 1 if
// something failed or the file cannot be written, else 0.
int publish(const std::string& table, const std::string& json,
            const std::function<void(std::ostream&)>& write_json, bool failed = false);

// "\nfailed: TEXT\n" for each.
std::string failures_text(const std::vector<std::string>& failures);

}  // namespace tally::bench
