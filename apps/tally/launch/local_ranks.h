#pragma once
#include <poll.h>

#include <functional>
#include <optional>
#include <vector>

#include "apps/tally/launch/messages.h"
#include "base/descriptor.h"
#include "tally/error.h"

namespace tally::launch {

// A started rank: it leads a process group of its own, has an empty stdin, and is killed when this
// process dies. Its pipes do not block.
struct RankProcess {
  pid_t pid = -1;
  Descriptor output;
  Descriptor errors;
};

// The ranks that an agent has started, their pipes and their ends. Threads: one.
class LocalRanks final {
 public:
  using Send = std::function<void(const Message&)>;

  // `send` passes messages to the launcher. `has_room` returns whether more output may be passed
  // on.
  LocalRanks(Send send, std::function<bool()> has_room)
      : send_(std::move(send)), has_room_(std::move(has_room)) {}

  // Starts all ranks and reports each as started or ended. kSystem if none was started.
  Result<void> start(const Launch& launch);

  // Adds the open pipes while there is room.
  void add_to(std::vector<pollfd>& entries) const;
  // Reads available output, reaps ended ranks, and reports both.
  void advance();
  // Signals the process groups of the running ranks.
  void signal(int number);

 private:
  struct Member {
    Rank rank = 0;
    RankProcess process;
    std::optional<int> status;  // as waitpid() gives it
    int reads_after_end = 0;
    bool reported = false;
  };

  Variables variables_of(const Launch& launch, int local_rank) const;
  void reap();
  void advance(Member& member);
  // Passes on one read of a pipe; true if no more output is available now.
  bool pass_on(Member& member, Stream stream);

  Send send_;
  std::function<bool()> has_room_;
  std::vector<Member> members_;
  std::size_t first_ = 0;  // the rank that is served first
  std::vector<char> buffer_ = std::vector<char>(kMaxOutputBytes);
  Descriptor secret_;
};

}  // namespace tally::launch
