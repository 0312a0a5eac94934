#include "apps/tally/status_table.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/tally/command_line.h"
#include "apps/train/report_parts.h"
#include "base/counted.h"

namespace tally::app {
namespace {

using group::MemberStatus;
using group::Presence;
using group::seconds_text;

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

// Returns how long the rank has been in its present state.
Duration since(const MemberStatus& member) {
  return member.silence.value_or(Duration{}) + (member.report->at - member.report->since());
}

std::string bytes_text(std::uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (value >= 1024.0 * 1024 * 1024)
    return fmt::format("{:.1f} GiB", value / (1024.0 * 1024 * 1024));
  return fmt::format("{:.0f} MiB", value / (1024.0 * 1024));
}

std::string rate_text(double per_second) {
  if (per_second == 0) return "-";
  return fmt::format("{:.{}f}", per_second, per_second < 100 ? 1 : 0);
}

// Names that end so are those of times.
constexpr std::string_view kSecondsSuffix = "_s";

std::string figure_text(const Figure& figure) {
  const bool is_time = figure.name.ends_with(kSecondsSuffix);
  if (!is_time) return number_text(figure.value);
  constexpr double kMostSeconds = 1e9;
  if (!(figure.value >= 0 && figure.value < kMostSeconds)) return "-";
  const std::chrono::duration<double> time(figure.value);
  return seconds_text(std::chrono::duration_cast<Duration>(time));
}

std::string column_name(const std::string& figure) {
  const bool is_time = figure.ends_with(kSecondsSuffix);
  return figure.substr(0, figure.size() - (is_time ? kSecondsSuffix.size() : 0));
}

// The names of the figures of all ranks.
std::vector<std::string> figure_names(const group::JobStatus& status) {
  std::vector<std::string> names;
  for (const MemberStatus& member : status.members) {
    if (!member.report) continue;
    for (const Figure& figure : member.report->figures)
      if (std::find(names.begin(), names.end(), figure.name) == names.end())
        names.push_back(figure.name);
  }
  return names;
}

std::string figure_of(const MemberStatus& member, const std::string& name) {
  if (!member.report) return "-";
  for (const Figure& figure : member.report->figures)
    if (figure.name == name) return figure_text(figure);
  return "-";
}

using Row = std::vector<std::string>;

std::string lay_out(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths(rows.front().size(), 0);
  for (const Row& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) line += fmt::format("{:<{}}  ", row[i], widths[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace

std::string state_word(const MemberStatus& member) {
  if (member.presence != Presence::kPresent) return std::string(to_string(member.presence));
  if (!member.report) return "expected";
  if (member.report->failure) return "failed";
  if (member.report->joining) return "joining";
  if (!member.report->current) return "computing";
  return member.report->current->waits_for.empty() ? "operating" : "waiting";
}

std::string state_text(const MemberStatus& member) {
  const std::string word = state_word(member);
  if (word == "lost") return fmt::format("lost: {}", member.fate);
  if (word == "left" && member.report && member.report->failure)
    return fmt::format("left after a failure: {}", plain_text(*member.report->failure));
  if (word == "expected") return "not heard of yet";
  if (word == "unreachable")
    return fmt::format("unreachable for {}", seconds_text(member.silence.value_or(Duration{})));
  if (word == "failed") return fmt::format("failed: {}", plain_text(*member.report->failure));
  if (word == "joining") return fmt::format("joining for {}", seconds_text(since(member)));
  if (word == "computing") return fmt::format("computing for {}", seconds_text(since(member)));
  if (word == "left") return word;
  const auto& operation = *member.report->current;
  std::string text = fmt::format("in {}", tally::describe(operation.record));
  if (operation.channel != 0) text += fmt::format(" on {}", operation.communicator);
  text += fmt::format(" for {}", seconds_text(since(member)));
  if (word == "waiting")
    text += fmt::format(", waiting for {}", group::ranks_text(operation.waits_for));
  return text;
}

std::string status_table(const group::JobStatus& status) {
  std::string text =
      fmt::format("job {}, generation {}, {}, coordinator at {}, up for {}\n", status.job,
                  status.generation, counted(static_cast<std::uint64_t>(status.size), "rank"),
                  status.address, seconds_text(status.uptime));
  if (!status.stall.empty()) text += fmt::format("stalled: {}\n", status.stall);
  const std::vector<std::string> figures = figure_names(status);
  std::vector<Row> rows{{"rank", "host", "pid", "step"}};
  for (const std::string& name : figures) rows.back().push_back(column_name(name));
  for (const char* const name : {"samples/s", "memory", "heartbeat", "state"})
    rows.back().emplace_back(name);
  for (const MemberStatus& member : status.members) {
    const bool known = member.report.has_value();
    Row row = {std::to_string(member.rank), member.host.empty() ? "-" : member.host,
               member.pid == 0 ? "-" : std::to_string(member.pid),
               known ? std::to_string(member.report->step) : "-"};
    for (const std::string& name : figures) row.push_back(figure_of(member, name));
    row.push_back(known ? rate_text(member.samples_per_second) : "-");
    row.push_back(known ? bytes_text(member.report->memory_bytes) : "-");
    row.push_back(member.silence ? seconds_text(*member.silence) + " ago" : "-");
    row.push_back(state_text(member));
    rows.push_back(std::move(row));
  }
  return text + lay_out(rows);
}

nlohmann::ordered_json status_json(const group::JobStatus& status) {
  nlohmann::ordered_json job;
  job["job"] = status.job;
  job["generation"] = status.generation;
  job["size"] = status.size;
  job["coordinator"] = status.address;
  job["uptime_s"] = seconds(status.uptime);
  job["stall"] = status.stall;
  job["ranks"] = nlohmann::ordered_json::array();
  for (const MemberStatus& member : status.members) {
    nlohmann::ordered_json rank;
    rank["rank"] = member.rank;
    rank["state"] = state_word(member);
    rank["text"] = state_text(member);
    rank["host"] = member.host;
    rank["pid"] = member.pid;
    if (member.silence) rank["heartbeat_age_s"] = seconds(*member.silence);
    if (!member.fate.empty()) rank["fate"] = member.fate;
    if (member.report) {
      const group::Report& report = *member.report;
      rank["since_s"] = seconds(since(member));
      rank["step"] = report.step;
      for (const Figure& figure : report.figures) rank["figures"][figure.name] = figure.value;
      rank["samples"] = report.samples;
      rank["samples_per_second"] = member.samples_per_second;
      rank["memory_bytes"] = report.memory_bytes;
      rank["operations"] = report.operations;
      if (report.current) {
        rank["operation"] = tally::describe(report.current->record);
        rank["communicator"] = report.current->communicator;
        rank["waits_for"] = report.current->waits_for;
      }
      if (report.last) rank["last_operation"] = tally::describe(report.last->record);
      if (report.failure) rank["failure"] = to_string(*report.failure);
    }
    job["ranks"].push_back(std::move(rank));
  }
  return job;
}

}  // namespace tally::app
