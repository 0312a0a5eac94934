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

std::vector<std::string> usual_codecs() {
  return {"fp16",          "bf16",         "int8",
          "fp8",           "fp8:e5m2",     "qsgd:2",
          "qsgd:4",        "qsgd:8",       "ternary",
          "natural",       "onebit",       "sign",
          "onebit-adam",   "topk:0.01",    "topk:0.01,exact",
          "randk:0.01",    "dgc:0.001",    "threshold",
          "powersgd:2",    "int8+rans",    "int8+huffman",
          "int8+zstd",     "qsgd:4+rans",  "qsgd:4+huffman",
          "qsgd:4+zstd",   "ternary+rans", "ternary+zstd",
          "topk:0.01+rans"};
}

}  // namespace tally::bench::codecs
