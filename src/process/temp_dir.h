#pragma once
#include <memory>
#include <string>

#include "tally/error.h"

namespace tally::process {

// A private directory (mode 0700) below TMPDIR or /tmp, which the destructor removes with its
// contents.
class TempDir final {
 public:
  static Result<std::unique_ptr<TempDir>> make();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }

 private:
  explicit TempDir(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace tally::process
