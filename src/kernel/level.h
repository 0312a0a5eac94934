#pragma once
#include <optional>
#include <string_view>
#include <type_traits>
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
// The table of a level from available_levels(), for tests and measurements; without a level the
// table of this processor's best level, chosen once.
template <typename Levels>
const auto& table_of(std::optional<Level> level = {}) {
  const auto of = [](Level one) -> const auto& {
    check_available(one);
#if defined(__x86_64__)
    if (one == Level::kAvx2) return Levels::avx2;
    if (one == Level::kAvx512) return Levels::avx512;
#endif
    return Levels::baseline;
  };
  static const auto& best = of(available_levels().back());
  return level ? of(*level) : best;
}

// A table for float and one for double.
template <template <typename> typename Table>
struct ByFloatType {
  Table<float> of_float;
  Table<double> of_double;

  template <typename T>
  const Table<T>& of() const {
    if constexpr (std::is_same_v<T, float>) {
      return of_float;
    } else {
      return of_double;
    }
  }
};

}  // namespace tally::kernel
