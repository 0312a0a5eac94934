#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "process/child.h"
#include "process/crew.h"

namespace tally::process {

// A Slurm cluster on loopback: munged, slurmctld and two nodes (n1, n2) of four processors each,
// with their own keys, state and ports in a temporary folder. The destructor ends them and waits
// for all children of the test program: no other child may live longer. Threads: one.
class SlurmCluster final {
 public:
  // Returns before the nodes can be used: see ready().
  SlurmCluster();
  ~SlurmCluster();
  SlurmCluster(const SlurmCluster&) = delete;
  SlurmCluster& operator=(const SlurmCluster&) = delete;

  // A package that is not installed but needed; empty if there is none.
  static std::string missing_package();

  // Whether both nodes become idle.
  bool ready();
  // Variables by which clients find this cluster.
  std::map<std::string, std::string> variables() const;
  // A file with a secret that only this user can read.
  std::string secret_file() const;
  // The output of its daemons, for the message of a failed test.
  std::string transcript();

 private:
  void write_configuration() const;
  Child& start(std::vector<std::string> command);
  std::string in_folder(const std::string& name) const { return folder_.path() + "/" + name; }

  const Folder folder_;
  std::vector<std::unique_ptr<Child>> daemons_;  // in the order of starting
};

}  // namespace tally::process
