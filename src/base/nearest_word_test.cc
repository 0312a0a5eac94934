#include "base/nearest_word.h"

#include <gtest/gtest.h>

#include <string>

namespace tally {
namespace {

constexpr std::string_view kWords[] = {"sgd", "adam", "adamw", "cosine", "constant"};

TEST(NearestWord, NeedsTheFewestChanges) {
  struct Case {
    std::string_view word, nearest;
  };
  constexpr Case kCases[] = {{"adam", "adam"},         {"adma", "adam"}, {"adamm", "adam"},
                             {"adamww", "adamw"},      {"sg", "sgd"},    {"cosin", "cosine"},
                             {"cnostnat", "constant"}, {"", "sgd"},      {"gsd", "sgd"}};
  for (const Case& c : kCases) EXPECT_EQ(nearest_word(c.word, kWords), c.nearest) << c.word;
}

TEST(NearestWord, OfSeveralTheFirst) { EXPECT_EQ(nearest_word("xyzxyzxyzxyz", kWords), "sgd"); }

TEST(NearestWord, ALongWordIsNoTrouble) {
  EXPECT_FALSE(nearest_word(std::string(1'000'000, 'a'), kWords).empty());
}

TEST(DidYouMean, OffersAWordOnlyIfItIsNear) {
  constexpr std::string_view kNames[] = {"predict", "workers", "fashion-mnist", "mnist", "bsp"};
  struct Case {
    std::string_view word, offer;
  };
  constexpr Case kCases[] = {{"predikt", "; did you mean predict?"},
                             {"worker", "; did you mean workers?"},
                             {"mnits", "; did you mean mnist?"},
                             {"bps", "; did you mean bsp?"},
                             {"fashion", "; did you mean fashion-mnist?"},
                             {"fa", ""},
                             {"elephant", ""},
                             {"", ""}};
  for (const Case& c : kCases) EXPECT_EQ(did_you_mean(c.word, kNames), c.offer) << c.word;
  EXPECT_EQ(did_you_mean("word", {}), "");
  EXPECT_EQ(did_you_mean(std::string(1'000'000, 'a'), kNames), "");
}

TEST(NearestWord, TheMessageHasTheWordTheNearestAndAll) {
  EXPECT_EQ(unknown_word("adma", "optimizer", kWords),
            "'adma' is no optimizer; nearest: adam (known: sgd, adam, adamw, cosine, constant)");
}

}  // namespace
}  // namespace tally
