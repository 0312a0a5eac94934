#include "process/folder.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/check.h"

namespace tally::process {

namespace fs = std::filesystem;

Folder::Folder() : path_(fs::temp_directory_path().string() + "/tally_process_XXXXXX") {
  TALLY_CHECK(mkdtemp(path_.data()) != nullptr);
}

Folder::~Folder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string contents_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string script(const Folder& folder, const std::string& name, const std::string& text) {
  const std::string path = folder.file(name);
  write_file(path, "#!/bin/sh\n" + text + "\n");
  fs::permissions(path, fs::perms::owner_all);
  return path;
}

}  // namespace tally::process
