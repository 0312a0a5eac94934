#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "data/csv_cursor.h"
#include "data/keyed_tables.h"
#include "data/number.h"

namespace tally::data {
namespace {

constexpr double kLiked = 4;
constexpr double kBestRating = 5;
constexpr std::string_view kNoGenres = "(no genres listed)";

// A table with a header row, read by column name.
class NamedTable final {
 public:
  NamedTable(FileBytes bytes, const std::string& name)
      : bytes_(bytes), name_(name), cursor_(bytes, name) {}

  // Reads the header and returns the indices of the wanted columns.
  Result<std::vector<std::size_t>> columns(const std::vector<std::string_view>& wanted) {
    TALLY_TRY(const bool more, cursor_.next(row_));
    std::vector<std::size_t> places;
    for (const std::string_view column : wanted) {
      std::size_t at = 0;
      while (at < row_.size() && row_[at].text != column) ++at;
      if (!more || at == row_.size())
        return bad_line(bytes_, name_, 0, fmt::format("a column {}", column),
                        fmt::format("{} columns without it", row_.size()));
      places.push_back(at);
    }
    fields_ = row_.size();
    return places;
  }

  // Reads the next row; false at the end.
  Result<bool> next() {
    TALLY_TRY(const bool more, cursor_.next(row_));
    if (more && row_.size() != fields_)
      return bad_line(bytes_, name_, row_[0].offset, fmt::format("{} fields", fields_),
                      fmt::format("{}", row_.size()));
    return more;
  }

  const std::string& text(std::size_t place) const { return row_[place].text; }
  Error bad(std::size_t place, std::string_view expected) const {
    return bad_line(bytes_, name_, row_[place].offset, expected, shown(text(place)));
  }

 private:
  const FileBytes bytes_;
  const std::string& name_;
  CsvCursor cursor_;
  std::vector<CsvField> row_;
  std::size_t fields_ = 0;
};

std::vector<std::string> genres_in(std::string_view text) {
  std::vector<std::string> genres;
  while (!text.empty() && text != kNoGenres) {
    const std::string_view genre = text.substr(0, text.find('|'));
    if (!genre.empty()) genres.emplace_back(genre);
    text.remove_prefix(std::min(text.size(), genre.size() + 1));
  }
  return genres;
}

}  // namespace

Result<MovieGenres> parse_movies(FileBytes bytes, const std::string& name) {
  NamedTable table(bytes, name);
  TALLY_TRY(const std::vector<std::size_t> columns, table.columns({"movieId", "genres"}));
  std::map<std::string, std::vector<std::string>, std::less<>> of;
  std::set<std::string> names;
  for (;;) {
    TALLY_TRY(const bool more, table.next());
    if (!more) break;
    if (table.text(columns[0]).empty()) return table.bad(columns[0], "a movieId");
    std::vector<std::string>& genres = of[table.text(columns[0])];
    genres = genres_in(table.text(columns[1]));
    names.insert(genres.begin(), genres.end());
    if (names.size() > kMaxGenres)
      return table.bad(columns[1], fmt::format("at most {} different genres", kMaxGenres));
  }
  MovieGenres result{.names = {names.begin(), names.end()}};
  for (const auto& [movie, genres] : of) {
    std::vector<std::size_t>& places = result.of[movie];
    for (const std::string& genre : genres)
      places.push_back(static_cast<std::size_t>(std::distance(names.begin(), names.find(genre))));
    std::sort(places.begin(), places.end());
  }
  return result;
}

Result<KeyedRows> parse_ratings(FileBytes bytes, const std::string& name,
                                const MovieGenres& genres) {
  NamedTable table(bytes, name);
  TALLY_TRY(const std::vector<std::size_t> columns, table.columns({"userId", "movieId", "rating"}));
  KeyedRows rows{.encoding = {.fields = {"user", "movie"}}, .classes = {"below 4", "4 or more"}};
  for (const std::string& genre : genres.names) rows.encoding.fields.push_back(genre);
  for (;;) {
    TALLY_TRY(const bool more, table.next());
    if (!more) break;
    const std::string& movie = table.text(columns[1]);
    for (const std::size_t place : {columns[0], columns[1]})
      if (table.text(place).empty()) return table.bad(place, "a userId and a movieId");
    const auto rating = number_in(table.text(columns[2]));
    if (!rating || *rating < 0 || *rating > kBestRating)
      return table.bad(columns[2], "a rating from 0 to 5");
    rows.add(key_of("user", table.text(columns[0])));
    rows.add(key_of("movie", movie));
    const auto known = genres.of.find(movie);
    for (std::size_t i = 0; i < genres.names.size(); ++i) {
      const bool is = known != genres.of.end() &&
                      std::binary_search(known->second.begin(), known->second.end(), i);
      rows.add(is ? key_of("genre", genres.names[i]) : kNoKey, is ? 1.0F : 0.0F);
    }
    rows.end_row(*rating >= kLiked);
    if (rows.keys.size() > kMaxKeyedEntries)
      return table.bad(columns[0], fmt::format("{} values at most", kMaxKeyedEntries));
  }
  if (rows.size() == 0) return bad_line(bytes, name, bytes.size(), "a row", "the end of the file");
  return rows;
}

}  // namespace tally::data
