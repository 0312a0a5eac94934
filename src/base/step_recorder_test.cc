#include "base/step_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tally {
namespace {

using testing::ElementsAre;

TEST(StepRecorder, AFigureReplacesTheOneOfItsName) {
  StepRecorder recorder;
  recorder.set_figure("loss", 0.5);
  recorder.set_figure("epoch", 1);
  recorder.set_figure("loss", 0.25);
  EXPECT_THAT(recorder.figures(), ElementsAre(Figure{"loss", 0.25}, Figure{"epoch", 1}));
}

TEST(StepRecorder, FiguresAndPhasesAreBounded) {
  StepRecorder recorder;
  for (int i = 0; i < 1000; ++i) {
    recorder.set_figure(std::to_string(i), i);
    recorder.add_phase("forward", TimePoint(i), TimePoint(i + 1));
  }
  EXPECT_EQ(recorder.figures().size(), StepRecorder::kMaxFigures);
  ASSERT_EQ(recorder.phases().size(), StepRecorder::kMaxPhases);
  EXPECT_EQ(recorder.phases().back(), (Phase{"forward", TimePoint(999), TimePoint(1000)}));
}

}  // namespace
}  // namespace tally
