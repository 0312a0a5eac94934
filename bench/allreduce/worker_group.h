#pragma once
#include <memory>
#include <string>
#include <vector>

#include "process/child_process.h"
#include "process/local_job.h"
#include "process/temp_dir.h"
#include "tally/deadline.h"
#include "tally/error.h"

namespace tally::bench {

// How to start the workers of one contender. `folder` is where they look for their pipes.
struct Launch {
  std::string contender;
  std::string transport;
  int ranks = 2;
  std::unique_ptr<process::TempDir> folder;
  std::unique_ptr<process::LocalJob> job;        // what our own ranks join; others: none
  std::vector<process::ChildOptions> processes;  // one per rank, or one launcher of all ranks
};

// What rank 0 measured.
struct Answer {
  std::vector<double> samples_us;
  double bytes_sent = -1;  // per call, by rank 0; negative: not known
};

// The running worker processes of one contender. Each rank sleeps in a read of its own pipe until a
// command comes, so that groups can stay up without disturbing each other's measurements; the
// protocol is told in mpi_worker.c. When this process dies the pipes close and the workers leave.
class WorkerGroup final {
 public:
  // Starts the workers and waits until every rank has said that it is ready.
  static Result<std::unique_ptr<WorkerGroup>> start(Launch launch, Deadline by);
  // Lets the workers leave; kills those that do not.
  ~WorkerGroup();
  WorkerGroup(const WorkerGroup&) = delete;
  WorkerGroup& operator=(const WorkerGroup&) = delete;

  // Gives all ranks a command and returns when all have answered. An error names the rank that
  // failed, ended or did not answer in time; the group is then of no more use.
  Result<Answer> command(const std::string& line, Deadline by);

  const Launch& launch() const { return launch_; }
  // What the workers call the library they measure.
  const std::string& version() const { return version_; }

 private:
  explicit WorkerGroup(Launch launch) : launch_(std::move(launch)) {}
  Result<void> open_pipes();
  Result<Answer> collect(Deadline by);
  // False at the end of what is there to read now.
  Result<bool> next_line(std::string& line);
  Result<void> processes_alive();
  std::string log_tail() const;
  void end_processes();

  Launch launch_;
  std::vector<int> command_fds_;
  int answer_fd_ = -1;
  std::string unread_;
  std::string version_;
  bool failed_ = false;
  std::vector<std::unique_ptr<process::ChildProcess>> processes_;
};

}  // namespace tally::bench
