#include "base/signal_dump.h"

#include <cstdlib>

#include <gtest/gtest.h>

namespace tally {
namespace {

// A program that fails calls exit() wherever it is, and a global Job lives until then.
TEST(SignalDump, ALivingObjectDoesNotKeepAProgramFromExiting) {
  const auto leave = [] {
    static SignalDump* const living = new SignalDump([] { return std::string("text"); });
    std::exit(living != nullptr ? 3 : 4);
  };
  EXPECT_EXIT(leave(), testing::ExitedWithCode(3), "");
}

}  // namespace
}  // namespace tally
