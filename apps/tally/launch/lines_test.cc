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
    // A carriage return that arrives alone may begin a line that overwrites itself.
    const bool apart = text.find("\r") % step == step - 1;
    EXPECT_EQ(pieces.all.size(), apart ? 4U : 3U) << step;
    EXPECT_EQ(pieces.together(), "one\n\ntwo\r\n") << step;
    EXPECT_TRUE(splitter.holds());
    splitter.release(pieces.take);
    EXPECT_FALSE(splitter.holds());
    EXPECT_EQ(pieces.all.back(), "last");
  }
}

TEST(LineSplitter, ALineThatOverwritesItselfComesAsItIsWritten) {
  LineSplitter splitter;
  Pieces pieces;
  splitter.add("10 %\r20", pieces.take);
  EXPECT_THAT(pieces.all, ElementsAre("10 %\r", "20"));
  splitter.add(" %\rdone\nnext", pieces.take);
  EXPECT_THAT(pieces.all, ElementsAre("10 %\r", "20", " %\r", "done\n"));
  // As tqdm writes.
  splitter.add("\n\r10 %", pieces.take);
  splitter.add("\r20 %", pieces.take);
  EXPECT_EQ(pieces.together(), "10 %\r20 %\rdone\nnext\n\r10 %\r20 %");
}

TEST(LineSplitter, FinishOfWholeLinesGivesNothing) {
  LineSplitter splitter;
  Pieces pieces;
  splitter.add("a\n", pieces.take);
  splitter.release(pieces.take);
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

TEST(Screen, ALineThatOverwritesItselfKeepsItsPrefix) {
  Screen screen;
  std::string all;
  for (const char* piece : {"10 %\r", "20 %\r", "30", " %\r", "\n", "\r", "10 %", "\r", "done\n"})
    all += screen.show(0, "[0] ", piece);
  EXPECT_EQ(all, "[0] 10 %\r[0] 20 %\r[0] 30 %\r\n[0] \r[0] 10 %\r[0] done\n");
}

TEST(Screen, AnotherStreamEndsALineOfProgressOrErasesIt) {
  for (const bool erases : {false, true}) {
    Screen screen(erases);
    std::string all;
    all += screen.show(0, "[0] ", "10 %\r");
    all += screen.show(1, "[1] ", "20 %\r");
    all += screen.show(1, "[1] ", "30 %");
    all += screen.show(2, "", "news\n");
    all += screen.show(0, "[0] ", "no newline");
    all += screen.show(1, "[1] ", "end\n");
    EXPECT_EQ(all, erases ? "[0] 10 %\r\r\x1b[K[1] 20 %\r[1] 30 %\r\x1b[Knews\n[0] no newline\n"
                            "[1] end\n"
                          : "[0] 10 %\r\n[1] 20 %\r[1] 30 %\nnews\n[0] no newline\n[1] end\n");
  }
}

TEST(Tail, DoesNotKeepLinesOfProgress) {
  Tail tail(3, 1000);
  tail.add("windows\r");
  tail.add("\n");
  for (const char* piece : {"10 %\r", "20 %\r", "done\n"}) tail.add(piece);
  tail.add("10 %\r");
  EXPECT_THAT(tail.last(5), ElementsAre("windows", "done"));
}

TEST(Tail, KeepsTheReasonOfAnExceptionAndNotItsStack) {
  Tail tail(3, 1000);
  tail.add("  what():  element 0 of tensors does not require grad\n");
  for (int i = 0; i < 20; ++i) tail.add("frame #" + std::to_string(i) + ": c10::Error::Error\n");
  EXPECT_THAT(tail.last(5), ElementsAre("  what():  element 0 of tensors does not require grad"));
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
