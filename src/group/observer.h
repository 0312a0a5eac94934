#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "group/watch_message.h"
#include "net/socket.h"
#include "tally/job.h"

namespace tally::group {

// Asks a coordinator about its job. Threads: one.
class Observer final {
 public:
  // By the name of one of this user's jobs on this machine.
  static Result<Observer> local(const std::string& name);
  // From anywhere, by address and secret.
  static Result<Observer> remote(const net::Address& at, const std::optional<Secret>& secret,
                                 Deadline by);

  Result<JobStatus> status(Deadline by);
  // The traces of the ranks that answered in time.
  Result<std::vector<Trace>> traces(Deadline by);

 private:
  explicit Observer(std::unique_ptr<net::Stream> stream);
  using Take = std::function<Result<void>(const ControlMessage&)>;
  Result<void> ask(ControlKind question, const Take& take, Deadline by);

  std::unique_ptr<net::MessageConnection> connection_;
};

}  // namespace tally::group
