#pragma once
#include <atomic>
#include <functional>
#include <thread>

#include "net/socket.h"

namespace tally::process {

// Keeps `count` connections to an address open that never say a word. A connection that the other
// side closes is made again, so that strangers are always waiting. Owns a thread.
class SilentConnections final {
 public:
  SilentConnections(const net::Address& to, int count);
  // Connections that were made so far.
  int made() const { return made_.load(); }

 private:
  std::atomic<int> made_{0};
  std::jthread thread_;
};

// Runs `act` in a process of another user (nobody) and returns its result. Needs root, and a test
// program that has no other threads at the moment.
bool as_other_user(const std::function<bool()>& act);

}  // namespace tally::process
