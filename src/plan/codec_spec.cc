#include "plan/codec_spec.h"

#include <algorithm>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.h"
#include "base/nearest_word.h"
#include "plan/codec_settings.h"

namespace tally::plan {
namespace {

// Both lists are in the order of their enums.
constexpr std::string_view kWords[] = {
    "none", "fp16",        "bf16", "int8",  "fp8", "qsgd",      "ternary",  "natural", "onebit",
    "sign", "onebit-adam", "topk", "randk", "dgc", "threshold", "powersgd", "auto"};
constexpr std::string_view kStages[] = {"", "rans", "huffman", "zstd"};
constexpr std::string_view kFrom = "from=";
constexpr std::size_t kMostCandidates = 16;

bool always_has_feedback(Codec kind) {
  return kind == Codec::kDgc || kind == Codec::kPowersgd || kind == Codec::kOnebitAdam;
}

bool default_feedback(const CodecSpec& spec) {
  switch (spec.kind) {
    case Codec::kInt8:
    case Codec::kFp8:
    case Codec::kOnebit:
    case Codec::kTopk:
    case Codec::kRandk:
    case Codec::kThreshold:
      return true;
    case Codec::kSign:
      return !spec.vote;
    default:
      return always_has_feedback(spec.kind);
  }
}

std::size_t default_block(const CodecSpec& spec) {
  switch (spec.kind) {
    case Codec::kInt8:
    case Codec::kFp8:
      return 256;
    case Codec::kQsgd:
      return spec.bits == 2 ? 128 : 512;
    case Codec::kOnebit:
    case Codec::kSign:
    case Codec::kOnebitAdam:
      return 128;
    default:
      return 0;
  }
}

// The spec of the kind's word alone; the default block also depends on bits, feedback on vote, and
// the mask of randk on feedback and momentum.
CodecSpec defaults_of(const CodecSpec& spec) {
  CodecSpec defaults{.kind = spec.kind, .vote = spec.vote, .bits = spec.bits};
  defaults.block = default_block(defaults);
  defaults.feedback = default_feedback(defaults);
  defaults.vote = false;
  defaults.bits = spec.kind == Codec::kQsgd ? 4 : 0;
  if (spec.kind == Codec::kTernary) defaults.clip = 2.5;
  if (spec.kind == Codec::kTopk || spec.kind == Codec::kRandk) defaults.density = 0.01;
  if (spec.kind == Codec::kDgc) {
    defaults.density = 0.001;
    defaults.warmup = 200;
  }
  if (spec.kind == Codec::kOnebitAdam) defaults.warmup = 100;
  defaults.masks = spec.kind == Codec::kDgc ||
                   (spec.kind == Codec::kRandk && spec.early_momentum && spec.feedback);
  if (spec.kind == Codec::kOnebit || (spec.kind == Codec::kSign && !spec.vote))
    defaults.back = Back::kInt8;
  defaults.early_momentum = spec.kind == Codec::kOnebit || spec.kind == Codec::kSign ||
                            spec.kind == Codec::kTopk || spec.kind == Codec::kRandk;
  if (spec.kind == Codec::kThreshold) defaults.threshold = 0.001;
  if (spec.kind == Codec::kPowersgd) defaults.rank = 2;
  return defaults;
}

// `text` is the text behind the colon, without the entropy stage.
Result<void> read_settings(std::string_view text, CodecSpec& spec) {
  std::vector<std::string_view> read;
  for (bool more = true, first = true; more; first = false) {
    const std::size_t comma = text.find(',');
    more = comma != std::string_view::npos;
    TALLY_TRY(const std::string_view name, read_codec_setting(text.substr(0, comma), first, spec));
    if (more) text.remove_prefix(comma + 1);
    if (std::find(read.begin(), read.end(), name) != read.end())
      return invalid(fmt::format("{} is given twice", name));
    // Only one setting can be first, so "" need not be remembered.
    if (!name.empty()) read.push_back(name);
  }
  const CodecSpec defaults = defaults_of(spec);
  // The defaults of block and feedback depend on other settings.
  const bool own_block =
      spec.kind != Codec::kQsgd || std::find(read.begin(), read.end(), "block") != read.end();
  if (!own_block) spec.block = defaults.block;
  if (std::find(read.begin(), read.end(), "feedback") == read.end())
    spec.feedback = defaults.feedback;
  if (std::find(read.begin(), read.end(), "back") == read.end()) spec.back = defaults.back;
  if (std::find(read.begin(), read.end(), "mask") == read.end())
    spec.masks = defaults_of(spec).masks;
  return {};
}

std::string_view word_before_settings(std::string_view text) {
  return text.substr(0, text.find_first_of(":+"));
}

Error cannot_choose(Codec kind) {
  return invalid(fmt::format(
      "auto cannot choose {}: its choice may change from bucket to bucket, so it must not change "
      "the optimizer",
      word_of(kind)));
}

// Reads the candidates of auto: "from=int8/topk:0.01,exact+rans".
Result<void> read_candidates(std::string_view text, CodecSpec& spec) {
  if (text.substr(0, kFrom.size()) != kFrom) {
    return invalid("auto takes only candidates, as in auto:from=int8/topk:0.01");
  }
  text.remove_prefix(kFrom.size());
  for (bool more = true; more;) {
    const std::size_t slash = text.find('/');
    more = slash != std::string_view::npos;
    const std::string_view item = text.substr(0, slash);
    // Checked before parsing, so that deeply nested lists cost nothing.
    if (word_before_settings(item) == word_of(Codec::kAuto)) return cannot_choose(Codec::kAuto);
    TALLY_TRY(const CodecSpec candidate, parse_codec(item));
    if (more) text.remove_prefix(slash + 1);
    spec.candidates.push_back(to_string(candidate));
    if (spec.candidates.size() > kMostCandidates)
      return invalid(fmt::format("auto takes at most {} candidates", kMostCandidates));
  }
  return {};
}

Result<void> check_candidate(std::string_view text) {
  if (word_before_settings(text) == word_of(Codec::kAuto)) return cannot_choose(Codec::kAuto);
  TALLY_TRY(const CodecSpec spec, parse_codec(text));
  if (to_string(spec) != text)
    return invalid(fmt::format("candidate '{}' must be written '{}'", text, to_string(spec)));
  switch (spec.kind) {
    case Codec::kDgc:
    case Codec::kOnebitAdam:
      return cannot_choose(spec.kind);
    default:
      break;
  }
  if (spec.all || spec.min_elements != CodecSpec().min_elements || spec.warmup != 0)
    return invalid("candidates of auto take no min, no all and no warmup");
  return {};
}

Result<void> check_candidates(const std::vector<std::string>& candidates) {
  if (candidates.size() > kMostCandidates)
    return invalid(fmt::format("auto takes at most {} candidates", kMostCandidates));
  for (auto at = candidates.begin(); at != candidates.end(); ++at) {
    TALLY_TRY(check_candidate(*at));
    if (std::find(candidates.begin(), at, *at) != at)
      return invalid(fmt::format("{} is given twice", *at));
  }
  return {};
}

Result<void> check_kind(const CodecSpec& spec) {
  const std::string_view word = word_of(spec.kind);
  const bool plain = spec.kind == Codec::kNone || spec.kind == Codec::kAuto;
  if (spec.stage > EntropyStage::kZstd) {
    return invalid(fmt::format("no entropy stage has the number {}", static_cast<int>(spec.stage)));
  }
  if (spec.stage != EntropyStage::kNone && (plain || spec.kind == Codec::kPowersgd)) {
    return invalid(fmt::format("no entropy stage can follow {}{}", word,
                               plain ? "" : ": its factors are summed by all-reduce"));
  }
  if (!spec.feedback && always_has_feedback(spec.kind))
    return invalid(fmt::format("{} needs feedback", word));
  if (spec.feedback && spec.kind == Codec::kSign && spec.vote)
    return invalid("vote takes no feedback: the residual of a vote is not defined");
  if (spec.vote && spec.back != Back::kSame)
    return invalid("vote takes no back: the majority goes back exactly");
  if (spec.masks && spec.kind == Codec::kRandk && !spec.early_momentum)
    return invalid("mask=on needs momentum=early: the momentum of the optimizer is not masked");
  if (spec.masks && spec.kind == Codec::kRandk && !spec.feedback)
    return invalid("mask=on needs feedback=on: the masked momentum is one of sums");
  const bool is_coarse =
      spec.kind == Codec::kTernary || (spec.kind == Codec::kQsgd && spec.bits == 2);
  if (spec.feedback && is_coarse)
    return invalid(
        fmt::format("{} takes no feedback: one encoding may err by more than the gradient, so a "
                    "residual would grow from step to step; nearest: {}",
                    word, spec.kind == Codec::kTernary ? word : "qsgd:4,feedback=on"));
  if (spec.by_column && spec.block != default_block(spec)) return invalid("column takes no block");
  return {};
}

Result<void> check_fields(const CodecSpec& spec) {
  TALLY_TRY(check_codec_settings(spec));
  TALLY_TRY(check_kind(spec));
  CodecSpec expected{.kind = spec.kind, .stage = spec.stage};
  copy_codec_settings(spec, expected);
  if (spec.kind == Codec::kAuto) {
    expected.candidates = spec.candidates;
    TALLY_TRY(check_candidates(spec.candidates));
  }
  if (spec == expected) return {};
  return invalid(fmt::format("a setting is set that {} does not take", word_of(spec.kind)));
}

// `text` is the text behind the word, `spec` the spec of the word alone.
Result<CodecSpec> parse_behind(std::string_view text, CodecSpec spec) {
  // The entropy stage is last; auto has none, but its candidates may.
  const std::size_t plus = spec.kind == Codec::kAuto ? std::string_view::npos : text.find('+');
  if (plus != std::string_view::npos) {
    const std::string_view stage = text.substr(plus + 1);
    const auto* const found = std::find(std::begin(kStages) + 1, std::end(kStages), stage);
    if (found == std::end(kStages)) {
      const std::span<const std::string_view> known(std::begin(kStages) + 1, std::end(kStages));
      return invalid(unknown_word(stage, "entropy stage", known));
    }
    spec.stage = static_cast<EntropyStage>(found - std::begin(kStages));
    text = text.substr(0, plus);
  }
  if (!text.empty()) {
    text.remove_prefix(1);
    TALLY_TRY(spec.kind == Codec::kAuto ? read_candidates(text, spec) : read_settings(text, spec));
  }
  TALLY_TRY(check_fields(spec));
  return spec;
}

}  // namespace

std::string_view word_of(Codec kind) {
  const auto index = static_cast<std::size_t>(kind);
  return index < std::size(kWords) ? kWords[index] : "?";
}

Result<CodecSpec> parse_codec(std::string_view text) {
  const std::string_view word = word_before_settings(text);
  const auto* const found = std::find(std::begin(kWords), std::end(kWords), word);
  if (found == std::end(kWords)) return invalid(unknown_word(word, "codec", kWords));
  const auto kind = static_cast<Codec>(found - std::begin(kWords));
  // Some defaults depend on others.
  const CodecSpec word_alone = defaults_of(defaults_of({.kind = kind}));
  auto spec = parse_behind(text.substr(word.size()), word_alone);
  if (!spec) return invalid(fmt::format("codec={}: {}", text, spec.error().message));
  return spec;
}

std::string to_string(const CodecSpec& spec) {
  std::string text(word_of(spec.kind));
  if (static_cast<std::size_t>(spec.kind) >= std::size(kWords)) return text;
  if (spec.kind == Codec::kAuto && !spec.candidates.empty())
    text += fmt::format(":{}{}", kFrom, fmt::join(spec.candidates, "/"));
  const auto settings = codec_setting_texts(spec, defaults_of(spec));
  if (!settings.empty()) text += fmt::format(":{}", fmt::join(settings, ","));
  const auto stage = static_cast<std::size_t>(spec.stage);
  if (stage > 0) text += fmt::format("+{}", stage < std::size(kStages) ? kStages[stage] : "?");
  return text;
}

Result<void> check(const CodecSpec& spec) {
  if (static_cast<std::size_t>(spec.kind) >= std::size(kWords))
    return invalid(fmt::format("no codec has the number {}", static_cast<int>(spec.kind)));
  const auto checked = check_fields(spec);
  if (checked) return {};
  return invalid(fmt::format("codec={}: {}", to_string(spec), checked.error().message));
}

}  // namespace tally::plan
