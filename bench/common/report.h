#pragma once
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace tally::bench {

using Json = nlohmann::ordered_json;

// The result of a benchmark: a text for people, and one JSON object for each thing measured.
struct Report {
  std::string table;
  std::vector<Json> lines;
  bool failed = false;  // a contender that was asked for failed or is missing
};

// Prints the table and appends the lines to the file `json`; "-" is stdout, empty: nothing is
// written. Each line begins with `bench`, the commit, the host and its cores. Returns the exit code
// of the benchmark: 130 if it was interrupted, 1 if something failed or the file cannot be written,
// else 0.
int publish(const Report& report, const std::string& bench, const std::string& commit,
            const std::string& json);

// A required and a measured figure.
struct Target {
  std::string what;
  double wanted = 0;
  double seen = 0;
  const char* unit = "x";  // "%": of shares, shown times 100
  bool met() const { return seen >= wanted; }
};
// Returns one line per target below a heading, the first column `width` wide; empty without
// targets.
std::string targets_text(const std::string& heading, int width, const std::vector<Target>& targets);

// "\nfailed: TEXT\n" for each.
std::string failures_text(const std::vector<std::string>& failures);

}  // namespace tally::bench
