#pragma once
#include <span>
#include <vector>

#include "net/stream.h"
#include "tally/deadline.h"
#include "wire/frame.h"

namespace tally::group {

// What the rendezvous and its guests say to each other: one kControl frame each, the first byte of
// the body telling which.
enum class ControlKind : std::uint8_t {
  kHello = 1,    // guest: Hello
  kWelcome = 2,  // host: Welcome
  kRefusal = 3,  // host: the Error that ends it for all
  kReady = 4,    // guest: connected with everybody; empty
  kTrouble = 5,  // guest: the Error that kept it from being so
  kGo = 6,       // host: all are ready; empty
};

struct Control {
  ControlKind kind = ControlKind::kGo;
  std::vector<std::byte> body;
};

Result<void> send_control(net::Stream& stream, const Control& control, Deadline by);
// kCorrupt unless a whole, checksummed control frame arrives.
Result<Control> receive_control(net::Stream& stream, Deadline by);
// The Error inside a kRefusal or kTrouble.
Error error_in(const Control& control);

}  // namespace tally::group
