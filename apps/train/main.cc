#include <string>
#include <vector>

#include "apps/train/bench_command.h"

int main(int argc, char** argv) {
  return tally::app::run_bench_command(std::vector<std::string>(argv + 1, argv + argc));
}
