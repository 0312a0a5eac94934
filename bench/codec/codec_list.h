#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "tally/error.h"

namespace tally::bench::codecs {

// "int8,topk:0.01,exact,none": codecs of a plan with commas between them, which their own settings
// have too: what begins with no codec's word belongs to the one before it. kInvalid says which is
// none.
Result<std::vector<std::string>> parse_codec_list(std::string_view text);

}  // namespace tally::bench::codecs
