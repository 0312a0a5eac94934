#include "data/csv_cursor.h"

#include <algorithm>

#include <fmt/format.h>

#include "data/input_file.h"
#include "data/number.h"
#include "data/text.h"

namespace tally::data {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t'; }
bool is_line_end(char c) { return c == '\n' || c == '\r'; }

char separator_of(std::string_view first_line) {
  char best = ',';
  std::ptrdiff_t most = 0;
  for (const char candidate : {',', '\t', ';'}) {
    const auto count = std::count(first_line.begin(), first_line.end(), candidate);
    if (count > most) best = candidate;
    most = std::max(most, count);
  }
  return best;
}

}  // namespace

CsvCursor::CsvCursor(std::span<const std::byte> bytes, const std::string& name)
    : bytes_(bytes), text_(reinterpret_cast<const char*>(bytes.data()), bytes.size()), name_(name) {
  if (text_.rfind("\xEF\xBB\xBF", 0) == 0) at_ = 3;  // UTF-8 byte order mark
  separator_ = separator_of(text_.substr(at_, std::min(text_.find('\n', at_), text_.size()) - at_));
}

Result<bool> CsvCursor::next(std::vector<CsvField>& row) {
  while (at_ < text_.size() && is_line_end(text_[at_])) ++at_;
  if (at_ == text_.size()) {
    row.clear();
    return false;
  }
  std::size_t count = 0;
  for (;; ++at_) {
    if (count == kMaxCsvFields)
      return bad_line(bytes_, name_, at_, fmt::format("at most {} fields in a row", kMaxCsvFields),
                      "more");
    if (row.size() <= count) row.emplace_back();
    TALLY_TRY(read_field(row[count]));
    if (!is_utf8(row[count].text))
      return bad_line(bytes_, name_, row[count].offset,
                      "text in UTF-8 (`iconv -f latin1 -t utf-8` converts a file)",
                      "another encoding");
    ++count;
    if (at_ == text_.size() || is_line_end(text_[at_])) break;
  }
  row.resize(count);
  return true;
}

// Leaves at_ at the separator, at the line end or at the end of the file.
Result<void> CsvCursor::read_field(CsvField& field) {
  while (at_ < text_.size() && is_space(text_[at_]) && text_[at_] != separator_) ++at_;
  field.offset = at_;
  field.text.clear();
  const auto ends = [this] {
    return at_ == text_.size() || text_[at_] == separator_ || is_line_end(text_[at_]);
  };
  if (at_ < text_.size() && text_[at_] == '"') {
    for (++at_;; ++at_) {
      const std::size_t quote = text_.find('"', at_);
      if (quote == std::string_view::npos)
        return bad_line(bytes_, name_, field.offset, "a closing quote for this one",
                        "the end of the file");
      field.text.append(text_.substr(at_, quote - at_));
      at_ = quote + 1;
      if (at_ == text_.size() || text_[at_] != '"') break;
      field.text += '"';
    }
    while (!ends() && is_space(text_[at_])) ++at_;
    if (!ends())
      return bad_line(
          bytes_, name_, at_,
          fmt::format("{} or the end of the line after a quote", shown({&separator_, 1})),
          shown({&text_[at_], 1}));
    return {};
  }
  const std::size_t begin = at_;
  while (!ends()) ++at_;
  std::string_view text = text_.substr(begin, at_ - begin);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  field.text.assign(text);
  return {};
}

}  // namespace tally::data
