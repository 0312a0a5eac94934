#pragma once
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "process/child.h"
#include "process/crew.h"
#include "tally/error.h"

namespace tally::process {

// The time for a training of a few steps: workers load libtorch first.
inline constexpr milliseconds kTrainingTime = 2 * kPatience;

// A folder with small data of each kind, and trainings that use it. Trainings leave no files in its
// TMPDIR.
class TrainingFolder {
 public:
  TrainingFolder();

  const std::string& path() const { return folder_.path(); }
  std::string file(const std::string& name) const { return folder_.file(name); }

  // Rows "x,y,side", where the label is the side of a line on which the point lies.
  std::string table(int rows) const;
  // A text with a pattern that a model of characters can learn.
  std::string text() const;
  // Images of 28x28 pixels in the form of MNIST: the label says which half is bright.
  std::string images(int count) const;

  // Starts `tally train ...` with a TMPDIR in this folder.
  Child train(const std::vector<std::string>& words) const;
  bool left_nothing_behind() const;

 private:
  const Folder folder_;
};

// Tests that look at the result of a training.
class WithTrainings : public testing::Test {
 protected:
  // The JSON result of `tally train` with these arguments; expects it to succeed.
  nlohmann::json result_of(std::vector<std::string> words);

  const TrainingFolder folder_;
  std::string output_;  // of the last training
};

// The worker of `tally` that has this rank; -1 if there is none.
pid_t worker_of(pid_t tally, Rank rank);

}  // namespace tally::process
