#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "tally/error.h"

namespace tally::bench::codecs {

// Parses "int8,topk:0.01,exact,none": codecs of a plan, separated by commas. Settings of a codec
// are separated by commas too: a word that is no codec belongs to the one before it. kInvalid names
// the wrong word.
Result<std::vector<std::string>> parse_codec_list(std::string_view text);

// Returns the default codecs: every codec with its defaults, and some with entropy stages.
std::vector<std::string> usual_codecs();

}  // namespace tally::bench::codecs
