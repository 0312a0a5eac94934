#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tally/error.h"
#include "tally/job.h"

namespace tally::launch {

// The messages between the launcher and the agent of a host, over the agent's stdin and stdout:
// wire::Framing::kLengthPrefix, the kind as a u8, and a body as wire::Writer writes it. The body
// needs no quoting, and no secret appears on a command line.

using Variables = std::vector<std::pair<std::string, std::string>>;

enum class Binding : std::uint8_t { kAuto, kCores, kNone };
enum class Stream : std::uint8_t { kOutput, kErrors };

// Launcher to agent: reserve a port for the rendezvous of the ranks.
struct Reserve {
  friend bool operator==(const Reserve&, const Reserve&) = default;
};
// Launcher to agent, once: start these ranks.
struct Launch {
  std::vector<std::string> command;
  Variables variables;  // for every rank, on top of the agent's own environment
  std::string folder;   // working directory
  Rank first_rank = 0;
  int ranks = 1;  // on this host
  Binding binding = Binding::kAuto;
  Secret secret;
  std::uint32_t lease_ms = 0;  // the agent ends everything after this silence; 0: never

  friend bool operator==(const Launch& a, const Launch& b) {
    return a.command == b.command && a.variables == b.variables && a.folder == b.folder &&
           a.first_rank == b.first_rank && a.ranks == b.ranks && a.binding == b.binding &&
           a.secret.bytes == b.secret.bytes && a.lease_ms == b.lease_ms;
  }
};
// Launcher to agent: signal all running ranks. SIGKILL also goes to all processes that they
// started.
struct Signal {
  int number = 0;
  friend bool operator==(const Signal&, const Signal&) = default;
};
// Launcher to agent: keep-alive. The agent answers with the same message.
struct Ping {
  friend bool operator==(const Ping&, const Ping&) = default;
};

// Agent to launcher: the first message.
struct Hello {
  std::uint32_t version = 0;
  int pid = 0;
  std::string host;  // the machine's own host name
  friend bool operator==(const Hello&, const Hello&) = default;
};
// Agent to launcher: answers Reserve.
struct Reserved {
  std::uint16_t port = 0;
  friend bool operator==(const Reserved&, const Reserved&) = default;
};
struct Started {
  Rank rank = 0;
  int pid = 0;
  friend bool operator==(const Started&, const Started&) = default;
};
// Agent to launcher: a piece of a rank's output, unchanged.
struct Output {
  Rank rank = 0;
  Stream stream = Stream::kOutput;
  std::string bytes;
  friend bool operator==(const Output&, const Output&) = default;
};
// Agent to launcher: a rank has ended, after all of its output. `note` has the reason if no program
// was started.
struct Ended {
  Rank rank = 0;
  int code = 0;
  int signal = 0;
  std::string note;
  friend bool operator==(const Ended&, const Ended&) = default;
};
// Agent to launcher: the agent cannot continue.
struct Trouble {
  std::string text;
  friend bool operator==(const Trouble&, const Trouble&) = default;
};

using Message =
    std::variant<Reserve, Launch, Signal, Ping, Hello, Reserved, Started, Output, Ended, Trouble>;

inline constexpr std::uint32_t kVersion = 1;
// Longest piece of output in one message.
inline constexpr std::size_t kMaxOutputBytes = std::size_t{64} << 10;

// An agent writes this before its first message, so that the launcher can skip the words of a login
// shell.
inline constexpr std::string_view kPreamble = "\x01tally-agent\x02";

// Kind and body.
std::vector<std::byte> encode(const Message& message);
// kCorrupt for bytes that encode() cannot have written; `message` is then unspecified.
Result<void> decode(std::span<const std::byte> kind_and_body, Message& message);

}  // namespace tally::launch
