#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "process/child.h"
#include "process/crew.h"

namespace tally::process {

// A Slurm of the test's own on loopback: munged, slurmctld and two nodes (n1, n2) of four
// processors each, with keys, state and ports of their own, in a folder of their own. All end with
// it, which waits for every child of the test program: no other may live longer. Threads: one.
class SlurmCluster final {
 public:
  // Ready or not: ready() tells.
  SlurmCluster();
  ~SlurmCluster();
  SlurmCluster(const SlurmCluster&) = delete;
  SlurmCluster& operator=(const SlurmCluster&) = delete;

  // The package that is missing for it; empty if none is.
  static std::string missing_package();

  // Whether both nodes wait for work.
  bool ready();
  // What clients of this cluster need in their environment.
  std::map<std::string, std::string> variables() const;
  // A file with a secret that only this user can read.
  std::string secret_file() const;
  // All that its daemons said, for the message of a failed test.
  std::string transcript();

 private:
  void write_configuration() const;
  Child& start(std::vector<std::string> command);
  std::string in_folder(const std::string& name) const { return folder_.path() + "/" + name; }

  const Folder folder_;
  std::vector<std::unique_ptr<Child>> daemons_;  // in the order of starting
};

}  // namespace tally::process
