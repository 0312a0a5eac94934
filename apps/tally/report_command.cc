#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "apps/tally/commands.h"
#include "apps/tally/outputs.h"
#include "apps/train/report_comparison.h"
#include "base/counted.h"

namespace tally::app {
namespace {

constexpr const char* kReportFooter = R"(
Examples:
  tally report run.json                             the report of one training
  tally report bsp.json asp.json --to policies.html
  tally report sweep.json                           all trainings that were appended to one file

FILE has the lines that `tally train --json FILE` appends, one for each training. The page is one
file without links; the charts of several runs have one curve for each, and a table shows their
final figures and the settings in which they differ.)";

struct ReportOptions {
  std::vector<std::string> files;
  std::string to;  // empty: report.html, or comparison.html for several runs
};

Result<void> write_report(const ReportOptions& options) {
  std::vector<NamedRecord> runs;
  for (const std::string& file : options.files) {
    TALLY_TRY(std::vector<NamedRecord> read, read_records(file));
    std::move(read.begin(), read.end(), std::back_inserter(runs));
  }
  const bool single = runs.size() == 1;
  // A training may have written its own report.html here.
  const std::string usual = single ? "report.html" : "comparison.html";
  const std::string to = options.to.empty() ? usual : options.to;
  TALLY_TRY(check_writable_file("--to", to));
  TALLY_TRY(write_file(to, single ? report_html(runs.front().record) : comparison_html(runs)));
  fmt::print("report of {} in {}\n", counted(runs.size(), "run"), to);
  return {};
}

}  // namespace

void add_report_command(Command top) {
  Command command = top.add_command("report", "Put trainings side by side on one HTML page");
  command.footer(kReportFooter);
  const auto o = std::make_shared<ReportOptions>();
  command.add("FILE", &o->files, "Records of `tally train --json`",
              {.value = "...", .required = true});
  command.add("--to", &o->to,
              "Write the page to FILE; default: report.html, or comparison.html for several runs",
              {.value = "FILE"});
  command.action([o] { return exit_code_of(write_report(*o), "tally report"); });
}

}  // namespace tally::app
