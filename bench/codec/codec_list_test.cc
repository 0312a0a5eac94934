#include "bench/codec/codec_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/codec_spec.h"

namespace tally::bench::codecs {
namespace {

using testing::ElementsAre;

TEST(CodecList, SettingsBelongToTheCodecBeforeThem) {
  EXPECT_THAT(*parse_codec_list("int8"), ElementsAre("int8"));
  EXPECT_THAT(*parse_codec_list("int8,topk:0.01,exact,none,sign:vote,min=64,qsgd:4+rans"),
              ElementsAre("int8", "topk:0.01,exact", "none", "sign:vote,min=64", "qsgd:4+rans"));
}

TEST(CodecList, RefusesWhatIsNoCodec) {
  for (const char* const text : {"", "exact", "int8,", "int8,zip", "int8,,none", "topk:2"})
    EXPECT_FALSE(parse_codec_list(text).has_value()) << text;
}

TEST(CodecList, TheUsualOnesAreCodecs) {
  for (const std::string& text : usual_codecs())
    EXPECT_TRUE(plan::parse_codec(text).has_value()) << text;
}

}  // namespace
}  // namespace tally::bench::codecs
