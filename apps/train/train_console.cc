#include "apps/train/train_console.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <fmt/format.h>

#include "apps/train/report_parts.h"

namespace tally::app {
namespace {

constexpr const char* kEraseLine = "\033[K";
// Characters of a bar.
constexpr std::size_t kLeastBar = 8;
constexpr std::size_t kMostBar = 24;

std::string accuracy_text(double accuracy) {
  return fmt::format("accuracy {:.2f} %", accuracy * 100);
}

// "3/8", or "3" if the total is unknown.
std::string epoch_text(const ProgressFacts& facts) {
  const std::uint64_t epoch = static_cast<std::uint64_t>(facts.epochs) + 1;
  if (facts.epoch_count == 0) return std::to_string(epoch);
  return fmt::format("{}/{}", std::min(epoch, facts.epoch_count), facts.epoch_count);
}

enum class Form { kFull, kShort, kShortest };

std::string shares_text(const TimeShares& shares, Form form) {
  return fmt::format(
      fmt::runtime(form == Form::kFull
                       ? "compute {:.0f} %, communicate {:.0f} %, wait {:.0f} %, data {:.0f} %"
                       : "compute {:.0f}% comm {:.0f}% wait {:.0f}% data {:.0f}%"),
      shares.compute * 100, shares.communicate * 100, shares.wait * 100, shares.data * 100);
}

// The parts of a line of progress.
std::vector<std::string> parts_of(const ProgressFacts& facts, Form form) {
  const bool full = form == Form::kFull;
  std::vector<std::string> parts = {"epoch " + epoch_text(facts),
                                    fmt::format("step {}/{}", facts.step, facts.step_count),
                                    fmt::format("loss {:.4f}", facts.loss)};
  if (facts.accuracy)
    parts.push_back(full ? accuracy_text(*facts.accuracy)
                         : fmt::format("acc {:.1f}%", *facts.accuracy * 100));
  parts.push_back(short_count(facts.units_per_s) + (full ? " " + facts.unit : "") + "/s");
  if (form != Form::kShortest) parts.push_back(shares_text(facts.shares, form));
  parts.push_back("left " + clock_text(facts.left));
  return parts;
}

std::string repeated(std::string_view text, std::size_t count) {
  std::string all;
  for (std::size_t i = 0; i < count; ++i) all += text;
  return all;
}

// A bar of `width` characters, of which the completed share is filled.
std::string bar(const ProgressFacts& facts, std::size_t width, const TerminalStyle& style) {
  const double share = facts.step_count == 0 ? 0
                                             : static_cast<double>(facts.step) /
                                                   static_cast<double>(facts.step_count);
  const auto filled = std::min(width, static_cast<std::size_t>(share * static_cast<double>(width)));
  const std::string done = repeated(style.blocks ? "\u2588" : "#", filled);
  const std::string rest = repeated(style.blocks ? "\u2591" : ".", width - filled);
  return style.colour ? fmt::format("\x1b[32m{}\x1b[0m{}", done, rest) : done + rest;
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

TerminalStyle style_of(const std::function<const char*(const char* name)>& variable) {
  const auto text = [&](const char* name) {
    const char* const value = variable(name);
    return std::string(value == nullptr ? "" : value);
  };
  std::string locale;
  for (const char* const name : {"LC_ALL", "LC_CTYPE", "LANG"})
    if (locale.empty()) locale = text(name);
  std::transform(locale.begin(), locale.end(), locale.begin(),
                 [](char c) { return static_cast<char>(std::tolower(c)); });
  return {.colour = text("NO_COLOR").empty(),
          .blocks = locale.find("utf-8") != std::string::npos ||
                    locale.find("utf8") != std::string::npos};
}

std::string progress_line(const ProgressFacts& facts, int columns, const TerminalStyle& style) {
  const std::string full = joined(parts_of(facts, Form::kFull), "  ", 0);
  if (columns == 0) return full;
  const auto room = static_cast<std::size_t>(columns);
  for (const std::string& text : {full, joined(parts_of(facts, Form::kShort), " ", 0),
                                  joined(parts_of(facts, Form::kShortest), " ", 0)}) {
    // A space stands between bar and text, and the last column stays free.
    if (text.size() + kLeastBar + 2 > room) continue;
    return bar(facts, std::min(kMostBar, room - text.size() - 2), style) + " " + text;
  }
  return joined(parts_of(facts, Form::kShortest), " ", columns);
}

std::string wrapped(std::string_view text, int columns) {
  constexpr std::string_view kIndent = "    ";
  const auto room = static_cast<std::size_t>(columns);
  std::string lines;
  std::size_t used = 0;  // of the last line
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    if (used > 0 && columns > 0 && used + 1 + word.size() >= room) {
      lines += fmt::format("\n{}", kIndent);
      used = kIndent.size();
    } else if (used > 0) {
      lines += ' ';
      ++used;
    }
    lines += word;
    used += word.size();
  }
  return lines;
}

std::string evaluation_line(const EvaluationFacts& facts) {
  std::string line = fmt::format("epoch {:<5} step {:<6}", number_text(facts.epochs), facts.step);
  if (facts.train_loss) line += fmt::format("  train loss {:.4f}", *facts.train_loss);
  line += fmt::format("  test loss {:.4f}", facts.test_loss);
  if (facts.accuracy) line += "  " + accuracy_text(*facts.accuracy);
  if (facts.auc) line += fmt::format("  AUC {:.4f}", *facts.auc);
  if (facts.rmse) line += fmt::format("  RMSE {}", number_text(*facts.rmse));
  return line + "  after " + clock_text(facts.elapsed);
}

TrainConsole::TrainConsole(const Options& options)
    : options_(options), style_(style_of(::getenv)) {}

void TrainConsole::progress(const ProgressFacts& facts) {
  if (options_.silent || !options_.progress) return;
  if (options_.columns == 0) {
    fmt::print("{}\n", progress_line(facts, 0));
  } else {
    fmt::print("{}{}\r", progress_line(facts, options_.columns, style_), kEraseLine);
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
