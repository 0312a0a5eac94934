#include "plan/plan.h"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "base/nearest_word.h"

namespace tally::plan {
namespace {

// A word, and the offered one that comes nearest to what it does: itself where it is offered.
struct Answer {
  std::string_view word, offered;
};

// Each list in the order of its enum.
constexpr Answer kHomes[] = {{"group", "group"}, {"server", "group"}};
constexpr Answer kUpdates[] = {
    {"bsp", "bsp"},    {"asp", "bsp"},    {"ssp", "bsp"},    {"backup", "bsp"}, {"subset", "bsp"},
    {"local", "bsp"},  {"easgd", "bsp"},  {"bmuf", "bsp"},   {"diloco", "bsp"}, {"slowmo", "bsp"},
    {"gossip", "bsp"}, {"adpsgd", "bsp"}, {"average", "bsp"}};
constexpr Answer kCodecs[] = {
    {"none", "none"},  {"fp16", "none"},    {"bf16", "none"},    {"int8", "none"}, {"fp8", "none"},
    {"qsgd", "none"},  {"ternary", "none"}, {"onebit", "none"},  {"sign", "none"}, {"topk", "none"},
    {"randk", "none"}, {"dgc", "none"},     {"powersgd", "none"}};
constexpr Answer kStales[] = {
    {"keep", "keep"}, {"drop", "keep"}, {"scale", "keep"}, {"compensate", "keep"}};
constexpr Answer kSplits[] = {
    {"data", "data"}, {"pipeline", "data"}, {"tensor", "data"}, {"shard", "data"}};
constexpr Answer kDatas[] = {{"partition", "partition"},
                             {"replicate", "replicate"},
                             {"stream", "stream"},
                             {"stages", "partition"}};

struct Question {
  std::string_view key;
  std::span<const Answer> answers;
};
constexpr Question kQuestions[] = {{"home", kHomes},   {"update", kUpdates}, {"codec", kCodecs},
                                   {"stale", kStales}, {"split", kSplits},   {"data", kDatas}};
constexpr std::size_t kQuestionCount = std::size(kQuestions);

// The answers of a plan as numbers in their lists, in the order of kQuestions.
using Choices = std::array<std::size_t, kQuestionCount>;

Choices choices_of(const Plan& plan) {
  return {static_cast<std::size_t>(plan.home),  static_cast<std::size_t>(plan.update),
          static_cast<std::size_t>(plan.codec), static_cast<std::size_t>(plan.stale),
          static_cast<std::size_t>(plan.split), static_cast<std::size_t>(plan.data)};
}

Plan plan_of(const Choices& choices) {
  return {.home = static_cast<Home>(choices[0]),
          .update = static_cast<Update>(choices[1]),
          .codec = static_cast<Codec>(choices[2]),
          .stale = static_cast<Stale>(choices[3]),
          .split = static_cast<Split>(choices[4]),
          .data = static_cast<Data>(choices[5])};
}

Error invalid(std::string message) {
  return {.code = ErrorCode::kInvalid, .message = std::move(message)};
}

Error not_offered(std::string_view key, std::string_view word, const Answer& answer) {
  return invalid(fmt::format("{}={} is not offered by this version; nearest: {}={}", key, word, key,
                             answer.offered));
}

template <typename List, typename Name>
std::vector<std::string_view> names_of(const List& list, Name name) {
  std::vector<std::string_view> names;
  for (const auto& entry : list) names.push_back(entry.*name);
  return names;
}

// The number of the answer that `text` names. A word may bring values ("ssp:3"), an entropy stage
// ("topk:0.01+rans") or a product ("data*tensor:2"); those that are offered take none.
Result<std::size_t> choose(const Question& question, std::string_view text) {
  const std::string_view word = text.substr(0, text.find_first_of(":+*"));
  const auto found = std::find_if(question.answers.begin(), question.answers.end(),
                                  [word](const Answer& answer) { return answer.word == word; });
  if (found == question.answers.end()) {
    const auto words = names_of(question.answers, &Answer::word);
    return invalid(unknown_word(word, fmt::format("answer to {}", question.key), words));
  }
  if (found->word != found->offered) return not_offered(question.key, text, *found);
  if (word.size() != text.size()) {
    return invalid(fmt::format("{}={}: {} takes nothing behind it", question.key, text, word));
  }
  return static_cast<std::size_t>(found - question.answers.begin());
}

}  // namespace

Result<Plan> parse_plan(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\r";
  Choices choices = choices_of(Plan());
  std::array<bool, kQuestionCount> answered = {};
  for (;;) {
    text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
    if (text.empty()) break;
    const std::string_view item = text.substr(0, text.find_first_of(kSpace));
    text.remove_prefix(item.size());

    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos) {
      return invalid(fmt::format("'{}' in the plan is not of the form key=word", item));
    }
    const std::string_view key = item.substr(0, equals);
    const auto* const question =
        std::find_if(std::begin(kQuestions), std::end(kQuestions),
                     [key](const Question& known) { return known.key == key; });
    if (question == std::end(kQuestions)) {
      return invalid(unknown_word(key, "key of a plan", names_of(kQuestions, &Question::key)));
    }
    const auto index = static_cast<std::size_t>(question - std::begin(kQuestions));
    if (answered[index]) return invalid(fmt::format("'{}' is given twice in the plan", key));
    answered[index] = true;
    TALLY_TRY(choices[index], choose(*question, item.substr(equals + 1)));
  }
  return plan_of(choices);
}

Result<void> check(const Plan& plan) {
  const Choices choices = choices_of(plan);
  for (std::size_t q = 0; q < kQuestionCount; ++q) {
    const Question& question = kQuestions[q];
    if (choices[q] >= question.answers.size()) {
      return invalid(fmt::format("no answer to {} has the number {}", question.key, choices[q]));
    }
    const Answer& answer = question.answers[choices[q]];
    if (answer.word != answer.offered) return not_offered(question.key, answer.word, answer);
  }
  return {};
}

std::string to_string(const Plan& plan) {
  const Choices choices = choices_of(plan);
  std::string text;
  for (std::size_t q = 0; q < kQuestionCount; ++q) {
    const auto& answers = kQuestions[q].answers;
    const std::string_view word = choices[q] < answers.size() ? answers[choices[q]].word : "?";
    text += fmt::format("{}{}={}", q == 0 ? "" : " ", kQuestions[q].key, word);
  }
  return text;
}

}  // namespace tally::plan
