#pragma once
#include <optional>

#include "base/recorder.h"
#include "collective/context.h"
#include "collective/mailbox.h"
#include "collective/shared_area.h"
#include "collective/task.h"

namespace tally::collective {

// An operation under way.
struct RunningOperation {
  Task& task;
  Deadline by;
  std::uint32_t sequence = 0;
  wire::Signature signature;
  bool point = false;  // a send or receive, which not all ranks take part in
  bool begun = false;  // the mailbox knows of it

  bool stalled = false;
  TimePoint next_query{};
  std::optional<TimePoint> give_up;     // after the deadline, while answers are awaited
  std::optional<TimePoint> left_since;  // a rank has left after all had entered
};

// Runs tasks to their end: polls for a while, then sleeps, and diagnoses which ranks are missing
// and why.
class ProgressEngine {
 public:
  ProgressEngine(const Context& context, Mailbox& mailbox, const SharedArea* area,
                 Recorder& recorder)
      : context_(context), mailbox_(mailbox), area_(area), recorder_(recorder) {}

  // Runs one task to its end.
  Result<void> run(RunningOperation& running);

  // Tells the mailbox that the operation begins, and that it is over.
  void begin(RunningOperation& running) TALLY_REQUIRES(mailbox_.router().mutex);
  void finish(RunningOperation& running) TALLY_REQUIRES(mailbox_.router().mutex);

  // Checks a blocked task once, and fails the communicator if there is a reason.
  void diagnose(RunningOperation& running) TALLY_REQUIRES(mailbox_.router().mutex);
  // The time of the next diagnose() of a sleeping task.
  Deadline next_look(const RunningOperation& running) const;
  // Fails the communicator and tells the peers.
  void fail(const Error& error) TALLY_REQUIRES(mailbox_.router().mutex);

 private:
  // A rank that left the job some time ago, although all ranks had entered the operation.
  std::optional<Rank> left_after_entry(RunningOperation& running, TimePoint now)
      TALLY_REQUIRES(mailbox_.router().mutex);
  void query(RunningOperation& running, TimePoint now, const std::vector<Rank>& awaited)
      TALLY_REQUIRES(mailbox_.router().mutex);
  Result<void> compare_status(const RunningOperation& running)
      TALLY_REQUIRES(mailbox_.router().mutex);
  // The ranks that are not known to have entered the operation.
  std::vector<Rank> not_arrived(const RunningOperation& running, const std::vector<Rank>& awaited)
      TALLY_REQUIRES(mailbox_.router().mutex);
  bool all_answered() TALLY_REQUIRES(mailbox_.router().mutex);
  std::vector<Rank> to_blame(const RunningOperation& running, const std::vector<Rank>& awaited)
      TALLY_REQUIRES(mailbox_.router().mutex);
  // The ranks that have not answered the last query.
  std::vector<Rank> silent_ranks() const TALLY_REQUIRES(mailbox_.router().mutex);
  Error timeout(const RunningOperation& running, const std::vector<Rank>& awaited)
      TALLY_REQUIRES(mailbox_.router().mutex);

  const Context& context_;
  Mailbox& mailbox_;
  const SharedArea* const area_;
  Recorder& recorder_;
};

}  // namespace tally::collective
