#include "collective/operation_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <semaphore>

namespace tally::collective {
namespace {

// Operations that end when the test lets them.
class HeldRunner final : public OperationQueue::Runner {
 public:
  std::atomic<bool> is_released{false};
  std::atomic<bool> saw_new{false};     // in rest()
  std::binary_semaphore has_rested{0};  // after the first rest() that the test asked for
  std::atomic<bool> is_asked{false};

  Deadline deadline_of(const Request& /*request*/) const override { return Deadline::never(); }
  Result<std::unique_ptr<OperationQueue::Operation>> prepare(const Request& /*request*/,
                                                             Deadline /*by*/) override {
    return std::unique_ptr<OperationQueue::Operation>(std::make_unique<Held>(is_released));
  }
  void rest(OperationQueue& queue, const std::list<OperationQueue::Item>& /*running*/,
            int /*looks*/) override {
    if (!is_asked.exchange(false)) return;
    saw_new = queue.has_new();
    has_rested.release();
  }

 private:
  class Held final : public OperationQueue::Operation {
   public:
    explicit Held(const std::atomic<bool>& is_released) : is_released_(is_released) {}
    Result<Progress> advance() override {
      return is_released_ ? Progress::kComplete : Progress::kBlocked;
    }
    void conclude(const Result<void>& /*outcome*/) override {}

   private:
    const std::atomic<bool>& is_released_;
  };
};

// Otherwise the queue's thread would spin until the running collective ends.
TEST(OperationQueue, ACollectiveBehindARunningOneIsNoReasonNotToSleep) {
  HeldRunner runner;
  OperationQueue queue(runner);
  Handle first = queue.push({.operation = Operation::kBarrier});
  Handle second = queue.push({.operation = Operation::kBarrier});
  runner.is_asked = true;
  runner.has_rested.acquire();
  EXPECT_FALSE(runner.saw_new);
  runner.is_released = true;
  EXPECT_TRUE(first.wait().has_value());
  EXPECT_TRUE(second.wait().has_value());
}

}  // namespace
}  // namespace tally::collective
