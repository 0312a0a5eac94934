#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "tally/deadline.h"

namespace tally::app {

// Shares of a worker's time, 0 to 1.
struct TimeShares {
  double compute = 0;
  double communicate = 0;
  double wait = 0;
  double data = 0;
};
// Returns the shares of these times; all 0 if there are none.
TimeShares shares_of(Duration compute, Duration communicate, Duration wait, Duration data);

// Facts for a line of progress.
struct ProgressFacts {
  double epochs = 0;              // completed
  std::uint64_t epoch_count = 0;  // in total; 0: unknown
  std::uint64_t step = 0;
  std::uint64_t step_count = 0;
  double loss = 0;                 // mean of the last steps
  std::optional<double> accuracy;  // of the last evaluation
  double units_per_s = 0;
  std::string unit = "samples";
  TimeShares shares;
  Duration left{};
};

// The abilities of a terminal.
struct TerminalStyle {
  bool colour = false;
  bool blocks = false;  // characters for bars, in UTF-8
};
// By the usual variables: NO_COLOR, and LC_ALL, LC_CTYPE or LANG.
TerminalStyle style_of(const std::function<const char*(const char* name)>& variable);

// Returns "epoch 3/8  step 1100/3752  loss 0.4123  accuracy 86.10 %  12.3k samples/s  compute 80 %,
// ... left 0:42". On a terminal of `columns` (0: none) a bar stands before it, of the share of
// completed steps; where there is no room for both, the text is shorter, at last without the shares
// of time. The line has fewer characters than the terminal has columns.
std::string progress_line(const ProgressFacts& facts, int columns, const TerminalStyle& style = {});

// Breaks a text at spaces into lines of fewer than `columns` characters, where its words allow it;
// further lines are indented. 0: one line.
std::string wrapped(std::string_view text, int columns);

struct EvaluationFacts {
  double epochs = 0;
  std::uint64_t step = 0;
  std::optional<double> train_loss;
  double test_loss = 0;
  std::optional<double> accuracy;
  std::optional<double> auc;
  std::optional<double> rmse;
  Duration elapsed{};
};
std::string evaluation_line(const EvaluationFacts& facts);

// "0:42", "12:05", "3:00:09".
std::string clock_text(Duration duration);
// "950", "12.3k", "4.56M".
std::string short_count(double count);

// Output of rank 0 on stdout: a changing line on a terminal, plain lines elsewhere; other ranks
// have a silent console. A changing line ends with a carriage return and no newline, which the
// launcher passes on.
class TrainConsole final {
 public:
  struct Options {
    bool silent = false;
    bool progress = true;
    int columns = 0;  // of the terminal; 0: no terminal
  };
  explicit TrainConsole(const Options& options);
  ~TrainConsole() { erase(); }
  TrainConsole(const TrainConsole&) = delete;
  TrainConsole& operator=(const TrainConsole&) = delete;

  // Ends the silence, on a rank that replaces rank 0.
  void speak() { options_.silent = false; }
  bool live() const { return options_.columns > 0 && !options_.silent && options_.progress; }
  void progress(const ProgressFacts& facts);
  // Prints lines that stay.
  void say(const std::string& text);

 private:
  void erase();

  Options options_;
  const TerminalStyle style_;
  bool shown_ = false;  // a changing line is shown
};

}  // namespace tally::app
