#include "recipes/word2vec/update_rule.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "base/nearest_word.h"

namespace tally::word2vec {
namespace {

constexpr std::uint64_t kMostMilliseconds = 3600 * 1000;
constexpr std::uint64_t kMostWords = std::uint64_t{1} << 40;
constexpr std::uint64_t kMostBound = 1 << 20;

Error invalid(std::string message) {
  return {.code = ErrorCode::kInvalid, .message = std::move(message)};
}

// "name:value"; without a colon there is no value.
struct Word {
  std::string_view name;
  std::optional<std::string_view> value;
};
Word word_of(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return {text, std::nullopt};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

Result<std::uint64_t> whole_number(const Word& word, std::uint64_t least, std::uint64_t most,
                                   std::string_view what) {
  std::uint64_t number = 0;
  const std::string_view text = word.value.value_or("");
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = code == std::errc() && end == text.data() + text.size();
  if (whole && number >= least && number <= most) return number;
  return invalid(fmt::format("update={}: {}, a whole number from {} to {}, stands behind {}:",
                             word.name, what, least, most, word.name));
}

Result<void> set_update(const Word& word, UpdateRule& rule) {
  if (word.name == "average") {
    rule.kind = UpdateRule::Kind::kAverage;
    if (!word.value) return {};
    TALLY_TRY(const std::uint64_t ms, whole_number(word, 1, kMostMilliseconds, "milliseconds"));
    rule.period = std::chrono::milliseconds(ms);
  } else if (word.name == "local") {
    rule.kind = UpdateRule::Kind::kLocal;
    TALLY_TRY(rule.words, whole_number(word, 1, kMostWords, "words of a worker"));
  } else if (word.name == "asp") {
    rule.kind = UpdateRule::Kind::kAsp;
    if (word.value) return invalid("update=asp takes nothing behind it");
  } else if (word.name == "ssp") {
    rule.kind = UpdateRule::Kind::kSsp;
    TALLY_TRY(const std::uint64_t bound, whole_number(word, 0, kMostBound, "chunks"));
    rule.bound = static_cast<int>(bound);
  } else if (word.name == "bsp") {
    return invalid(
        "update=bsp: word2vec's workers do not wait for each other at every step; there are "
        "average:MS, local:WORDS, and with home=server asp and ssp:S");
  } else {
    const std::vector<std::string_view> known = {"average", "local", "asp", "ssp"};
    return invalid(unknown_word(word.name, "update of word2vec", known));
  }
  return {};
}

// Questions to which word2vec has one answer.
struct Fixed {
  std::string_view key, answer;
};
constexpr Fixed kFixed[] = {
    {"codec", "none"}, {"stale", "keep"}, {"split", "data"}, {"data", "partition"}};

Result<void> check_fixed(std::string_view key, std::string_view text) {
  const auto* const found = std::find_if(std::begin(kFixed), std::end(kFixed),
                                         [key](const Fixed& f) { return f.key == key; });
  if (found == std::end(kFixed)) {
    const std::vector<std::string_view> keys = {"home",  "update", "codec",
                                                "stale", "split",  "data"};
    return invalid(unknown_word(key, "key of a plan", keys));
  }
  if (found->answer == text) return {};
  return invalid(
      fmt::format("{}={} is not for word2vec; there is {}={}", key, text, key, found->answer));
}

}  // namespace

Result<UpdateRule> parse_update_rule(std::string_view plan) {
  constexpr std::string_view kSpace = " \t\n\r";
  UpdateRule rule;
  bool has_update = false;
  std::vector<std::string_view> keys;
  std::optional<bool> server;
  for (;;) {
    plan.remove_prefix(std::min(plan.find_first_not_of(kSpace), plan.size()));
    if (plan.empty()) break;
    const std::string_view item = plan.substr(0, plan.find_first_of(kSpace));
    plan.remove_prefix(item.size());
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos)
      return invalid(fmt::format("'{}' in the plan is not of the form key=word", item));
    const std::string_view key = item.substr(0, equals);
    const std::string_view text = item.substr(equals + 1);
    if (std::find(keys.begin(), keys.end(), key) != keys.end())
      return invalid(fmt::format("'{}' is given twice in the plan", key));
    keys.push_back(key);
    if (key == "update") {
      TALLY_TRY(set_update(word_of(text), rule));
      has_update = true;
    } else if (key == "home" && (text == "group" || text == "server")) {
      server = text == "server";
    } else if (key == "home") {
      return invalid(fmt::format("home={}: there are group and server", text));
    } else {
      TALLY_TRY(check_fixed(key, text));
    }
  }
  if (!has_update && server.value_or(false)) rule.kind = UpdateRule::Kind::kAsp;
  if (rule.uses_servers() == server.value_or(false)) return rule;
  return invalid(rule.uses_servers() ? "update=asp and update=ssp:S are for home=server"
                                     : "home=server goes with update=asp or update=ssp:S");
}

std::string to_string(const UpdateRule& rule) {
  switch (rule.kind) {
    case UpdateRule::Kind::kAverage:
      return fmt::format(
          "home=group update=average:{}",
          std::chrono::duration_cast<std::chrono::milliseconds>(rule.period).count());
    case UpdateRule::Kind::kLocal:
      return fmt::format("home=group update=local:{}", rule.words);
    case UpdateRule::Kind::kAsp:
      return "home=server update=asp";
    case UpdateRule::Kind::kSsp:
      return fmt::format("home=server update=ssp:{}", rule.bound);
  }
  return "";
}

}  // namespace tally::word2vec
