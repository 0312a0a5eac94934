#include "adapters/torch/gradient_slots.h"

#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace tally::adapter {
namespace {

constexpr std::int64_t kElements = 10'000;

class GradientSlotsTest : public testing::Test {
 protected:
  GradientSlotsTest() {
    GradientSlots::install_allocator();
    slots->add(slot());
  }
  std::span<std::byte> slot() const { return std::as_writable_bytes(std::span(*memory)); }
  bool is_in_slot(const at::Tensor& tensor) const { return tensor.data_ptr() == slot().data(); }

  std::shared_ptr<std::vector<float>> memory = std::make_shared<std::vector<float>>(kElements);
  std::shared_ptr<GradientSlots> slots = std::make_shared<GradientSlots>(memory);
};

TEST_F(GradientSlotsTest, ASlotBelongsToOneTensorOfItsSizeAtATime) {
  const SlotScope scope(slots);
  EXPECT_FALSE(is_in_slot(at::empty({kElements + 1})));
  at::Tensor first = at::empty({kElements});
  EXPECT_TRUE(is_in_slot(first));
  EXPECT_TRUE(slots->contains(first));
  EXPECT_TRUE(slots->contains(first.slice(0, 10, 20)));
  const at::Tensor second = at::empty({kElements});
  EXPECT_FALSE(slots->contains(second));
  const at::Tensor view = first.view({100, 100});
  first = at::Tensor();
  EXPECT_FALSE(is_in_slot(at::empty({kElements}))) << "a view still uses it";
}

TEST_F(GradientSlotsTest, ASlotIsLentAgainOnceItsLastTensorIsGone) {
  const SlotScope scope(slots);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(is_in_slot(at::empty({kElements}))) << i;
}

TEST_F(GradientSlotsTest, OnlyTheThreadOfTheScopeGetsSlots) {
  EXPECT_FALSE(is_in_slot(at::empty({kElements}))) << "before the scope";
  {
    const SlotScope scope(slots);
    std::jthread([&] { EXPECT_FALSE(is_in_slot(at::empty({kElements}))); }).join();
    EXPECT_TRUE(is_in_slot(at::empty({kElements})));
  }
  EXPECT_FALSE(is_in_slot(at::empty({kElements}))) << "after the scope";
  const SlotScope none(nullptr);
  EXPECT_FALSE(is_in_slot(at::empty({kElements})));
}

TEST_F(GradientSlotsTest, ATensorKeepsTheMemoryAliveAfterTheSlotsAndItsOwner) {
  at::Tensor tensor;
  {
    const SlotScope scope(slots);
    tensor = at::full({kElements}, 7.0F);
  }
  const std::weak_ptr<std::vector<float>> watched = memory;
  slots.reset();
  memory.reset();
  EXPECT_FALSE(watched.expired());
  EXPECT_EQ(tensor.sum().item<float>(), 7.0F * kElements);
  tensor = at::Tensor();
  EXPECT_TRUE(watched.expired());
}

}  // namespace
}  // namespace tally::adapter
