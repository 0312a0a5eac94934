#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tally/error.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the name of CLI11
class App;
}

// The command line of our programs. command_line.cc is the only file that includes CLI11, which
// takes ten seconds to compile.
namespace tally::app {

inline constexpr int kWrongUsage = 2;  // exit code

// The variable that an option sets; its value before parsing is the default. An option for a bool
// is a flag.
using OptionValue =
    std::variant<bool*, int*, std::int64_t*, std::uint16_t*, std::uint32_t*, std::uint64_t*,
                 double*, std::string*, std::optional<std::uint64_t>*, std::optional<double>*,
                 std::optional<std::string>*, std::vector<int>*, std::vector<std::string>*>;

// Returns why a text is refused; empty: it is accepted.
using TextCheck = std::function<std::string(const std::string& text)>;

// The rules of one option. The help shows range, choices and default: "N (1 to 4096, default 64)".
// A default outside the range means "unset" and is not shown.
struct OptionRules {
  std::string value = {};  // placeholder in the help; default: N, TEXT or the choices
  std::optional<double> least = {};
  std::optional<double> most = {};
  bool above_least = false;  // `least` itself is refused
  std::vector<std::string> choices = {};
  TextCheck check = {};
  bool folder = false;       // must be an existing folder
  bool commas = false;       // of a vector: separated by commas
  bool repeated = false;     // of a vector: one value each time the option is given
  std::string implied = {};  // value of an option that is given without one: --watch, --watch=5
  bool required = false;
  bool hidden = false;     // not in the help
  std::string needs = {};  // option that must be given as well
  std::vector<std::string> excludes = {};
  std::string section = {};  // of the help
};

// One command of a CommandLine, by reference: copies are the same command.
class Command final {
 public:
  Command add_command(const std::string& name, const std::string& help);
  // A command for our own processes, not listed in the help.
  Command add_hidden_command(const std::string& name);
  // `names` as in "-n,--ranks"; a name without dashes is positional.
  void add(const std::string& names, OptionValue value, const std::string& help = "",
           const OptionRules& rules = {});
  // Text below the options in the help. Commands that are added later inherit it.
  void footer(const std::string& text);
  void require_command();
  // Later values replace earlier ones, for the options that are added after this call.
  void last_value_wins();
  // Options from the file that `name` names, as read_config() reads it; the command line takes
  // precedence.
  void add_config_file(const std::string& name, const std::string& help);
  // Called after parsing, if this command was given. Returns the exit code.
  void action(std::function<int()> run);

  bool given(const std::string& option) const;

 private:
  friend class CommandLine;
  Command(CLI::App& app, int& exit_code) : app_(&app), exit_code_(&exit_code) {}
  CLI::App* app_;
  int* exit_code_;
};

class CommandLine final {
 public:
  CommandLine(const std::string& description, const std::string& program);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  Command top();
  void version(const std::string& text);
  // Parses and runs the action of the given command: its exit code, 0 after --help. Where the words
  // end although a command must follow, prints the help and returns 0. Nothing if the words are
  // wrong, which has been reported on stderr.
  std::optional<int> run(const std::vector<std::string>& words);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// "rank 2: it is gone", or the message alone: text for users, without the name of the code.
std::string plain_text(const Error& error);

// 0, or 1 after printing "PROGRAM: MESSAGE" on stderr; without the program if it is empty.
int exit_code_of(const Result<void>& outcome, std::string_view program = "");

// Whether stdout is a pipe whose reader has gone, as of `tally ... | head`: then a program ends
// without a message.
bool output_reader_gone();
// Flushes stdout, which may fail on a full disk. Returns the exit code of the program: `code`, or 1
// if not all of the output could be written.
int finish_output(std::string_view program, int code);

// Prints the error; 130 after an interruption, which needs no message, else `code`.
int fail(std::string_view program, const Error& error, int code = 1);

// The message of an error, for OptionRules::check; empty: none.
template <typename T>
std::string problem_of(const Result<T>& result) {
  return result ? "" : result.error().message;
}

}  // namespace tally::app
