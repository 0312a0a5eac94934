#pragma once
#include <atomic>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "base/descriptor.h"
#include "net/acceptor.h"
#include "net/socket.h"
#include "net/stream_factory.h"
#include "server/link/greeting.h"
#include "server/link/task_queue.h"
#include "tally/deadline.h"

namespace tally::server {

// The thread that accepts connections, connects to peers until they answer, and ticks. An incoming
// connection has five seconds for its greeting. Threads: safe; the Owner is called in the
// connector's thread.
class Connector final {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual LinkAnswer judge(const LinkGreeting& greeting) = 0;
    // An incoming connection was accepted.
    virtual void came(std::unique_ptr<net::Stream> stream, const LinkGreeting& greeting) = 0;
    // The greeting for a connection to `id`.
    virtual LinkGreeting greeting_to(NodeId id) = 0;
    // dial() has succeeded.
    virtual void reached(std::unique_ptr<net::Stream> stream, const LinkAnswer& answer) = 0;
    // An attempt failed; another will follow.
    virtual void missed(NodeId id, const Error& why) = 0;
    virtual void turned_away(const std::string& from, const std::string& why) = 0;
    // About every 20 ms.
    virtual void tick(TimePoint now) = 0;
  };

  struct Ways {
    std::optional<net::Listener> listener;
    Descriptor local_listener;  // not open: none
    net::StreamFactory streams;
  };
  static Result<std::unique_ptr<Connector>> make(Owner& owner, Ways ways);
  ~Connector() { stop(); }
  Connector(const Connector&) = delete;
  Connector& operator=(const Connector&) = delete;

  void start() {
    thread_ = std::jthread([this] { run(); });
  }
  void stop();

  struct Target {
    NodeId id = kDirectoryId;
    std::string local_name;                 // not empty: by this local socket
    std::optional<net::Endpoint> endpoint;  // else by TCP
  };
  // Retries until reached() or forget().
  void dial(Target target);
  void forget(NodeId id) {
    tasks_.post([this, id] { dials_.erase(id); });
  }

 private:
  struct Dial {
    Target target;
    TimePoint next{};
    Duration pause{};
    std::optional<net::GreetingExchange> exchange;  // none between attempts
    LinkAnswer answer;                              // once the exchange is complete
    TimePoint give_up{};
  };
  struct Caller {
    std::optional<net::GreetingExchange> exchange;
    LinkGreeting greeting;  // once the exchange is complete
    std::string from;
    net::Place place;
    TimePoint give_up{};
  };

  Connector(Owner& owner, Ways ways);
  void run();
  void accept_all(TimePoint now);
  void admit(net::Arrival arrival, TimePoint now);
  void serve_callers(TimePoint now);
  void serve_dials(TimePoint now);
  Result<void> begin(Dial& dial);
  void fail(Dial& dial, const Error& why, TimePoint now);
  // Sleeps until there is work, at most until the next tick.
  void wait(TimePoint now, TimePoint next_tick);

  Owner& owner_;
  Ways ways_;
  net::Acceptor acceptor_;
  TaskQueue tasks_;
  std::list<Caller> callers_;
  std::map<NodeId, Dial> dials_;

  std::atomic<bool> stopping_{false};
  std::jthread thread_;
};

}  // namespace tally::server
