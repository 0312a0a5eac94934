#include "plan/codec_settings.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/errors.h"
#include "base/nearest_word.h"
#include "base/option_text.h"
#include "plan/field.h"

namespace tally::plan {
namespace {

constexpr unsigned bit(Codec kind) { return 1U << static_cast<unsigned>(kind); }

template <typename... Kinds>
constexpr unsigned kinds_of(Kinds... kinds) {
  return (bit(kinds) | ...);
}

constexpr unsigned kCompressing =
    (bit(Codec::kAuto) - 1) & ~bit(Codec::kNone);  // all but none and auto

// kAbove excludes `least`.
enum class Bounds { kWhole, kFrom, kAbove };

// A number without a name stands first.
struct CodecNumber {
  unsigned kinds;
  std::string_view name, example;
  Bounds bounds;
  double least, most;
  Field<CodecSpec> field;
};
// A text that sets a field to a value. A choice without a name stands first.
struct Choice {
  unsigned kinds;
  std::string_view name, text;
  double value;
  Field<CodecSpec> field;
};

constexpr double kMostCodecSteps = 1e9;
constexpr unsigned kBlockFirst = kinds_of(Codec::kInt8, Codec::kOnebit, Codec::kSign);
constexpr unsigned kBlockNamed = kinds_of(Codec::kFp8, Codec::kQsgd, Codec::kOnebitAdam);

constexpr unsigned kMayHaveMomentum =
    kinds_of(Codec::kInt8, Codec::kFp8, Codec::kOnebit, Codec::kSign, Codec::kTopk, Codec::kRandk,
             Codec::kThreshold);

// Codecs that encode the mean as they encode gradients, with more error than int8 has.
constexpr unsigned kMayGoBack =
    kinds_of(Codec::kFp8, Codec::kQsgd, Codec::kTernary, Codec::kNatural, Codec::kOnebit,
             Codec::kSign, Codec::kOnebitAdam);

constexpr CodecNumber kCodecNumbers[] = {
    {kBlockFirst, "", "256", Bounds::kWhole, 16, 65536, field_of<&CodecSpec::block>()},
    {bit(Codec::kOnebitAdam), "", "100", Bounds::kWhole, 1, kMostCodecSteps,
     field_of<&CodecSpec::warmup>()},
    {kinds_of(Codec::kTopk, Codec::kRandk, Codec::kDgc), "", "0.01", Bounds::kAbove, 0, 1,
     field_of<&CodecSpec::density>()},
    {bit(Codec::kThreshold), "", "0.001", Bounds::kFrom, 1e-30, 1e30,
     field_of<&CodecSpec::threshold>()},
    {bit(Codec::kPowersgd), "", "2", Bounds::kWhole, 1, 64, field_of<&CodecSpec::rank>()},
    {kBlockNamed, "block", "256", Bounds::kWhole, 16, 65536, field_of<&CodecSpec::block>()},
    {kCompressing & ~bit(Codec::kOnebitAdam), "warmup", "200", Bounds::kWhole, 0, kMostCodecSteps,
     field_of<&CodecSpec::warmup>()},
    {kinds_of(Codec::kTernary, Codec::kDgc), "clip", "2.5", Bounds::kFrom, 0, 1e6,
     field_of<&CodecSpec::clip>()},
    {kCompressing, "min", "1024", Bounds::kWhole, 0, 1e15, field_of<&CodecSpec::min_elements>()},
};
constexpr Choice kChoices[] = {
    {bit(Codec::kFp8), "", "e4m3", static_cast<double>(Fp8Format::kE4m3),
     field_of<&CodecSpec::fp8>()},
    {bit(Codec::kFp8), "", "e5m2", static_cast<double>(Fp8Format::kE5m2),
     field_of<&CodecSpec::fp8>()},
    {bit(Codec::kQsgd), "", "2", 2, field_of<&CodecSpec::bits>()},
    {bit(Codec::kQsgd), "", "4", 4, field_of<&CodecSpec::bits>()},
    {bit(Codec::kQsgd), "", "8", 8, field_of<&CodecSpec::bits>()},
    {bit(Codec::kOnebit), "", "column", 1, field_of<&CodecSpec::by_column>()},
    {bit(Codec::kSign), "vote", "vote", 1, field_of<&CodecSpec::vote>()},
    {bit(Codec::kTopk), "exact", "exact", 1, field_of<&CodecSpec::exact>()},
    {kinds_of(Codec::kDgc, Codec::kRandk), "mask", "mask=off", 0, field_of<&CodecSpec::masks>()},
    {kinds_of(Codec::kDgc, Codec::kRandk), "mask", "mask=on", 1, field_of<&CodecSpec::masks>()},
    {kMayGoBack, "back", "back=same", static_cast<double>(Back::kSame),
     field_of<&CodecSpec::back>()},
    {kMayGoBack, "back", "back=int8", static_cast<double>(Back::kInt8),
     field_of<&CodecSpec::back>()},
    {kMayGoBack, "back", "back=bf16", static_cast<double>(Back::kBf16),
     field_of<&CodecSpec::back>()},
    {kCompressing, "feedback", "feedback=on", 1, field_of<&CodecSpec::feedback>()},
    {kCompressing, "feedback", "feedback=off", 0, field_of<&CodecSpec::feedback>()},
    {kMayHaveMomentum, "momentum", "momentum=early", 1, field_of<&CodecSpec::early_momentum>()},
    {kMayHaveMomentum, "momentum", "momentum=late", 0, field_of<&CodecSpec::early_momentum>()},
    {kCompressing, "all", "all", 1, field_of<&CodecSpec::all>()},
};

template <typename Setting>
bool takes(const CodecSpec& spec, const Setting& setting) {
  return (setting.kinds & bit(spec.kind)) != 0;
}

bool in_range(const CodecNumber& number, double value) {
  return number.bounds == Bounds::kAbove ? value > number.least && value <= number.most
                                         : value >= number.least && value <= number.most;
}

Error out_of_range(const CodecNumber& number, double value) {
  return invalid(
      number.bounds == Bounds::kAbove
          ? fmt::format("{} is not above {} and at most {}", value, number.least, number.most)
          : fmt::format("{} is not from {} to {}", value, number.least, number.most));
}

Result<void> read_codec_number(const CodecNumber& number, std::string_view text, CodecSpec& spec) {
  TALLY_TRY(const double value, parse_number(text));
  if (number.bounds == Bounds::kWhole) TALLY_TRY(parse_count(text));
  // check_codec_settings() cannot check a number that does not fit its field.
  if (!in_range(number, value)) return out_of_range(number, value);
  number.field.set(spec, value);
  return {};
}

Error unknown(std::string_view item, const CodecSpec& spec) {
  std::vector<std::string_view> names;
  std::string_view example;
  for (const Choice& choice : kChoices) {
    if (takes(spec, choice)) names.push_back(choice.text);
  }
  for (const CodecNumber& number : kCodecNumbers) {
    if (!takes(spec, number)) continue;
    if (number.name.empty()) {
      example = number.example;
    } else {
      names.push_back(number.name);
    }
  }
  const std::string_view word = word_of(spec.kind);
  if (names.empty()) return invalid(fmt::format("{} takes no settings", word));
  std::string message = unknown_word(item, fmt::format("setting of {}", word), names);
  if (!example.empty())
    message += fmt::format("; a number stands first, as in {}:{}", word, example);
  return invalid(std::move(message));
}

bool begins_a_number(std::string_view text) { return text.find_first_of("0123456789.-") == 0; }

}  // namespace

Result<std::string_view> read_codec_setting(std::string_view item, bool first, CodecSpec& spec) {
  for (const Choice& choice : kChoices) {
    if (!takes(spec, choice) || choice.text != item) continue;
    if (choice.name.empty() && !first) break;
    choice.field.set(spec, choice.value);
    return choice.name;
  }
  const std::size_t equals = item.find('=');
  for (const CodecNumber& number : kCodecNumbers) {
    if (!takes(spec, number)) continue;
    if (number.name.empty()) {
      if (!first || !begins_a_number(item)) continue;
      TALLY_TRY(read_codec_number(number, item, spec));
      return number.name;
    }
    if (number.name != item.substr(0, equals)) continue;
    TALLY_TRY(read_codec_number(
        number, equals == std::string_view::npos ? "" : item.substr(equals + 1), spec));
    return number.name;
  }
  return unknown(item, spec);
}

std::vector<std::string> codec_setting_texts(const CodecSpec& spec, const CodecSpec& defaults) {
  std::vector<std::string> texts;
  const auto differs = [&](const auto& setting) {
    return takes(spec, setting) && setting.field.get(spec) != setting.field.get(defaults);
  };
  for (const bool first : {true, false}) {
    for (const CodecNumber& number : kCodecNumbers) {
      if (number.name.empty() != first || !differs(number)) continue;
      std::string value = fmt::format("{}", number.field.get(spec));
      // "1e+20" becomes "1e20": a plus sign begins the entropy stage.
      value.erase(std::remove(value.begin(), value.end(), '+'), value.end());
      texts.push_back(first ? value : fmt::format("{}={}", number.name, value));
    }
    for (const Choice& choice : kChoices) {
      if (choice.name.empty() != first || !differs(choice)) continue;
      if (choice.field.get(spec) == choice.value) texts.emplace_back(choice.text);
    }
  }
  return texts;
}

Result<void> check_codec_settings(const CodecSpec& spec) {
  for (const CodecNumber& number : kCodecNumbers) {
    const double value = number.field.get(spec);
    if (takes(spec, number) && !in_range(number, value)) return out_of_range(number, value);
  }
  // Choices that have more than two values; all other choices are booleans.
  if (spec.back > Back::kBf16)
    return invalid(fmt::format("no way back has the number {}", static_cast<int>(spec.back)));
  if (spec.kind == Codec::kQsgd && spec.bits != 2 && spec.bits != 4 && spec.bits != 8)
    return invalid(fmt::format("{} bits are not 2, 4 or 8", spec.bits));
  if (spec.fp8 > Fp8Format::kE5m2)
    return invalid(fmt::format("no fp8 format has the number {}", static_cast<int>(spec.fp8)));
  return {};
}

void copy_codec_settings(const CodecSpec& from, CodecSpec& to) {
  for (const CodecNumber& number : kCodecNumbers) {
    if (takes(from, number)) number.field.set(to, number.field.get(from));
  }
  for (const Choice& choice : kChoices) {
    if (takes(from, choice)) choice.field.set(to, choice.field.get(from));
  }
}

}  // namespace tally::plan
