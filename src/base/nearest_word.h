#pragma once
#include <span>
#include <string>
#include <string_view>

namespace tally {

// The word of `known` with the smallest edit distance to `word` (change, insertion, deletion, swap
// of neighbours); the first of several. `known` is not empty.
std::string_view nearest_word(std::string_view word, std::span<const std::string_view> known);

// "; did you mean adam?" for the nearest of `known` if `word` looks like a typing mistake: at most
// a third of the letters differ, or `word` is the beginning of the known word. Otherwise empty.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> known);

// "'adamm' is no optimizer; nearest: adam (known: sgd, adam)", where `what` is "optimizer".
std::string unknown_word(std::string_view word, std::string_view what,
                         std::span<const std::string_view> known);

}  // namespace tally
