#include "group/local_bootstrap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "group/host.h"

namespace tally::group {
namespace {

// A name that no other test uses.
std::string unused_name() { return bootstrap_name(*random_name()); }

TEST(LocalBootstrap, GivesItsNoteToAProcessOnce) {
  const std::string name = unused_name();
  auto board = LocalBootstrap::offer(name, "first");
  ASSERT_TRUE(board.has_value());
  EXPECT_EQ(*fetch_note(name, Deadline::never()), "first");
  const auto again = fetch_note(name, Deadline::after(Duration::zero()));
  ASSERT_FALSE(again.has_value());
  EXPECT_EQ(again.error().code, ErrorCode::kTimeout);
}

TEST(LocalBootstrap, VisitorsWaitForTheBoardAndForTheNextOne) {
  const std::string name = unused_name();
  for (const char* note : {"first", "second"}) {
    std::string fetched;
    std::thread visitor([&] { fetched = *fetch_note(name, Deadline::never()); });
    auto board = LocalBootstrap::offer(name, note);
    ASSERT_TRUE(board.has_value()) << to_string(board.error());
    visitor.join();
    EXPECT_EQ(fetched, note);
  }
}

TEST(LocalBootstrap, NameIsFreeWhenItIsGoneAndTakenWhileItIsThere) {
  const std::string name = unused_name();
  {
    const auto board = LocalBootstrap::offer(name, "x");
    ASSERT_TRUE(board.has_value());
    const auto second = LocalBootstrap::offer(name, "y");
    ASSERT_FALSE(second.has_value());
    EXPECT_EQ(second.error().code, ErrorCode::kRefused);
  }
  EXPECT_TRUE(LocalBootstrap::offer(name, "z").has_value());
}

TEST(LocalBootstrap, WithoutOneTheNameIsInTheError) {
  const std::string name = unused_name();
  const auto note = fetch_note(name, Deadline::after(Duration::zero()));
  ASSERT_FALSE(note.has_value());
  EXPECT_EQ(note.error().code, ErrorCode::kTimeout);
  EXPECT_EQ(note.error().peer, 0);
  EXPECT_THAT(note.error().message, testing::HasSubstr(name));
}

TEST(LocalBootstrap, NamesDifferWhereJobsDoAndFitASocket) {
  EXPECT_EQ(bootstrap_name("slurm 7.0"), bootstrap_name("slurm 7.0"));
  EXPECT_NE(bootstrap_name("slurm 7.0"), bootstrap_name("slurm 7.1"));
  const std::string text(300, 'x');
  EXPECT_NE(bootstrap_name(text + "a"), bootstrap_name(text + "b"));
  EXPECT_LT(bootstrap_name(text).size(), 108U);
  EXPECT_THAT(bootstrap_name("slurm 7.0"), testing::HasSubstr(std::to_string(geteuid())));
}

}  // namespace
}  // namespace tally::group
