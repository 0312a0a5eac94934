#pragma once
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace tally::bench {

// Returns a command: the words of `text`, where each "{}" is replaced by the next value, which is
// one word whatever it contains.
template <typename... Values>
std::vector<std::string> words(const std::string& text, const Values&... values) {
  const std::vector<std::string> filled = {fmt::format("{}", values)...};
  std::size_t next = 0;
  std::vector<std::string> result;
  std::istringstream stream(text);
  for (std::string word; stream >> word;) result.push_back(word == "{}" ? filled.at(next++) : word);
  return result;
}

}  // namespace tally::bench
