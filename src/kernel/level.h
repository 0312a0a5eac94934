#pragma once
#include <string_view>
#include <vector>

namespace tally::kernel {

// Instruction sets that the hot loops are compiled for.
enum class Level { kBaseline, kAvx2, kAvx512 };

std::string_view to_string(Level level);

// The levels that this processor can run, lowest first; never empty.
std::vector<Level> available_levels();

// Aborts unless this processor can run `level`.
void check_available(Level level);

// CMake compiles each *_loops.inc once per level, with the options of that level's instruction set.
// The file defines one table of function pointers, `Levels::TALLY_LEVEL`, and leaves nothing else
// behind that the linker could merge with code of another level: it uses plain pointers and no
// std:: templates, and everything but the table is in an unnamed namespace.
//
// The table of a level that this processor can run:
template <typename Levels>
const auto& table_of(Level level) {
  check_available(level);
#if defined(__x86_64__)
  if (level == Level::kAvx2) return Levels::avx2;
  if (level == Level::kAvx512) return Levels::avx512;
#endif
  return Levels::baseline;
}

// The table of this processor's best level, chosen once.
template <typename Levels>
const auto& best_table() {
  static const auto& best = table_of<Levels>(available_levels().back());
  return best;
}

}  // namespace tally::kernel
