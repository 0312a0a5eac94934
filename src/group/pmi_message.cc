#include "group/pmi_message.h"

#include <charconv>

#include "base/errors.h"

namespace tally::group {
namespace {

Error corrupt_pmi(std::string_view what) { return corrupt("PMI server: {}", what); }

Result<void> take(std::string_view name, std::string_view value, PmiAnswer& answer) {
  if (name == "cmd") {
    answer.command = value;
  } else if (name == "msg") {
    answer.text = value;
  } else if (name == "kvsname") {
    answer.kvsname = value;
  } else if (name == "value") {
    answer.value = value;
  } else if (name == "rc") {
    const char* const end = value.data() + value.size();
    const auto [stop, problem] = std::from_chars(value.data(), end, answer.code);
    if (problem != std::errc() || stop != end) return corrupt_pmi("a result that is no number");
  }
  // Other words are ignored.
  return {};
}

}  // namespace

Result<PmiAnswer> parse_pmi(std::string_view line) {
  if (line.size() > kMaxPmiBytes) return corrupt_pmi("too long a line");
  PmiAnswer answer;
  while (!line.empty()) {
    const std::size_t space = line.find(' ');
    const std::string_view word = line.substr(0, space);
    line.remove_prefix(space == std::string_view::npos ? line.size() : space + 1);
    if (word.empty()) continue;
    const std::size_t sign = word.find('=');
    if (sign == std::string_view::npos || sign == 0) return corrupt_pmi("a word without a name");
    TALLY_TRY(take(word.substr(0, sign), word.substr(sign + 1), answer));
  }
  if (answer.command.empty()) return corrupt_pmi("no command in its line");
  return answer;
}

}  // namespace tally::group
