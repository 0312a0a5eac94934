#pragma once

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's own name
class App;
}

namespace tally::app {

// `tally train linear`: linear regression by several workers, compared with the closed-form
// solution. The command's outcome is put into `exit_code`.
void add_train_linear_command(CLI::App& parent, int& exit_code);

}  // namespace tally::app
