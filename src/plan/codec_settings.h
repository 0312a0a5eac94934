#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "plan/codec_spec.h"
#include "tally/error.h"

namespace tally::plan {

// The numbers and choices behind a codec's word: the "0.01,exact" of topk:0.01,exact. Which kind
// takes which, and what is allowed, is one table. auto's list of candidates and entropy stages are
// not among them.

// Reads one item into the fields of the spec's kind; `first`: it stands first, where some need no
// name. Returns the setting's name, empty for the one that has none. kInvalid for what the kind
// does not take, with what it does.
Result<std::string_view> read_codec_setting(std::string_view item, bool first, CodecSpec& spec);

// Items that read_codec_setting() turns `defaults` into `spec` with.
std::vector<std::string> codec_setting_texts(const CodecSpec& spec, const CodecSpec& defaults);

// kInvalid if a setting of this kind has a value that it cannot have.
Result<void> check_codec_settings(const CodecSpec& spec);

// Copies what the kind of `from` takes.
void copy_codec_settings(const CodecSpec& from, CodecSpec& to);

}  // namespace tally::plan
