#include "base/stack_capture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/symbol_name.h"

namespace tally {
namespace {

using testing::HasSubstr;

struct Busy {
  std::atomic<int> thread{0};
  std::atomic<bool> enough{false};
};

[[gnu::noinline]] void compute_without_end(Busy& busy) {
  busy.thread = this_thread_id();
  while (!busy.enough.load(std::memory_order_relaxed)) asm volatile("" ::: "memory");
}

TEST(StackCapture, ShowsWhatAnotherThreadDoes) {
  const StackCapture capture;
  Busy busy;
  std::thread thread([&busy] { compute_without_end(busy); });
  while (busy.thread == 0) std::this_thread::yield();
  const std::string stack = capture.of_thread(busy.thread, std::chrono::seconds(10));
  const std::string again = capture.of_thread(busy.thread, std::chrono::seconds(10));
  busy.enough = true;
  thread.join();
  EXPECT_THAT(stack, HasSubstr("compute_without_end"));
  EXPECT_THAT(again, HasSubstr("compute_without_end"));
}

TEST(StackCapture, SaysSoWhenThereIsNoSuchThread) {
  const StackCapture capture;
  EXPECT_THAT(capture.of_thread(1 << 30, std::chrono::seconds(1)), HasSubstr("it has ended"));
}

TEST(SymbolName, ReadsNamesWithoutArguments) {
  struct Case {
    const char* symbol;
    const char* name;
  };
  for (const Case& each : {Case{"main", "main"}, Case{"_ZN5tally1fEi", "tally::f"},
                           Case{"_ZN5tally12_GLOBAL__N_11gEv", "tally::(anonymous namespace)::g"},
                           Case{"_ZN1AclEv", "A::operator()"}}) {
    EXPECT_EQ(readable_name(each.symbol), each.name);
  }
}

}  // namespace
}  // namespace tally
