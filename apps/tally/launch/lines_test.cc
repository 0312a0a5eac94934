#include "apps/tally/launch/lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tally::launch {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Pieces {
  std::vector<std::string> all;
  LineSplitter::Take take = [this](std::string_view piece) { all.emplace_back(piece); };
  std::string together() const {
    std::string text;
    for (const std::string& piece : all) text += piece;
    return text;
  }
};

TEST(LineSplitter, GivesWholeLinesHoweverTheyArrive) {
  const std::string text = "one\n\ntwo\r\nlast";
  for (std::size_t step = 1; step <= text.size(); ++step) {
    LineSplitter splitter;
    Pieces pieces;
    for (std::size_t i = 0; i < text.size(); i += step)
      splitter.add(text.substr(i, step), pieces.take);
    EXPECT_THAT(pieces.all, ElementsAre("one\n", "\n", "two\r\n")) << step;
    splitter.finish(pieces.take);
    EXPECT_EQ(pieces.all.back(), "last");
  }
}

TEST(LineSplitter, LiveLinesComeWithTheirCarriageReturn) {
  LineSplitter splitter(/*live=*/true);
  Pieces pieces;
  splitter.add("10 %\r20", pieces.take);
  EXPECT_THAT(pieces.all, ElementsAre("10 %\r"));
  splitter.add(" %\rdone\n", pieces.take);
  EXPECT_THAT(pieces.all, ElementsAre("10 %\r", "20 %\r", "done\n"));
}

TEST(LineSplitter, FinishOfWholeLinesGivesNothing) {
  LineSplitter splitter;
  Pieces pieces;
  splitter.add("a\n", pieces.take);
  splitter.finish(pieces.take);
  EXPECT_THAT(pieces.all, ElementsAre("a\n"));
}

TEST(LineSplitter, ALongLineComesInPiecesWithNothingLost) {
  LineSplitter splitter;
  Pieces pieces;
  std::string line(16 * kMaxHeldBytes, 'x');
  for (std::size_t i = 0; i < line.size(); ++i) line[i] = static_cast<char>('a' + i % 23);
  line += '\n';
  for (std::size_t i = 0; i < line.size(); i += 4096)
    splitter.add(std::string_view(line).substr(i, 4096), pieces.take);
  EXPECT_GT(pieces.all.size(), 8U);
  for (const std::string& piece : pieces.all) EXPECT_LE(piece.size(), kMaxHeldBytes + 4096);
  EXPECT_EQ(pieces.together(), line);
}

TEST(Screen, LinesOfDifferentStreamsNeverMix) {
  Screen screen;
  std::string all;
  all += screen.show(0, "[0] ", "a\n");
  all += screen.show(0, "[0] ", "long ");
  all += screen.show(0, "[0] ", "line ");
  all += screen.show(1, "[1] ", "b\n");
  all += screen.show(0, "[0] ", "goes on\n");
  all += screen.show(1, "[1] ", "not ended");
  all += screen.show(0, "[0] ", "");
  all += screen.show(1, "[1] ", "");
  all += screen.show(1, "[1] ", "");
  EXPECT_EQ(all, "[0] a\n[0] long line \n[1] b\n[0] goes on\n[1] not ended\n");
}

TEST(Screen, ALongLineAloneStaysOneLine) {
  Screen screen;
  std::string all;
  for (int i = 0; i < 10; ++i) all += screen.show(0, "[0] ", std::string(1000, 'x'));
  all += screen.show(0, "[0] ", "\n");
  EXPECT_EQ(all, "[0] " + std::string(10000, 'x') + "\n");
}

TEST(Tail, KeepsTheLastLines) {
  Tail tail(3, 1000);
  EXPECT_THAT(tail.last(5), IsEmpty());
  tail.add("one\ntwo\nthree\n");
  tail.add("fo");
  tail.add("ur");
  EXPECT_THAT(tail.last(5), ElementsAre("two", "three", "four"));
  EXPECT_THAT(tail.last(1), ElementsAre("four"));
  tail.add("\nfive\n");
  EXPECT_THAT(tail.last(5), ElementsAre("three", "four", "five"));
}

TEST(Tail, IsBoundedInBytesAndShowsNothingStrange) {
  Tail tail(50, 5000);
  for (int i = 0; i < 100; ++i) tail.add(std::string(100000, 'x') + "\n");
  tail.add(std::string("\x1b[2J\0b\tc\r\n", 10));
  const auto lines = tail.last(50);
  ASSERT_LE(lines.size(), 4U);
  EXPECT_EQ(lines.front().size(), 2000U);
  EXPECT_EQ(lines.back(), "?[2J?b\tc");
}

}  // namespace
}  // namespace tally::launch
