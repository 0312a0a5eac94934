#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/keyed.h"
#include "tally/error.h"

namespace tally::data {

// Tables whose columns are known, from bytes to rows of keys; `name` is for messages. All return
// kCorrupt, "FILE: line N: expected ..., found ...", for what is not as it should be, and for a
// file without a row.

using FileBytes = std::span<const std::byte>;

// Criteo's click log: a label, 13 counts and 26 categories in each row, fields that are missing
// empty, at a row's end cut off. With a first row "label,I1,...,C26" the columns are found by it. A
// slot per field: counts as log2 buckets.
Result<KeyedRows> parse_criteo(FileBytes bytes, const std::string& name);

// UCI Adult, adult.data or adult.test: who earns more than 50K. Lines that begin with | are
// comments, labels may end with a dot, ? is missing. A slot per column, numbers as categories of
// their own (the sampling weight as a log2 bucket), then one per number with its logarithm as the
// value.
Result<KeyedRows> parse_adult(FileBytes bytes, const std::string& name);

// The genres of each movie, from MovieLens' movies.csv.
struct MovieGenres {
  std::vector<std::string> names;                                   // in their order
  std::map<std::string, std::vector<std::size_t>, std::less<>> of;  // by movieId; places in `names`
};
inline constexpr std::size_t kMaxGenres = 64;
Result<MovieGenres> parse_movies(FileBytes bytes, const std::string& name);

// MovieLens' ratings.csv: who likes (rates 4 or more) what. Slots: user, movie, and one per genre
// that the movie may have.
Result<KeyedRows> parse_ratings(FileBytes bytes, const std::string& name,
                                const MovieGenres& genres);

enum class TableFormat : std::uint8_t { kCriteo, kAdult, kMovieLens, kLibsvm };

// Which of them begins so; nothing if none.
std::optional<TableFormat> recognise_table(std::string_view beginning);

// kCorrupt: "FILE: line N: expected ..., found ...", with the line that the offset is in.
Error bad_line(FileBytes bytes, const std::string& name, std::uint64_t offset,
               std::string_view expected, std::string_view found);

}  // namespace tally::data
