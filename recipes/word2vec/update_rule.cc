#include "recipes/word2vec/update_rule.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"
#include "base/errors.h"

namespace tally::word2vec {

namespace {

constexpr std::string_view kOffered =
    "there are update=average:MS and update=local:WORDS, and with home=server update=asp and "
    "update=ssp:S";

// Settings of a plan that word2vec does not have.
Result<void> check_fixed(const plan::Plan& plan) {
  const plan::Plan fixed;
  if (plan.codec == fixed.codec && plan.stale == fixed.stale && plan.split == fixed.split &&
      plan.data == fixed.data)
    return {};
  return invalid("word2vec has codec=none stale=keep split=data data=partition");
}

}  // namespace

Result<UpdateRule> parse_update_rule(std::string_view text) {
  const UpdateRule defaults;
  plan::Plan plan{
      .update = plan::Update::kAverage,
      .average_every = std::chrono::duration_cast<std::chrono::milliseconds>(defaults.period)};
  // The default with servers is asp.
  const bool has_update = text.find("update=") != std::string_view::npos;
  if (!has_update && text.find("home=server") != std::string_view::npos)
    plan = {.home = plan::Home::kServer, .update = plan::Update::kAsp};
  TALLY_TRY(plan, plan::parse_plan(text, plan));
  TALLY_TRY(check_fixed(plan));
  UpdateRule rule{.kind = plan.update};
  switch (plan.update) {
    case plan::Update::kAverage:
      rule.period = plan.average_every;
      break;
    case plan::Update::kLocal:
      rule.words = plan.local_steps;
      break;
    case plan::Update::kSsp:
      rule.bound = plan.bound;
      break;
    case plan::Update::kAsp:
      break;
    default:
      return invalid(
          fmt::format("{} is not for word2vec, whose workers do not wait for each other "
                      "at every step; {}",
                      update_text(plan), kOffered));
  }
  const bool server = plan.home == plan::Home::kServer;
  if (rule.uses_servers() == server) return rule;
  return invalid(fmt::format("home={} does not go with {} in word2vec; {}",
                             server ? "server" : "group", update_text(plan), kOffered));
}

std::string to_string(const UpdateRule& rule) {
  const plan::Plan plan{
      .update = rule.kind,
      .bound = rule.bound,
      .average_every = std::chrono::duration_cast<std::chrono::milliseconds>(rule.period),
      .local_steps = rule.words};
  return fmt::format("home={} {}", rule.uses_servers() ? "server" : "group", update_text(plan));
}

namespace {

// Words of a worker before the first round, which measures the time.
constexpr double kFirstWords = 20000;
// The distance between rounds changes by at most this factor, so that one odd measurement has
// little effect.
constexpr double kMostChange = 4;

double share_of(double words, std::uint64_t longest) {
  return words / static_cast<double>(std::max<std::uint64_t>(longest, 1));
}

}  // namespace

AveragingSchedule::AveragingSchedule(const UpdateRule& rule, std::uint64_t longest) : rule_(rule) {
  const bool local = rule.kind == UpdateRule::Kind::kLocal;
  next_ = std::min(1.0, share_of(local ? static_cast<double>(rule.words) : kFirstWords, longest));
}

void AveragingSchedule::advance(double seconds) {
  TALLY_CHECK(!is_over_);
  if (next_ >= 1) {
    is_over_ = true;
    return;
  }
  const double last = next_ - before_;
  double step = last;
  if (rule_.kind == UpdateRule::Kind::kAverage) {
    const double wanted = std::chrono::duration<double>(rule_.period).count();
    const double change = seconds > 0 ? wanted / seconds : kMostChange;
    step = last * std::clamp(change, 1 / kMostChange, kMostChange);
  }
  before_ = next_;
  // Avoids a last round shortly after another one.
  next_ = next_ + 1.5 * step >= 1 ? 1 : next_ + step;
}

}  // namespace tally::word2vec
