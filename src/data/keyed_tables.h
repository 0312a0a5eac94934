#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/input_file.h"
#include "data/keyed.h"
#include "tally/error.h"

namespace tally::data {

// Parsers of tables with known columns, from bytes to rows of keys; messages use `name`. All return
// kCorrupt, "FILE: line N: expected ..., found ...", for invalid content and for a file without
// rows.

using FileBytes = std::span<const std::byte>;

// Criteo's click log: each row has a label, 13 counts and 26 categories. A missing field is empty,
// and missing fields at the end of a row may be omitted. With a header row "label,I1,...,C26" the
// columns may be in any order. The rows have one slot per field; counts become log2 buckets.
Result<KeyedRows> parse_criteo(FileBytes bytes, const std::string& name);

// UCI Adult, adult.data or adult.test; label 1: income above 50K. Lines that begin with | are
// comments, labels may end with a dot, and ? is a missing value. One slot per column has its
// category; each distinct number is a category (the sampling weight as a log2 bucket). One more
// slot per number has its logarithm as the value.
Result<KeyedRows> parse_adult(FileBytes bytes, const std::string& name);

// Genres by movie, from MovieLens' movies.csv. `of` maps a movieId to indices in `names`.
struct MovieGenres {
  std::vector<std::string> names;                                   // sorted
  std::map<std::string, std::vector<std::size_t>, std::less<>> of;  // movieId to name indices
};
inline constexpr std::size_t kMaxGenres = 64;
Result<MovieGenres> parse_movies(FileBytes bytes, const std::string& name);

// MovieLens' ratings.csv; label 1: a rating of 4 or more. Slots: user, movie, and one per possible
// genre of a movie.
Result<KeyedRows> parse_ratings(FileBytes bytes, const std::string& name,
                                const MovieGenres& genres);

enum class TableFormat : std::uint8_t {
  kCriteo,
  kAdult,
  kMovieLens,
  kLibsvm,
  kColumns,  // a table of the user's own, see keyed_columns.h
};

// Detects a format other than kColumns from the beginning of a file; nullopt if it has none.
std::optional<TableFormat> recognise_table(std::string_view beginning);

}  // namespace tally::data
