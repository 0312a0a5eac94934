// Valid and invalid lines for each parser.
#include "data/keyed_tables.h"

#include <functional>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "data/test_files.h"

namespace tally::data {
namespace {

using Keys = std::vector<std::int64_t>;

constexpr std::size_t kCriteoSlots = 39;
constexpr std::size_t kAdultSlots = 19;

const std::string kKeyedTablesAdultRow =
    "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, "
    "2174, 0, 40, United-States, <=50K\n";

// The row with the first `part` replaced by `other`.
std::string with(const std::string& row, const std::string& part, const std::string& other) {
  const std::size_t at = row.find(part);
  return fmt::format("{}{}{}", row.substr(0, at), other, row.substr(at + part.size()));
}

// The header row of Criteo's CSV variant.
std::string criteo_header() {
  std::string names = "label";
  for (int i = 1; i <= 13; ++i) names += ",I" + std::to_string(i);
  for (int i = 1; i <= 26; ++i) names += ",C" + std::to_string(i);
  return names + "\n";
}

std::int64_t slot(const KeyedRows& rows, std::size_t row, const std::string& field) {
  for (std::size_t i = 0; i < rows.encoding.fields.size(); ++i)
    if (rows.encoding.fields[i] == field) return rows.keys[rows.starts[row] + i];
  ADD_FAILURE() << "no field " << field;
  return 0;
}

TEST(Criteo, TsvFieldsMayBeMissingAndCutOff) {
  const std::string text = fmt::format("1\t2\t\t5\t-1\n0\n0{}68fd1e64\n", std::string(39, '\t'));
  const auto rows = parse_criteo(bytes_of(text), "f");
  ASSERT_TRUE(rows.has_value()) << rows.error().message;
  EXPECT_EQ(rows->labels, (std::vector<std::uint8_t>{1, 0, 0}));
  EXPECT_EQ(rows->keys.size(), 3 * kCriteoSlots);
  EXPECT_EQ(slot(*rows, 0, "I1"), key_of("I1", "2"));
  EXPECT_EQ(slot(*rows, 0, "I2"), kNoKey);
  EXPECT_EQ(slot(*rows, 0, "I3"), key_of("I3", "3"));
  EXPECT_EQ(slot(*rows, 0, "I4"), key_of("I4", "-1"));
  EXPECT_EQ(slot(*rows, 0, "C26"), kNoKey);
  EXPECT_EQ(slot(*rows, 2, "C26"), key_of("C26", "68fd1e64"));
}

TEST(Criteo, CsvHasItsColumnsByName) {
  std::string row = "0";
  for (int i = 1; i <= 39; ++i) row += i == 1 ? ",3.0" : i == 14 ? ",05db9164" : ",";
  const auto rows = parse_criteo(bytes_of(criteo_header() + row + "\n"), "f");
  ASSERT_TRUE(rows.has_value()) << rows.error().message;
  EXPECT_EQ(rows->size(), 1U);
  EXPECT_EQ(slot(*rows, 0, "I1"), key_of("I1", "2"));
  EXPECT_EQ(slot(*rows, 0, "C1"), key_of("C1", "05db9164"));
}

TEST(Adult, RowsHaveCategoriesAndValues) {
  const std::string test = with(with(kKeyedTablesAdultRow, "<=50K", ">50K."), "State-gov", "?");
  const auto rows =
      parse_adult(bytes_of("|1x3 Cross validator\n" + kKeyedTablesAdultRow + test), "f");
  ASSERT_TRUE(rows.has_value()) << rows.error().message;
  EXPECT_EQ(rows->labels, (std::vector<std::uint8_t>{0, 1}));
  EXPECT_EQ(rows->encoding.fields.size(), kAdultSlots);
  EXPECT_EQ(rows->keys.size(), 2 * kAdultSlots);
  EXPECT_EQ(slot(*rows, 0, "age"), key_of("age", "39"));
  EXPECT_EQ(slot(*rows, 0, "fnlwgt"), key_of("fnlwgt", "17"));  // 2^16 <= 77516 < 2^17
  EXPECT_EQ(slot(*rows, 0, "workclass"), key_of("workclass", "State-gov"));
  EXPECT_EQ(slot(*rows, 1, "workclass"), kNoKey);
  EXPECT_EQ(slot(*rows, 0, "capital-gain value"), key_of("capital-gain value", ""));
  EXPECT_NEAR(rows->values[16], 7.68478 / 12, 1e-5);  // ln 2175
  EXPECT_EQ(rows->values[17], 0.0F);
}

TEST(MovieLens, MoviesHaveTheirGenres) {
  const auto genres =
      parse_movies(bytes_of("movieId,title,genres\r\n"
                            "11,\"American President, The (1995)\",Romance|Drama\r\n"
                            "12,Nothing,(no genres listed)\r\n"),
                   "f");
  ASSERT_TRUE(genres.has_value()) << genres.error().message;
  EXPECT_EQ(genres->names, (std::vector<std::string>{"Drama", "Romance"}));
  EXPECT_EQ(genres->of.at("11"), (std::vector<std::size_t>{0, 1}));
  EXPECT_TRUE(genres->of.at("12").empty());
}

TEST(MovieLens, RatingsOfFourAndMoreAreLikes) {
  const MovieGenres genres{.names = {"Drama", "War"}, .of = {{"31", {1}}}};
  const std::string text =
      "userId,movieId,rating,timestamp\r\n1,31,2.5,1260759144\r\n2,32,4.0,1260759144\r\n";
  const auto rows = parse_ratings(bytes_of(text), "f", genres);
  ASSERT_TRUE(rows.has_value()) << rows.error().message;
  EXPECT_EQ(rows->labels, (std::vector<std::uint8_t>{0, 1}));
  EXPECT_EQ(rows->keys,
            (Keys{key_of("user", "1"), key_of("movie", "31"), kNoKey, key_of("genre", "War"),
                  key_of("user", "2"), key_of("movie", "32"), kNoKey, kNoKey}));
  const auto plain = parse_ratings(bytes_of(text), "f", {});
  EXPECT_EQ(plain->encoding.fields, (std::vector<std::string>{"user", "movie"}));
}

TEST(KeyedTables, EveryFaultIsNamedWithItsLine) {
  const auto ratings = [](FileBytes bytes, const std::string& name) {
    return parse_ratings(bytes, name, {});
  };
  const auto movies = [](FileBytes bytes, const std::string& name) -> Result<KeyedRows> {
    TALLY_TRY(parse_movies(bytes, name));
    return KeyedRows{};
  };
  const struct {
    std::function<Result<KeyedRows>(FileBytes, const std::string&)> parse;
    std::string text;
    std::string message;
  } cases[] = {
      {parse_criteo, "", "f: line 1: expected a row, found the end of the file"},
      {parse_criteo, criteo_header(), "f: line 2: expected a row, found the end of the file"},
      {parse_criteo, "label,I1\n", "f: line 1: expected a column I2, found 2 columns without it"},
      {parse_criteo, "1\t2\n2\t1\n", "f: line 2: expected a label 0 or 1, found '2'"},
      {parse_criteo, "1\t2\n\n\t1\n", "f: line 3: expected a label 0 or 1, found ''"},
      {parse_criteo, "1\tx\n", "f: line 1: expected a number as I1, found 'x'"},
      {parse_criteo, fmt::format("0{}nothex\n", std::string(14, '\t')),
       "f: line 1: expected a category of hexadecimal digits as C1, found 'nothex'"},
      {parse_criteo, fmt::format("0{}a\n", std::string(40, '\t')),
       "f: line 1: expected up to 40 fields, found 41"},
      {parse_adult, "", "f: line 1: expected a row, found the end of the file"},
      {parse_adult, kKeyedTablesAdultRow + "39, x\n", "f: line 2: expected 15 fields, found 2"},
      {parse_adult, with(kKeyedTablesAdultRow, "39", "x"),
       "f: line 1: expected a number from 0 as age, found 'x'"},
      {parse_adult, with(kKeyedTablesAdultRow, "<=50K", "50K"),
       "f: line 1: expected a label <=50K or >50K, found '50K'"},
      {ratings, "", "f: line 1: expected a column userId, found 0 columns without it"},
      {ratings, "userId,rating\n",
       "f: line 1: expected a column movieId, found 2 columns without it"},
      {ratings, "userId,movieId,rating\n", "f: line 2: expected a row, found the end of the file"},
      {ratings, "userId,movieId,rating\n1,2,3\n1,2\n", "f: line 3: expected 3 fields, found 2"},
      {ratings, "userId,movieId,rating\n1,2,six\n",
       "f: line 2: expected a rating from 0 to 5, found 'six'"},
      {ratings, "userId,movieId,rating\n1,2,6\n",
       "f: line 2: expected a rating from 0 to 5, found '6'"},
      {ratings, "userId,movieId,rating\n1,,3\n",
       "f: line 2: expected a userId and a movieId, found ''"},
      {movies, "movieId,title\n",
       "f: line 1: expected a column genres, found 2 columns without it"},
      {movies, "movieId,genres\n,War\n", "f: line 2: expected a movieId, found ''"},
  };
  for (const auto& c : cases) {
    const auto rows = c.parse(bytes_of(c.text), "f");
    ASSERT_FALSE(rows.has_value()) << c.message;
    EXPECT_EQ(rows.error().code, ErrorCode::kCorrupt);
    EXPECT_EQ(rows.error().message, c.message);
  }
}

TEST(MovieLens, TooManyGenresAreRefused) {
  std::string text = "movieId,genres\n";
  for (std::size_t i = 0; i <= kMaxGenres; ++i)
    text += std::to_string(i) + ",g" + std::to_string(i) + "\n";
  const auto genres = parse_movies(bytes_of(text), "f");
  ASSERT_FALSE(genres.has_value());
  EXPECT_EQ(genres.error().message,
            "f: line 66: expected at most 64 different genres, found 'g64'");
}

TEST(KeyedTables, AreKnownByHowTheyBegin) {
  const std::pair<std::string, std::optional<TableFormat>> cases[] = {
      {"+1 3:1 7:1\n", TableFormat::kLibsvm},
      {kKeyedTablesAdultRow, TableFormat::kAdult},
      {"|1x3 Cross validator\n", TableFormat::kAdult},
      {"userId,movieId,rating,timestamp\r\n", TableFormat::kMovieLens},
      {criteo_header(), TableFormat::kCriteo},
      {"0\t1\t\t5\n", TableFormat::kCriteo},
      {"5\t1\n", std::nullopt},
      {"a,b,c\n1,2,3\n", std::nullopt},
      {"Call me Ishmael.", std::nullopt},
      {"", std::nullopt},
      {"\"", std::nullopt},
  };
  for (const auto& [text, format] : cases) EXPECT_EQ(recognise_table(text), format) << text;
}

}  // namespace
}  // namespace tally::data
