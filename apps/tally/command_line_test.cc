#include "apps/tally/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "process/temp_dir.h"

namespace tally::app {
namespace {

using testing::HasSubstr;

// A program, and what it says about wrong words.
class Program final {
 public:
  static void add_commands(Program& program) {
    Command top = program.line_.top();
    top.require_command();
    Command train = top.add_command("train", "Train");
    add_options(train, program);
    Command data = top.add_command("data", "Data");
    data.require_command();
    data.add_command("check", "Check").action([] { return 0; });
    top.add_hidden_command("trein");
  }

  static void add_options(Command command, Program& program) {
    command.add("--workers", &program.workers, "", {.least = 1});
    command.add("--plan", &program.plan);
    command.add("--folder", &program.folder, "", {.value = "DIR", .folder = true});
    command.add("--share", &program.share, "", {.least = 0, .most = 1});
    command.add("--quiet", &program.quiet);
    command.add("--wrokers", &program.hidden, "", {.hidden = true});
    command.action([] { return 0; });
  }

  Command top() { return line_.top(); }

  // The exit code; kWrongUsage if the words are refused.
  int run(const std::vector<std::string>& words) {
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const auto code = line_.run(words);
    std::fflush(stdout);
    output = testing::internal::GetCapturedStdout();
    errors = testing::internal::GetCapturedStderr();
    return code.value_or(kWrongUsage);
  }

  int workers = 0;
  std::string plan, folder;
  double share = 0;
  bool quiet = false;
  bool hidden = false;
  std::string output, errors;

 private:
  CommandLine line_{"A program", "prog"};
};

TEST(CommandLine, AnUnknownWordIsAnsweredWithTheNearestKnownOne) {
  struct Case {
    std::vector<std::string> words;
    std::string says;
  };
  const Case cases[] = {
      {{"trian"}, "prog: unknown command 'trian'; did you mean train?\n`prog --help`"},
      {{"fly"}, "prog: unknown command 'fly'; choose one of train, data\n"},
      {{"data", "chek"}, "prog data: unknown command 'chek'; did you mean check?\n"},
      {{"train", "--worker", "2"},
       "prog train: unknown option --worker; did you mean --workers?\n`prog train --help`"},
      {{"train", "--worker=2", "more"}, "unknown option --worker=2; did you mean --workers?"},
      {{"train", "--fly"}, "unknown option --fly\n"},
      {{"--worker", "train"}, "prog: unknown option --worker\n"},
      {{"train", "more", "words"}, "prog train: unexpected argument 'more'\n"},
      {{"train", "--workers", "0"}, "prog train: --workers 0: need at least 1\n"},
      {{"train", "--worker", "--workers", "0"}, "--workers 0: need at least 1\n"},
      {{"train", "--workers"}, "prog train: --workers needs a number\n"},
      {{"train", "--folder"}, "prog train: --folder needs a value: DIR\n"},
      {{"train", "--folder", "/dev/null"}, "--folder /dev/null: this is a file, and a folder"},
      {{"train", "--folder", "/nowhere"}, "--folder /nowhere: no such folder\n"},
      {{"train", "--share", "90"}, "--share 90: need at most 1, as in 0.9\n"},
  };
  for (const Case& c : cases) {
    Program program;
    Program::add_commands(program);
    EXPECT_EQ(program.run(c.words), kWrongUsage);
    EXPECT_THAT(program.errors, HasSubstr(c.says));
    EXPECT_EQ(program.output, "");
  }
}

TEST(CommandLine, ACommandThatNeedsAnotherPrintsItsHelp) {
  Program program;
  Program::add_commands(program);
  EXPECT_EQ(program.run({}), 0);
  EXPECT_THAT(program.output, HasSubstr("Usage: prog"));
  EXPECT_EQ(program.run({"data"}), 0);
  EXPECT_THAT(program.output, HasSubstr("Usage: prog data"));
  EXPECT_EQ(program.errors, "");
}

class ConfigOption : public testing::Test {
 protected:
  ConfigOption() {
    Program::add_options(program_.top(), program_);
    program_.top().add_config_file("--config", "Options");
  }
  int run(const std::string& content) {
    const std::string file = folder_->path() + "/options";
    std::ofstream(file) << content;
    return program_.run({"--config", file});
  }
  std::unique_ptr<process::TempDir> folder_ = std::move(process::TempDir::make()).value();
  Program program_;
};

TEST_F(ConfigOption, AValueKeepsItsSpacesAndCommas) {
  EXPECT_EQ(run("workers=3\nquiet\nplan=update=bsp codec=topk:0.1,exact\n"), 0) << program_.errors;
  EXPECT_EQ(program_.workers, 3);
  EXPECT_TRUE(program_.quiet);
  EXPECT_EQ(program_.plan, "update=bsp codec=topk:0.1,exact");
}

TEST_F(ConfigOption, ABadLineIsNamedWithItsFile) {
  struct Case {
    std::string content, says;
  };
  const Case cases[] = {
      {"\nworker=3\n", "options:2: unknown option worker; did you mean --workers?"},
      {"quiet\n\nworkers=0\n", "options:3: --workers 0: need at least 1"},
      {"workers\n", "options:1: workers needs a value"},
      {"quiet=perhaps\n", "options:1: quiet perhaps: choose true or false"},
      {"config=other\n", "options:1: config cannot stand in a file of options"},
      {"quiet\nquiet\n", "options:2: quiet is given twice; see line 1"},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(run(c.content), kWrongUsage) << c.content;
    EXPECT_THAT(program_.errors, HasSubstr(c.says));
  }
}

}  // namespace
}  // namespace tally::app
