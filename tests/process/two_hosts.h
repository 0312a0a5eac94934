#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "process/crew.h"

namespace tally::process {

// Two hosts with a cable between them: network namespaces of the test's own, joined by a pair of
// virtual interfaces whose rate is limited by a token bucket. Removed with the object. Needs root.
class TwoHosts final {
 public:
  // Why there can be none here, or an empty text.
  static std::string missing();

  struct Options {
    std::string rate = "1gbit";
  };
  explicit TwoHosts(const Options& options);
  TwoHosts() : TwoHosts(Options()) {}
  ~TwoHosts();
  TwoHosts(const TwoHosts&) = delete;
  TwoHosts& operator=(const TwoHosts&) = delete;

  const std::string& name(int host) const { return names_.at(static_cast<std::size_t>(host)); }
  static std::string address(int host);
  // The command, to be run on that host.
  std::vector<std::string> on(int host, const std::vector<std::string>& command) const;
  // A program that is called as PROGRAM ADDRESS COMMAND... and runs the command there, as ssh
  // would.
  std::string remote_shell() const { return folder_.path() + "/shell"; }
  // Bytes that have left the host over the cable, headers included.
  std::uint64_t sent_bytes(int host) const;

  // Nothing arrives any more, silently, in both directions; and everything again.
  void cut();
  void heal();

 private:
  void direct_to(const std::array<std::string, 2>& hardware_addresses) const;

  const Folder folder_;
  std::array<std::string, 2> names_;
  std::array<std::string, 2> hardware_addresses_;
};

}  // namespace tally::process
