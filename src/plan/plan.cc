#include "plan/plan.h"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "base/nearest_word.h"
#include "plan/plan_values.h"

namespace tally::plan {
namespace {

// A word, and the offered one that comes nearest to what it does: itself where it is offered.
struct Answer {
  std::string_view word, offered;
};

// Each list in the order of its enum.
constexpr Answer kHomes[] = {{"group", "group"}, {"server", "server"}};
constexpr Answer kUpdates[] = {{"bsp", "bsp"},       {"asp", "asp"},        {"ssp", "ssp"},
                               {"backup", "backup"}, {"subset", "subset"},  {"kbatch", "kbatch"},
                               {"local", "local"},   {"easgd", "bsp"},      {"bmuf", "bsp"},
                               {"diloco", "bsp"},    {"slowmo", "bsp"},     {"gossip", "bsp"},
                               {"adpsgd", "bsp"},    {"average", "average"}};
constexpr Answer kCodecs[] = {{"none", "none"},     {"fp16", "none"},        {"bf16", "none"},
                              {"int8", "none"},     {"fp8", "none"},         {"qsgd", "none"},
                              {"ternary", "none"},  {"natural", "none"},     {"onebit", "none"},
                              {"sign", "none"},     {"onebit-adam", "none"}, {"topk", "none"},
                              {"randk", "none"},    {"dgc", "none"},         {"threshold", "none"},
                              {"powersgd", "none"}, {"auto", "none"}};
constexpr Answer kStales[] = {
    {"keep", "keep"}, {"drop", "drop"}, {"scale", "scale"}, {"compensate", "compensate"}};
constexpr Answer kConflicts[] = {
    {"lock", "lock"}, {"atomic", "atomic"}, {"accumulate", "accumulate"}};
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
constexpr Question kQuestions[] = {
    {"home", kHomes},   {"update", kUpdates}, {"codec", kCodecs},      {"stale", kStales},
    {"split", kSplits}, {"data", kDatas},     {"conflict", kConflicts}};
constexpr std::size_t kQuestionCount = std::size(kQuestions);
constexpr std::size_t kUpdateIndex = 1, kStaleIndex = 3, kConflictIndex = 6;

// The answers of a plan as numbers in their lists, in the order of kQuestions.
using Choices = std::array<std::size_t, kQuestionCount>;

Choices choices_of(const Plan& plan) {
  return {static_cast<std::size_t>(plan.home),    static_cast<std::size_t>(plan.update),
          static_cast<std::size_t>(plan.codec),   static_cast<std::size_t>(plan.stale),
          static_cast<std::size_t>(plan.split),   static_cast<std::size_t>(plan.data),
          static_cast<std::size_t>(plan.conflict)};
}

void set_choice(Plan& plan, std::size_t question, std::size_t answer) {
  switch (question) {
    case 0:
      plan.home = static_cast<Home>(answer);
      break;
    case kUpdateIndex:
      plan.update = static_cast<Update>(answer);
      break;
    case 2:
      plan.codec = static_cast<Codec>(answer);
      break;
    case kStaleIndex:
      plan.stale = static_cast<Stale>(answer);
      break;
    case 4:
      plan.split = static_cast<Split>(answer);
      break;
    case 5:
      plan.data = static_cast<Data>(answer);
      break;
    default:
      plan.conflict = static_cast<Conflict>(answer);
      break;
  }
}

// The word of an answer, which may be out of its list.
std::string_view word_of(const Plan& plan, std::size_t question) {
  const std::size_t choice = choices_of(plan)[question];
  const auto& answers = kQuestions[question].answers;
  return choice < answers.size() ? answers[choice].word : "?";
}

std::string text_of(const Plan& plan, std::size_t question) {
  const std::string_view word = word_of(plan, question);
  return fmt::format("{}={}{}", kQuestions[question].key, word, values_text(word, plan));
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

// Takes over the answer that `text` gives. A word may bring values ("ssp:3"), an entropy stage ("topk:0.01+rans") or a
// product ("data*tensor:2"); only the first is offered.
Result<void> choose(std::size_t index, std::string_view text, Plan& plan) {
  const Question& question = kQuestions[index];
  const std::string_view word = text.substr(0, text.find_first_of(":+*"));
  const auto found = std::find_if(question.answers.begin(), question.answers.end(),
                                  [word](const Answer& answer) { return answer.word == word; });
  if (found == question.answers.end()) {
    const auto words = names_of(question.answers, &Answer::word);
    return invalid(unknown_word(word, fmt::format("answer to {}", question.key), words));
  }
  if (found->word != found->offered) return not_offered(question.key, text, *found);
  const std::string answer = fmt::format("{}={}", question.key, text);
  const std::string_view behind = text.substr(word.size());
  if (!behind.empty() && (behind.front() != ':' || behind.size() == 1)) {
    return invalid(fmt::format("{}: '{}' cannot stand behind {}", answer, behind, word));
  }
  copy_values(word_of(plan, index), Plan(), plan);
  set_choice(plan, index, static_cast<std::size_t>(found - question.answers.begin()));
  return read_values(answer, word, behind.empty() ? behind : behind.substr(1), plan);
}

// The combinations that make sense.
Result<void> check_together(const Plan& plan) {
  const std::string update = update_text(plan);
  const bool at_once = plan.update == Update::kAsp || plan.update == Update::kSsp;
  if ((at_once || plan.update == Update::kKbatch) && plan.home != Home::kServer) {
    return invalid(fmt::format(
        "{} needs home=server: where workers do not step together somebody has to have the model; "
        "nearest: home=server {}, or update=bsp",
        update, update));
  }
  if (plan.stale != Stale::kKeep && !at_once) {
    return invalid(fmt::format(
        "{} needs update=asp or update=ssp: with {} no gradient that counts is stale; nearest: "
        "home=server update=asp {}, or stale=keep",
        stale_text(plan), update, stale_text(plan)));
  }
  if (plan.conflict != Conflict::kLock && plan.home != Home::kServer) {
    const std::string conflict = text_of(plan, kConflictIndex);
    return invalid(
        fmt::format("{} needs home=server: in a group nobody writes where others do; nearest: "
                    "home=server {}, or conflict=lock",
                    conflict, conflict));
  }
  return {};
}

// Numbers in their ranges, and none that belong to answers which the plan does not give.
Result<void> check_numbers(const Plan& plan) {
  Plan expected;
  for (std::size_t q = 0; q < kQuestionCount; ++q) {
    TALLY_TRY(check_values(word_of(plan, q), plan));
    set_choice(expected, q, choices_of(plan)[q]);
    copy_values(word_of(plan, q), plan, expected);
  }
  if (plan == expected) return {};
  return invalid(fmt::format("a number is set that '{}' does not take", to_string(expected)));
}

}  // namespace

Result<Plan> parse_plan(std::string_view text, const Plan& defaults) {
  constexpr std::string_view kSpace = " \t\n\r";
  Plan plan = defaults;
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
    TALLY_TRY(choose(index, item.substr(equals + 1), plan));
  }
  TALLY_TRY(check(plan));
  return plan;
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
  TALLY_TRY(check_numbers(plan));
  return check_together(plan);
}

bool averages_models(const Plan& plan) {
  return plan.update == Update::kAverage || plan.update == Update::kLocal;
}

Result<void> check_exchanges_gradients(const Plan& plan, std::string_view recipe) {
  if (!averages_models(plan)) return {};
  return invalid(fmt::format("{} is for word2vec only, not for {}; nearest: update=bsp",
                             update_text(plan), recipe));
}

std::string to_string(const Plan& plan) {
  std::string text;
  for (std::size_t q = 0; q < kQuestionCount; ++q) {
    if (q == kConflictIndex && plan.home != Home::kServer && plan.conflict == Conflict::kLock)
      break;
    text += fmt::format("{}{}", q == 0 ? "" : " ", text_of(plan, q));
  }
  return text;
}

std::string update_text(const Plan& plan) { return text_of(plan, kUpdateIndex); }
std::string stale_text(const Plan& plan) { return text_of(plan, kStaleIndex); }

}  // namespace tally::plan
