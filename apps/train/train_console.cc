#include "apps/train/train_console.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include <fmt/format.h>

namespace tally::app {
namespace {

constexpr const char* kEraseLine = "\033[K";

std::string accuracy_text(double accuracy) {
  return fmt::format("accuracy {:.2f} %", accuracy * 100);
}

// "3/8", or "3" if the total is unknown.
std::string epoch_text(const ProgressFacts& facts) {
  const std::uint64_t epoch = static_cast<std::uint64_t>(facts.epochs) + 1;
  if (facts.epoch_count == 0) return std::to_string(epoch);
  return fmt::format("{}/{}", std::min(epoch, facts.epoch_count), facts.epoch_count);
}

// The parts of a line of progress, in the full or the short form.
std::vector<std::string> parts_of(const ProgressFacts& facts, bool full) {
  std::vector<std::string> parts = {"epoch " + epoch_text(facts),
                                    fmt::format("step {}/{}", facts.step, facts.step_count),
                                    fmt::format("loss {:.4f}", facts.loss)};
  if (facts.accuracy)
    parts.push_back(full ? accuracy_text(*facts.accuracy)
                         : fmt::format("acc {:.1f}%", *facts.accuracy * 100));
  parts.push_back(short_count(facts.units_per_s) + (full ? " " + facts.unit : "") + "/s");
  const TimeShares& shares = facts.shares;
  parts.push_back(fmt::format(
      fmt::runtime(full ? "compute {:.0f} %, communicate {:.0f} %, wait {:.0f} %, data {:.0f} %"
                        : "{:.0f}/{:.0f}/{:.0f}/{:.0f}%"),
      shares.compute * 100, shares.communicate * 100, shares.wait * 100, shares.data * 100));
  parts.push_back("left " + clock_text(facts.left));
  return parts;
}

// Joins as many parts as fit into less than `columns`; 0: all.
std::string joined(const std::vector<std::string>& parts, std::string_view between, int columns) {
  std::string line;
  for (const std::string& part : parts) {
    const std::string more = line.empty() ? part : fmt::format("{}{}", between, part);
    if (columns > 0 && line.size() + more.size() >= static_cast<std::size_t>(columns)) break;
    line += more;
  }
  return line;
}

}  // namespace

TimeShares shares_of(Duration compute, Duration communicate, Duration wait, Duration data) {
  const auto all = static_cast<double>((compute + communicate + wait + data).count());
  if (!(all > 0)) return {};
  const auto share = [all](Duration part) { return static_cast<double>(part.count()) / all; };
  return {share(compute), share(communicate), share(wait), share(data)};
}

std::string clock_text(Duration duration) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(duration).count();
  if (seconds >= 3600)
    return fmt::format("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
  return fmt::format("{}:{:02}", seconds / 60, seconds % 60);
}

std::string short_count(double count) {
  if (count < 9999.5) return fmt::format("{:.0f}", count);
  const bool thousands = count < 999500;
  const double scaled = count / (thousands ? 1e3 : 1e6);
  const int digits = scaled < 9.995 ? 2 : scaled < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f}{}", scaled, digits, thousands ? "k" : "M");
}

std::string progress_line(const ProgressFacts& facts, int columns) {
  const std::string full = joined(parts_of(facts, true), "  ", 0);
  if (columns == 0 || full.size() < static_cast<std::size_t>(columns)) return full;
  return joined(parts_of(facts, false), " ", columns);
}

std::string evaluation_line(const EvaluationFacts& facts) {
  std::string line = fmt::format("epoch {:<5.4g} step {:<6}", facts.epochs, facts.step);
  if (facts.train_loss) line += fmt::format("  train loss {:.4f}", *facts.train_loss);
  line += fmt::format("  test loss {:.4f}", facts.test_loss);
  if (facts.accuracy) line += "  " + accuracy_text(*facts.accuracy);
  if (facts.auc) line += fmt::format("  AUC {:.4f}", *facts.auc);
  return line + "  after " + clock_text(facts.elapsed);
}

void TrainConsole::progress(const ProgressFacts& facts) {
  if (options_.silent || !options_.progress) return;
  if (options_.columns == 0) {
    fmt::print("{}\n", progress_line(facts, 0));
  } else {
    fmt::print("{}{}\r", progress_line(facts, options_.columns), kEraseLine);
    shown_ = true;
  }
  std::fflush(stdout);
}

void TrainConsole::say(const std::string& text) {
  if (options_.silent) return;
  erase();
  fmt::print("{}\n", text);
  std::fflush(stdout);
}

void TrainConsole::erase() {
  if (shown_) fmt::print("{}", kEraseLine);
  shown_ = false;
}

}  // namespace tally::app
