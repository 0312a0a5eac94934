#pragma once
#include <functional>
#include <istream>
#include <memory>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "process/child_process.h"
#include "process/local_job.h"
#include "process/temp_dir.h"
#include "tally/deadline.h"
#include "tally/error.h"

namespace tally::bench {

// How to start the workers of one contender. `folder` contains their pipes.
struct Launch {
  std::string contender;
  std::string transport;
  int ranks = 2;
  std::unique_ptr<process::TempDir> folder;
  std::unique_ptr<process::LocalJob> job;        // for ranks of tally
  std::vector<process::ChildOptions> processes;  // one per rank, or one launcher of all ranks

  // A launch without processes, with a fresh folder.
  static Result<Launch> make(std::string contender, std::string transport, int ranks);

  // Adds a process that writes to the log in the folder.
  void add(std::vector<std::string> command, process::Variables variables = {});
  // Adds all ranks of a job of tally.
  Result<void> add_tally_ranks(const std::vector<std::string>& command,
                               const process::Variables& variables = {});
  // Adds all ranks of a script with torch, called with the folder and `arguments`. kInvalid if the
  // interpreter has no torch.
  Result<void> add_python_ranks(const std::string& python, const std::string& source,
                                const std::vector<std::string>& arguments, int threads);
  // Writes a file into the folder and returns its path.
  Result<std::string> write(const std::string& name, const std::string& text) const;
};

// Measurement of rank 0.
struct Answer {
  std::vector<double> samples_us;
  double bytes_sent = -1;  // per call, by rank 0; negative: unknown
  long calls = 0;          // set by callers that know it
};

// The running worker processes of one contender. Each rank sleeps in a read of its own pipe until a
// command comes, so that groups do not disturb each other's measurements; see mpi_worker.c for the
// protocol. When this process dies the pipes close and the workers leave.
class WorkerGroup final {
 public:
  // Starts the workers and waits until every rank is ready.
  static Result<std::unique_ptr<WorkerGroup>> start(Launch launch, Deadline by);
  // Asks the workers to leave; kills those that do not.
  ~WorkerGroup();
  WorkerGroup(const WorkerGroup&) = delete;
  WorkerGroup& operator=(const WorkerGroup&) = delete;

  // Sends a command to all ranks and returns when all have answered. An error names the rank that
  // failed, ended or did not answer in time; the group is then unusable.
  Result<Answer> command(const std::string& line, Deadline by);

  const Launch& launch() const { return launch_; }
  // Returns the version of the library that is measured.
  const std::string& version() const { return version_; }

 private:
  explicit WorkerGroup(Launch launch) : launch_(std::move(launch)) {}
  Result<void> open_pipes();
  Result<Answer> collect(Deadline by);
  // False if no more is available now.
  bool next_line(std::string& line);
  Result<void> processes_alive();
  std::string log_tail() const;

  Launch launch_;
  std::vector<Descriptor> commands_;
  Descriptor answers_;
  std::string unread_;
  std::string version_;
  bool failed_ = false;
  std::vector<std::unique_ptr<process::ChildProcess>> processes_;
};

// One rank of a WorkerGroup in C++: reports that it is ready and answers the commands of its pipe
// in `folder` until that closes. `execute` gets the words of a command and returns the text after
// "done RANK "; its first error is reported and ends the rank.
Result<void> serve_commands(const std::string& folder, Rank rank, const std::string& version,
                            const std::function<Result<std::string>(std::istream& words)>& execute);

}  // namespace tally::bench
