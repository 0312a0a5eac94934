#pragma once
#include <string>

namespace tally::process {

// A new temporary folder, removed with the object.
class Folder final {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// The bytes of a file; empty if it cannot be read.
std::string contents_of(const std::string& path);
void write_file(const std::string& path, const std::string& bytes);

// Writes a shell script into `folder` and returns its path.
std::string script(const Folder& folder, const std::string& name, const std::string& text);

}  // namespace tally::process
