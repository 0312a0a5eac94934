#pragma once

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's own name
class App;
}

namespace tally::app {

// `tally doctor`, and the hidden `tally doctor-probe` that it starts on other hosts.
void add_doctor_command(CLI::App& parent, int& exit_code);

}  // namespace tally::app
