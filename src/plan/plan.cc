#include "plan/plan.h"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "base/errors.h"
#include "base/nearest_word.h"
#include "plan/field.h"
#include "plan/plan_values.h"

namespace tally::plan {
namespace {

// A word and the offered word nearest to it in meaning; the two are equal where the word is
// offered.
struct Answer {
  std::string_view word, offered;
  bool is_offered() const { return word == offered; }
};

// Each list is in the order of its enum.
constexpr Answer kHomes[] = {{"group", "group"}, {"server", "server"}};
constexpr Answer kUpdates[] = {
    {"bsp", "bsp"},       {"asp", "asp"},       {"ssp", "ssp"},       {"backup", "backup"},
    {"subset", "subset"}, {"kbatch", "kbatch"}, {"kasync", "kasync"}, {"softsync", "softsync"},
    {"local", "local"},   {"easgd", "bsp"},     {"bmuf", "bsp"},      {"diloco", "bsp"},
    {"slowmo", "bsp"},    {"gossip", "bsp"},    {"adpsgd", "bsp"},    {"average", "average"}};
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
  Field<Plan> field;  // the answer of a plan as an index into `answers`

  std::size_t answer_of(const Plan& plan) const {
    return static_cast<std::size_t>(field.get(plan));
  }
};
constexpr Question kQuestions[] = {{"home", kHomes, field_of<&Plan::home>()},
                                   {"update", kUpdates, field_of<&Plan::update>()},
                                   {"codec", {}, {}},  // codec_spec.h has its answers
                                   {"stale", kStales, field_of<&Plan::stale>()},
                                   {"split", kSplits, field_of<&Plan::split>()},
                                   {"data", kDatas, field_of<&Plan::data>()},
                                   {"conflict", kConflicts, field_of<&Plan::conflict>()}};
constexpr std::size_t kQuestionCount = std::size(kQuestions);
constexpr std::size_t kUpdateIndex = 1, kCodecIndex = 2, kStaleIndex = 3, kConflictIndex = 6;

// The word of an answer, or "?" if its number is not in the list.
std::string_view word_of(const Plan& plan, std::size_t question) {
  const std::size_t choice = kQuestions[question].answer_of(plan);
  const auto& answers = kQuestions[question].answers;
  return choice < answers.size() ? answers[choice].word : "?";
}

std::string text_of(const Plan& plan, std::size_t question) {
  if (question == kCodecIndex) return fmt::format("codec={}", to_string(plan.codec));
  const std::string_view word = word_of(plan, question);
  return fmt::format("{}={}{}", kQuestions[question].key, word, values_text(word, plan));
}

// Removes the first answer from the text of a plan and returns it; empty at the end.
std::string_view take_item(std::string_view& text) {
  constexpr std::string_view kSpace = " \t\n\r";
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  const std::string_view item = text.substr(0, text.find_first_of(kSpace));
  text.remove_prefix(item.size());
  return item;
}

// The answer of a text to a question, as in "codec=topk:0.01"; empty if it has none.
std::string_view given_item(std::string_view text, std::string_view key) {
  for (std::string_view item = take_item(text); !item.empty(); item = take_item(text))
    if (item.substr(0, item.find('=')) == key) return item;
  return "";
}

Error not_offered(std::string_view key, std::string_view word, const Answer& answer) {
  return invalid(fmt::format("{}={} is not offered by this version; nearest: {}={}", key, word, key,
                             answer.offered));
}

// Sets the answer that `text` gives. A word may have values ("ssp:3") or be a product
// ("data*tensor:2"); only the former is offered.
Result<void> choose(std::size_t index, std::string_view text, Plan& plan) {
  if (index == kCodecIndex) {
    TALLY_TRY(plan.codec, parse_codec(text));
    return {};
  }
  const Question& question = kQuestions[index];
  const std::string_view word = text.substr(0, text.find_first_of(":+*"));
  const auto found = std::find_if(question.answers.begin(), question.answers.end(),
                                  [word](const Answer& answer) { return answer.word == word; });
  if (found == question.answers.end()) {
    std::vector<std::string_view> offered;
    for (const Answer& answer : question.answers)
      if (answer.is_offered()) offered.push_back(answer.word);
    return invalid(unknown_word(word, fmt::format("answer to {}", question.key), offered));
  }
  if (!found->is_offered()) return not_offered(question.key, text, *found);
  const std::string answer = fmt::format("{}={}", question.key, text);
  const std::string_view behind = text.substr(word.size());
  if (!behind.empty() && (behind.front() != ':' || behind.size() == 1)) {
    return invalid(fmt::format("{}: '{}' cannot follow {}", answer, behind, word));
  }
  copy_values(word_of(plan, index), Plan(), plan);
  question.field.set(plan, static_cast<double>(found - question.answers.begin()));
  return read_values(answer, word, behind.empty() ? behind : behind.substr(1), plan);
}

Result<void> check_codec_together(const Plan& plan) {
  if (plan.codec.kind == Codec::kNone) return {};
  const std::string codec = text_of(plan, kCodecIndex), update = update_text(plan);
  if (averages_models(plan)) {
    return invalid(fmt::format(
        "{} needs an update of gradients: {} exchanges whole models; nearest: codec=none", codec,
        update));
  }
  if (plan.home == Home::kGroup && plan.codec.kind == Codec::kAuto &&
      plan.update == Update::kBackup) {
    return invalid(fmt::format(
        "{} with {}: auto compares the times of whole steps, which do not wait for all ranks here; "
        "nearest: update=bsp, or codec=int8",
        codec, update));
  }
  if (plan.home == Home::kGroup) return {};
  if (plan.codec.kind == Codec::kAuto) {
    return invalid(
        fmt::format("{} needs home=group: servers do not measure the network to each worker; "
                    "nearest: home=group, "
                    "or codec=int8",
                    codec));
  }
  const bool together =
      plan.codec.kind == Codec::kPowersgd || plan.codec.kind == Codec::kOnebitAdam;
  if (together && plan.update != Update::kBsp) {
    return invalid(
        fmt::format("{} on servers needs update=bsp: its messages can only be decoded together "
                    "with those of all "
                    "other workers of the same step; nearest: update=bsp, or codec=int8",
                    codec));
  }
  return {};
}

// Delay compensation takes a push for the gradient at the values that its worker has read.
Result<void> check_compensation(const Plan& plan) {
  if (plan.stale != Stale::kCompensate) return {};
  std::string obstacle;
  if (plan.codec.kind == Codec::kDgc) obstacle = "dgc sends sums of momentum over many steps";
  if (plan.codec.kind == Codec::kSign && plan.codec.vote) obstacle = "a vote has no magnitudes";
  if (plan.push_every > 1)
    obstacle = fmt::format("push={} sends a sum of gradients at several values", plan.push_every);
  if (obstacle.empty()) return {};
  return invalid(fmt::format(
      "{} needs a push that is one gradient: {}; nearest: stale=scale, or {}",
      text_of(plan, kStaleIndex), obstacle, plan.push_every > 1 ? "push=1" : "codec=none"));
}

// Whether a gradient may be applied to a later version than the one that it was computed at.
bool may_be_stale(const Plan& plan) {
  return plan.update == Update::kAsp || plan.update == Update::kSsp ||
         plan.update == Update::kKasync || plan.update == Update::kSoftsync ||
         (plan.update == Update::kKbatch && plan.any_version);
}

// Rejects combinations that make no sense.
Result<void> check_together(const Plan& plan) {
  const std::string update = update_text(plan);
  const bool in_step = plan.update == Update::kBsp || plan.update == Update::kBackup ||
                       plan.update == Update::kSubset || averages_models(plan);
  if (!in_step && plan.home != Home::kServer) {
    return invalid(fmt::format(
        "{} needs home=server: workers that do not step together need servers to hold the model; "
        "nearest: home=server {}, or update=bsp",
        update, update));
  }
  if (plan.stale != Stale::kKeep && !may_be_stale(plan)) {
    const std::string stale = text_of(plan, kStaleIndex);
    return invalid(fmt::format(
        "{} needs update=asp, ssp, kasync, softsync or kbatch:K,async: with {} no applied gradient "
        "is stale; nearest: home=server update=asp {}, or stale=keep",
        stale, update, stale));
  }
  const bool has_turns = plan.rate != RateShare::kDamped || plan.kept_momentum;
  if (plan.update == Update::kKbatch && !plan.any_version && has_turns) {
    const std::string_view given = std::string_view(update).substr(update.find(',') + 1);
    return invalid(
        fmt::format("{} needs async: without it every update has the whole learning rate and "
                    "momentum; nearest: update=kbatch:{},async,{}, or update=kbatch:{}",
                    update, plan.batches, given, plan.batches));
  }
  if (plan.conflict != Conflict::kLock && plan.home != Home::kServer) {
    const std::string conflict = text_of(plan, kConflictIndex);
    return invalid(
        fmt::format("{} needs home=server: in a group each value has one writer; nearest: "
                    "home=server {}, or conflict=lock",
                    conflict, conflict));
  }
  TALLY_TRY(check_codec_together(plan));
  return check_compensation(plan);
}

// Checks that numbers are in range, and that no number is set which the plan's answers do not take.
Result<void> check_numbers(const Plan& plan) {
  TALLY_TRY(check(plan.codec));
  Plan expected{.codec = plan.codec};
  for (std::size_t q = 0; q < kQuestionCount; ++q) {
    if (q == kCodecIndex) continue;
    TALLY_TRY(check_values(word_of(plan, q), plan));
    kQuestions[q].field.set(expected, kQuestions[q].field.get(plan));
    copy_values(word_of(plan, q), plan, expected);
  }
  if (plan.rate > RateShare::kFull)
    return invalid(fmt::format("no rate= has the number {}", static_cast<int>(plan.rate)));
  if (plan == expected) return {};
  return invalid(fmt::format("a number is set that '{}' does not take", to_string(expected)));
}

// "; did you mean update=bsp?" for a word that answers some question.
std::string key_guess(std::string_view word) {
  for (std::size_t q = 0; q < kQuestionCount; ++q)
    if (Plan trial; choose(q, word, trial))
      return fmt::format("; did you mean {}={}?", kQuestions[q].key, word);
  return "";
}

// "update=bsp,codec=int8" has a comma in place of a space.
Result<void> check_separator(std::string_view item) {
  for (const Question& question : kQuestions) {
    const std::size_t comma = item.find(fmt::format(",{}=", question.key));
    if (comma != std::string_view::npos)
      return invalid(fmt::format("'{}': spaces separate the keys of a plan, as in \"{} {}\"", item,
                                 item.substr(0, comma), item.substr(comma + 1)));
  }
  return {};
}

}  // namespace

Result<Plan> parse_plan(std::string_view text, const Plan& defaults) {
  Plan plan = defaults;
  std::array<bool, kQuestionCount> answered = {};
  for (std::string_view item = take_item(text); !item.empty(); item = take_item(text)) {
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos) {
      return invalid(
          fmt::format("'{}' in the plan is not of the form key=word{}", item, key_guess(item)));
    }
    TALLY_TRY(check_separator(item));
    const std::string_view key = item.substr(0, equals);
    const auto* const question =
        std::find_if(std::begin(kQuestions), std::end(kQuestions),
                     [key](const Question& known) { return known.key == key; });
    if (question == std::end(kQuestions)) {
      std::vector<std::string_view> keys;
      for (const Question& known : kQuestions) keys.push_back(known.key);
      return invalid(unknown_word(key, "key of a plan", keys));
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
  for (std::size_t q = 0; q < kQuestionCount; ++q) {
    if (q == kCodecIndex) continue;
    const Question& question = kQuestions[q];
    const std::size_t choice = question.answer_of(plan);
    if (choice >= question.answers.size()) {
      return invalid(fmt::format("no answer to {} has the number {}", question.key, choice));
    }
    const Answer& answer = question.answers[choice];
    if (!answer.is_offered()) return not_offered(question.key, answer.word, answer);
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
      continue;
    text += fmt::format("{}{}", q == 0 ? "" : " ", text_of(plan, q));
  }
  return text;
}

std::string short_text(const Plan& plan, std::string_view given) {
  std::string text;
  for (std::size_t q = 0; q < kQuestionCount; ++q) {
    const std::string_view own = given_item(given, kQuestions[q].key);
    const std::string answer = own.empty() ? text_of(plan, q) : std::string(own);
    if (q <= kCodecIndex || !own.empty() || answer != text_of(Plan(), q))
      text += fmt::format("{}{}", q == 0 ? "" : " ", answer);
  }
  return text;
}

std::string update_text(const Plan& plan) { return text_of(plan, kUpdateIndex); }

}  // namespace tally::plan
