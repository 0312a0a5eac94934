#include "apps/tally/command_line.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <string_view>
#include <type_traits>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "apps/tally/config_file.h"
#include "base/nearest_word.h"
#include "process/interrupt.h"

namespace tally::app {
namespace {

constexpr std::size_t kHelpColumn = 42;
// Larger limits only guard against nonsense; the help does not show them.
constexpr double kMostShown = 1 << 16;

// CLI11 puts the option's name before the message of a ValidationError; this one has it already.
class UsageError final : public CLI::ParseError {
 public:
  explicit UsageError(const std::string& message)
      : ParseError("UsageError", message, CLI::ExitCodes::ValidationError) {}
};

template <typename T>
struct ElementOf {
  using type = T;
};
template <typename T>
struct ElementOf<std::optional<T>> {
  using type = T;
};
template <typename T>
struct ElementOf<std::vector<T>> {
  using type = T;
};
template <typename T>
using Element = typename ElementOf<T>::type;

template <typename T>
constexpr bool kIsNumber = std::is_arithmetic_v<T> && !std::is_same_v<T, bool>;

std::string limits_text(const OptionRules& rules) {
  const bool unlimited = !rules.most || *rules.most > kMostShown;
  if (rules.least && !unlimited) return fmt::format("{} to {}", *rules.least, *rules.most);
  if (rules.least)
    return fmt::format("{} {}", rules.above_least ? "above" : "at least", *rules.least);
  return unlimited ? "" : fmt::format("at most {}", *rules.most);
}

bool is_within(double value, const OptionRules& rules) {
  if (rules.least && (rules.above_least ? value <= *rules.least : value < *rules.least))
    return false;
  return !rules.most || value <= *rules.most;
}

// Throws a UsageError if the text is not a valid value.
template <typename T>
void check_value(const std::string& name, const std::string& text, const OptionRules& rules) {
  const auto refuse = [&](const std::string& why) {
    throw UsageError(fmt::format("{} {}: {}", name, text, why));
  };
  if constexpr (kIsNumber<T>) {
    const double least = rules.least.value_or(0);
    if (std::is_unsigned_v<T> && text.starts_with('-'))
      refuse(fmt::format("need at least {}", least));
    T value{};
    if (!CLI::detail::lexical_cast(text, value) || !std::isfinite(static_cast<double>(value)))
      refuse(std::is_integral_v<T> ? "not a whole number" : "not a number");
    const auto number = static_cast<double>(value);
    if (!is_within(number, rules)) {
      const bool small = rules.least && number <= least;
      refuse(small ? fmt::format("need {} {}", rules.above_least ? "more than" : "at least", least)
                   : fmt::format(
                         "need at most {}{}", *rules.most,
                         std::is_floating_point_v<T> && *rules.most == 1 ? ", as in 0.9" : ""));
    }
  }
  const bool unknown =
      !rules.choices.empty() &&
      std::find(rules.choices.begin(), rules.choices.end(), text) == rules.choices.end();
  if (unknown) refuse(fmt::format("choose one of {}", fmt::join(rules.choices, ", ")));
  std::error_code failed;
  if (rules.folder && !std::filesystem::is_directory(text, failed))
    refuse(std::filesystem::exists(text, failed) ? "this is a file, and a folder is needed"
                                                 : "no such folder");
  if (!rules.check) return;
  if (const std::string why = rules.check(text); !why.empty()) refuse(why);
}

// Returns the default for the help; empty: the help shows none.
template <typename T>
std::string default_text(const T& value, const OptionRules& rules) {
  if constexpr (kIsNumber<T>) {
    return is_within(static_cast<double>(value), rules) ? fmt::format("{}", value) : "";
  } else if constexpr (std::is_same_v<T, std::string>) {
    return value;
  } else if constexpr (!std::is_same_v<T, Element<T>> && requires { value.begin(); }) {
    return fmt::format("{}", fmt::join(value, ","));
  } else {
    return "";
  }
}

template <typename T>
std::string value_text(const T& value, const OptionRules& rules, bool positional) {
  std::string text = rules.value;
  if (text.empty() && !rules.choices.empty())
    text = fmt::format("{}", fmt::join(rules.choices, "|"));
  if (text.empty() && !positional) text = kIsNumber<Element<T>> ? "N" : "TEXT";
  std::string facts = kIsNumber<Element<T>> ? limits_text(rules) : "";
  if (const std::string usual = default_text(value, rules); !usual.empty())
    facts += (facts.empty() ? "default " : ", default ") + usual;
  if (!facts.empty()) text += fmt::format(" ({})", facts);
  if (rules.required) text += " required";
  return text;
}

template <typename T>
void add_option(CLI::App& app, const std::string& names, T& value, const std::string& help,
                const OptionRules& rules) {
  CLI::Option* option = nullptr;
  if constexpr (std::is_same_v<T, bool>) {
    option = app.add_flag(names, value, help);
  } else if (rules.implied.empty()) {
    option = app.add_option(names, value, help);
    option->option_text(value_text(value, rules, option->get_positional()));
  } else if constexpr (std::is_same_v<T, double> || std::is_same_v<T, std::string>) {
    option = app.add_flag(fmt::format("{}{{{}}}", names, rules.implied), value, help);
    option->option_text(fmt::format("[={}]", rules.value));
  }
  if constexpr (!std::is_same_v<T, bool>) {
    const std::string name = option->get_name();
    option->check(CLI::Validator(
        [name, rules](std::string& text) {
          check_value<Element<T>>(name, text, rules);
          return std::string();
        },
        ""));
  }
  if (rules.commas) option->delimiter(',');
  if (rules.repeated) option->take_all()->allow_extra_args(false);
  if (rules.required) option->required();
  if (!rules.section.empty()) option->group(rules.section);
  if (rules.hidden) option->group("");
  if (!rules.needs.empty()) option->needs(app.get_option(rules.needs));
  for (const std::string& other : rules.excludes) option->excludes(app.get_option(other));
}

std::vector<std::string_view> views_of(const std::vector<std::string>& words) {
  return {words.begin(), words.end()};
}

// "; did you mean --workers?" for an unknown option of a command, which may have a value behind =.
std::string option_guess(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;  // hidden
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return did_you_mean(word.substr(0, word.find('=')), views_of(names));
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    if (!command->get_group().empty()) names.push_back(command->get_name());
  return names;
}

bool lacks_command(const CLI::App& app) {
  return app.get_require_subcommand_min() > 0 && app.get_subcommands().empty();
}

// The innermost command that was given, and "tally bench" as its name.
struct Given {
  const CLI::App* app;
  std::string name;
};

// The outermost command with a word that it does not know, else the innermost one.
Given given_command(const CLI::App& top) {
  Given given{.app = &top, .name = top.get_name()};
  while (given.app->remaining().empty() && !given.app->get_subcommands().empty()) {
    given.app = given.app->get_subcommands().back();
    given.name += " " + given.app->get_name();
  }
  return given;
}

// "--workers needs a number" for an option without its value; CLI11 puts the name before a colon.
std::string without_value(const CLI::App& app, const CLI::ParseError& error) {
  const std::string what = error.what();
  const CLI::Option* const option = app.get_option_no_throw(what.substr(0, what.find(':')));
  if (option == nullptr) return what;
  const std::string value = option->get_option_text();
  const std::string kind = value.substr(0, value.find(" ("));
  return fmt::format("{} needs {}", option->get_name(),
                     kind == "N" ? "a number" : fmt::format("a value: {}", kind));
}

// Why CLI11 refuses the words.
std::string refusal(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ArgumentMismatch))
    return without_value(app, error);
  const std::vector<std::string> unknown = app.remaining();
  const bool about_unknown =
      error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError) || lacks_command(app);
  if (unknown.empty() || !about_unknown) return error.what();
  const std::string& word = unknown.front();
  if (word.starts_with('-'))
    return fmt::format("unknown option {}{}", word, option_guess(app, word));
  if (!lacks_command(app)) return fmt::format("unexpected argument '{}'", word);
  const std::vector<std::string> commands = command_names(app);
  const std::string guess = did_you_mean(word, views_of(commands));
  return fmt::format(
      "unknown command '{}'{}", word,
      guess.empty() ? fmt::format("; choose one of {}", fmt::join(commands, ", ")) : guess);
}

// The file of --config. CLI11's own reader cuts values at commas and spaces, and its errors have no
// line.
class ConfigReader final : public CLI::ConfigBase {
 public:
  explicit ConfigReader(CLI::App& app) : app_(&app) {}

  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    const std::string file = app_->get_config_ptr()->as<std::string>();
    const auto lines = read_config(input);
    if (!lines) throw UsageError(fmt::format("{}:{}", file, lines.error().message));
    std::vector<CLI::ConfigItem> items;
    for (const ConfigLine& line : *lines) {
      const std::string why = problem_in(line);
      if (!why.empty()) throw UsageError(fmt::format("{}:{}: {}", file, line.number, why));
      items.push_back({.name = line.name, .inputs = {line.value.value_or("true")}});
    }
    return items;
  }

 private:
  // Empty if the option exists and accepts the value.
  std::string problem_in(const ConfigLine& line) const {
    CLI::Option* const option = app_->get_option_no_throw("--" + line.name);
    if (option == nullptr)
      return fmt::format("unknown option {}{}", line.name, option_guess(*app_, "--" + line.name));
    if (!option->get_configurable())
      return fmt::format("{} cannot stand in a file of options", line.name);
    const bool is_flag = option->get_expected_min() == 0;
    if (!line.value) return is_flag ? "" : fmt::format("{} needs a value", line.name);
    std::string value = *line.value;
    try {
      if (option->get_items_expected_max() == 0)
        CLI::detail::to_flag_value(value);
      else
        (*option->get_validator(0))(value);
    } catch (const UsageError& error) {
      return error.what();
    } catch (const std::logic_error&) {
      return fmt::format("{} {}: choose true or false", line.name, value);
    }
    return "";
  }

  CLI::App* app_;
};

}  // namespace

struct CommandLine::State {
  CLI::App app;
  int exit_code = 0;
};

Command Command::add_command(const std::string& name, const std::string& help) {
  return {*app_->add_subcommand(name, help), *exit_code_};
}

Command Command::add_hidden_command(const std::string& name) {
  CLI::App& app = *app_->add_subcommand(name);
  app.group("");
  return {app, *exit_code_};
}

void Command::add(const std::string& names, OptionValue value, const std::string& help,
                  const OptionRules& rules) {
  std::visit([&](auto* variable) { add_option(*app_, names, *variable, help, rules); }, value);
}

void Command::footer(const std::string& text) { app_->footer(text); }

void Command::require_command() { app_->require_subcommand(1); }

void Command::last_value_wins() { app_->option_defaults()->take_last(); }

void Command::add_config_file(const std::string& name, const std::string& help) {
  app_->set_config(name, "", help)->option_text("FILE");
  app_->config_formatter(std::make_shared<ConfigReader>(*app_));
}

void Command::action(std::function<int()> run) {
  app_->callback([run = std::move(run), exit_code = exit_code_] { *exit_code = run(); });
}

bool Command::given(const std::string& option) const { return app_->count(option) > 0; }

CommandLine::CommandLine(const std::string& description, const std::string& program)
    : state_(new State{.app = CLI::App(description, program), .exit_code = 0}) {
  state_->app.get_formatter()->column_width(kHelpColumn);
}

CommandLine::~CommandLine() = default;

Command CommandLine::top() { return {state_->app, state_->exit_code}; }

void CommandLine::version(const std::string& text) {
  state_->app.set_version_flag("--version", text);
}

std::optional<int> CommandLine::run(const std::vector<std::string>& words) {
  try {
    // CLI11 takes the words from the end.
    state_->app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return state_->app.exit(error);  // --help, --version
    const Given given = given_command(state_->app);
    if (given.app->remaining().empty() && lacks_command(*given.app)) {
      fmt::print("{}", state_->app.help());
      return 0;
    }
    fmt::print(stderr, "{}: {}\n`{} --help` lists what it takes.\n", given.name,
               refusal(*given.app, error), given.name);
    return std::nullopt;
  }
  return state_->exit_code;
}

std::string plain_text(const Error& error) {
  if (error.peer == kNoRank) return error.message;
  return fmt::format("rank {}: {}", error.peer, error.message);
}

int exit_code_of(const Result<void>& outcome, std::string_view program) {
  return outcome ? 0 : fail(program, outcome.error());
}

bool output_reader_gone() {
  pollfd output{.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
  return ::poll(&output, 1, 0) > 0 && (output.revents & POLLERR) != 0;
}

int finish_output(std::string_view program, int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  if (!output_reader_gone()) fmt::print(stderr, "{}: cannot write all of the output\n", program);
  return code == 0 ? 1 : code;
}

int fail(std::string_view program, const Error& error, int code) {
  if (process::interrupted() != 0) return process::kInterruptedExitCode;
  fmt::print(stderr, "{}{}{}\n", program, program.empty() ? "" : ": ", plain_text(error));
  return code;
}

}  // namespace tally::app
