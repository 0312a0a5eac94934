// Untrusted tables of keys: rows are complete, keys are valid or missing, values are numbers; an
// error names the file.
#include <cmath>
#include <span>
#include <string_view>

#include "base/check.h"
#include "data/keyed_columns.h"
#include "data/keyed_tables.h"
#include "fuzz_entry.h"

namespace {

using namespace tally::data;

void check_rows(const tally::Result<KeyedRows>& rows) {
  if (!rows.has_value()) {
    TALLY_CHECK(rows.error().code == tally::ErrorCode::kCorrupt ||
                rows.error().code == tally::ErrorCode::kInvalid);
    TALLY_CHECK(rows.error().message.rfind("table: ", 0) == 0);
    return;
  }
  TALLY_CHECK(rows->size() > 0 && rows->starts.size() == rows->size() + 1);
  TALLY_CHECK(rows->starts.back() == rows->keys.size() &&
              rows->keys.size() == rows->values.size() && rows->classes.size() == 2);
  for (std::size_t row = 0; row < rows->size(); ++row)
    TALLY_CHECK(rows->starts[row + 1] - rows->starts[row] == rows->encoding.fields.size());
  for (std::size_t i = 0; i < rows->keys.size(); ++i)
    TALLY_CHECK(rows->keys[i] >= kNoKey && std::isfinite(rows->values[i]));
}

std::vector<std::uint8_t> seed(std::string_view text) { return {text.begin(), text.end()}; }

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto bytes = std::as_bytes(std::span(data, size));
  recognise_table(text);
  check_rows(parse_criteo(bytes, "table"));
  check_rows(parse_adult(bytes, "table"));
  const auto genres = parse_movies(bytes, "table");
  if (genres.has_value()) {
    TALLY_CHECK(genres->names.size() <= kMaxGenres);
    for (const auto& [movie, places] : genres->of)
      for (const std::size_t place : places) TALLY_CHECK(place < genres->names.size());
  }
  check_rows(parse_ratings(bytes, "table", genres.has_value() ? *genres : MovieGenres{}));
  const NamedBytes table{bytes, "table"};
  const auto own = read_keyed_columns(table, nullptr, {.split = {.validation = 0}});
  check_rows(own);
  if (own.has_value())
    check_rows(read_keyed_columns_like(table, own->encoding, own->classes, /*needs_target=*/true));
  return 0;
}

std::vector<std::vector<std::uint8_t>> fuzz_seeds() {
  return {{},
          seed("1\t2\t\t5\t-1\n0\n"),
          seed("0\t1e30\t\t\t\t\t\t\t\t\t\t\t\t\t68fd1e64\tffff\n"),
          seed("|1x3 Cross validator\n39, State-gov, 77516, Bachelors, 13, Never-married, ?, "
               "Husband, White, Male, 2174, 0, 40, Cuba, >50K.\n"),
          seed("movieId,title,genres,userId,rating\n1,\"a, b\",War|Drama,7,4.5\n"),
          seed("a,town,n,y\n1.5,Ulm,1,no\n,?,2,yes\n1e38,\" \"\"x\",2,no\n"),
          seed("label,I1,I2,I3,I4,I5,I6,I7,I8,I9,I10,I11,I12,I13,C1,C2,C3,C4,C5,C6,C7,C8,C9,C10,"
               "C11,C12,C13,C14,C15,C16,C17,C18,C19,C20,C21,C22,C23,C24,C25,C26\n1,2,,4\n")};
}
