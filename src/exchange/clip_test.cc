#include "exchange/clip.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <vector>

namespace tally::exchange {
namespace {

class Clip : public testing::Test {
 protected:
  std::vector<RealSpan> gradient() {
    return {{.type = DataType::kFloat32, .bytes = std::as_writable_bytes(std::span(floats))},
            {.type = DataType::kFloat64, .bytes = std::as_writable_bytes(std::span(doubles))}};
  }
  double norm() const {
    double squares = 0;
    for (const float value : floats) squares += static_cast<double>(value) * value;
    for (const double value : doubles) squares += value * value;
    return std::sqrt(squares);
  }

  std::vector<float> floats = {3, -5, 0.5F};
  std::vector<double> doubles = {-12, 1};
};

TEST_F(Clip, WithoutLimitsNothingChanges) {
  clip(gradient(), {});
  EXPECT_THAT(floats, testing::ElementsAre(3, -5, 0.5F));
  EXPECT_THAT(doubles, testing::ElementsAre(-12, 1));
}

TEST_F(Clip, EachElementIsLimitedByValue) {
  clip(gradient(), {.value = 2});
  EXPECT_THAT(floats, testing::ElementsAre(2, -2, 0.5F));
  EXPECT_THAT(doubles, testing::ElementsAre(-2, 1));
}

TEST_F(Clip, TheNormIsThatOfAllRunsTogether) {
  clip(gradient(), {.norm = 1});
  EXPECT_NEAR(norm(), 1, 1e-6);
  EXPECT_NEAR(floats[0] / doubles[0], -0.25, 1e-6) << "the direction stays";
}

TEST_F(Clip, AValueIsClippedBeforeTheNorm) {
  clip(gradient(), {.value = 1, .norm = 1});
  EXPECT_NEAR(norm(), 1, 1e-6);
  EXPECT_NEAR(floats[0], doubles[1], 1e-7) << "both were clipped to 1";
}

TEST_F(Clip, ASmallerNormStaysAsItIs) {
  clip(gradient(), {.norm = 100});
  EXPECT_THAT(doubles, testing::ElementsAre(-12, 1));
}

TEST_F(Clip, ANormThatIsNotANumberMakesAllElementsSo) {
  floats[0] = std::numeric_limits<float>::quiet_NaN();
  clip(gradient(), {.norm = 1});
  EXPECT_TRUE(std::isnan(doubles[1]));
}

}  // namespace
}  // namespace tally::exchange
