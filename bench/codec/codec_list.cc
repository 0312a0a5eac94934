#include "bench/codec/codec_list.h"

#include <algorithm>

#include "plan/codec_spec.h"

namespace tally::bench::codecs {
namespace {

bool begins_codec(std::string_view piece) {
  return plan::parse_codec(piece.substr(0, piece.find_first_of(":+"))).has_value();
}

}  // namespace

Result<std::vector<std::string>> parse_codec_list(std::string_view text) {
  std::vector<std::string> codecs;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view piece = text.substr(begin, end - begin);
    if (codecs.empty() || begins_codec(piece)) {
      codecs.emplace_back(piece);
    } else {
      codecs.back() += ',';
      codecs.back() += piece;
    }
    begin = end + 1;
  }
  for (const std::string& codec : codecs) TALLY_TRY(plan::parse_codec(codec));
  return codecs;
}

}  // namespace tally::bench::codecs
