#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "kernel/array/array_test_support.h"
#include "kernel/quantize/quantize.h"

namespace tally::kernel {
namespace {

using Add = void (*QuantizeKernels::*)(const std::byte*, std::size_t, float, float*);

struct Case {
  Add add;
  std::size_t bytes;
};
constexpr Case kCases[] = {{&QuantizeKernels::add_float32, 4},
                           {&QuantizeKernels::add_float16, 2},
                           {&QuantizeKernels::add_bfloat16, 2}};

// Every bit pattern is a valid value, and the bytes may lie at any address.
TEST(QuantizeCasts, EveryLengthAndAddressAddsAsTheReference) {
  Rng rng(6);
  for (const Case& c : kCases) {
    for (std::size_t count = 0; count <= 1000; ++count) {
      const std::size_t shift = count % 64;
      std::vector<std::byte> storage(count * c.bytes + 128);
      for (std::byte& byte : storage) byte = static_cast<std::byte>(rng.next());
      const auto address = reinterpret_cast<std::uintptr_t>(storage.data());
      const std::byte* values = storage.data() + (64 - address % 64) + shift;
      const auto before = random_array<float>(count, count % 16, rng);
      auto expected = before;
      (quantize_reference().*c.add)(values, count, -1.3F, expected.data());
      for (const Level level : available_levels()) {
        auto actual = before;
        (quantize_kernels(level).*c.add)(values, count, -1.3F, actual.data());
        ASSERT_TRUE(actual.same_as(expected)) << to_string(level) << " " << count;
      }
    }
  }
}

}  // namespace
}  // namespace tally::kernel
