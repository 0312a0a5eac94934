#pragma once
#include <string>
#include <vector>

#include "process/child.h"
#include "process/crew.h"
#include "tally/error.h"

namespace tally::process {

// For a training of a few steps on a machine that has much else to do.
inline constexpr milliseconds kTrainingTime = seconds(90);

// A folder with small data of each kind, and the trainings that use it. Nothing but what is asked
// for may stay in TMPDIR.
class TrainingFolder {
 public:
  TrainingFolder();

  const std::string& path() const { return folder_.path(); }
  std::string file(const std::string& name) const { return folder_.path() + "/" + name; }

  // Rows "x,y,side" whose label is which side of a line they lie on.
  std::string table(int rows) const;
  // A text with a pattern that a model of characters can learn.
  std::string text() const;
  // Images of 28x28 pixels in the form of MNIST: bright above or below, by label.
  std::string images(int count) const;

  // `tally train ...`, with this folder's temp folder.
  Child train(const std::vector<std::string>& words) const;
  bool left_nothing_behind() const;

 private:
  const Folder folder_;
};

std::string bytes_of(const std::string& path);
void write_bytes(const std::string& path, const std::string& bytes);

// The descendant of `tally` that has this rank; -1 if there is none.
pid_t worker_of(pid_t tally, Rank rank);

}  // namespace tally::process
