#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "plan/codec_spec.h"
#include "tally/error.h"

namespace tally::plan {

// The settings of a codec's word: the "0.01,exact" of topk:0.01,exact. One table has the settings
// of every kind and their ranges. The candidates of auto and the entropy stages are not among them.

// Reads one item into the fields of the spec's kind. Settings without a name must be `first`.
// Returns the setting's name, or "" if it has none. kInvalid for a setting that the kind does not
// take, with those that it does.
Result<std::string_view> read_codec_setting(std::string_view item, bool first, CodecSpec& spec);

// The items with which read_codec_setting() turns `defaults` into `spec`.
std::vector<std::string> codec_setting_texts(const CodecSpec& spec, const CodecSpec& defaults);

// kInvalid if a setting of this kind is out of range.
Result<void> check_codec_settings(const CodecSpec& spec);

// Copies the settings that the kind of `from` takes.
void copy_codec_settings(const CodecSpec& from, CodecSpec& to);

}  // namespace tally::plan
