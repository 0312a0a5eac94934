#pragma once
#include <optional>

#include "base/recorder.h"
#include "collective/board.h"
#include "collective/context.h"
#include "collective/mailbox.h"
#include "collective/task.h"

namespace tally::collective {

// An operation that is being driven.
struct Drive {
  Task& task;
  Deadline by;
  std::uint32_t sequence = 0;
  wire::Signature signature;
  bool point = false;  // send/receive: not one that all ranks are in
  bool begun = false;  // the mailbox knows of it

  bool stalled = false;
  TimePoint next_query{};
  std::optional<TimePoint> give_up;  // after the deadline, while answers are awaited
};

// Brings tasks to their end: looks again for a while, then sleeps; finds out who is missing, and
// why.
class Driver {
 public:
  Driver(const Context& context, Mailbox& mailbox, const Board* board, Recorder& recorder)
      : context_(context), mailbox_(mailbox), board_(board), recorder_(recorder) {}

  // Drives one task to its end.
  Result<void> run(Drive& drive);

  // Tells the mailbox that this is the operation under way, and that it is over.
  void begin(Drive& drive) TALLY_REQUIRES(mailbox_.room().mutex);
  void finish(Drive& drive) TALLY_REQUIRES(mailbox_.room().mutex);

  // One look at a task that cannot go on: fails the communicator if there is a reason to.
  void diagnose(Drive& drive) TALLY_REQUIRES(mailbox_.room().mutex);
  // Until when a sleeper may sleep before it should diagnose() again.
  Deadline next_look(const Drive& drive) const;
  // Fails the communicator and lets the peers know.
  void fail(const Error& error) TALLY_REQUIRES(mailbox_.room().mutex);

 private:
  void query(Drive& drive, TimePoint now, const std::vector<Rank>& awaited)
      TALLY_REQUIRES(mailbox_.room().mutex);
  Result<void> compare_status(const Drive& drive) TALLY_REQUIRES(mailbox_.room().mutex);
  // Who has not come to the operation, as far as is known.
  std::vector<Rank> not_arrived(const Drive& drive, const std::vector<Rank>& awaited)
      TALLY_REQUIRES(mailbox_.room().mutex);
  bool all_answered() TALLY_REQUIRES(mailbox_.room().mutex);
  std::vector<Rank> to_blame(const Drive& drive, const std::vector<Rank>& awaited)
      TALLY_REQUIRES(mailbox_.room().mutex);
  Error timeout(const Drive& drive, const std::vector<Rank>& awaited)
      TALLY_REQUIRES(mailbox_.room().mutex);

  const Context& context_;
  Mailbox& mailbox_;
  const Board* const board_;
  Recorder& recorder_;
};

}  // namespace tally::collective
