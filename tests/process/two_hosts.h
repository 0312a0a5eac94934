#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "process/crew.h"

namespace tally::process {

// Two hosts with a cable between them: network namespaces that are joined by a pair of virtual
// interfaces, whose rate a token bucket limits to 1 Gbit/s. Removed with the object; one object at
// a time. Needs root.
class TwoHosts final {
 public:
  TwoHosts();
  ~TwoHosts();
  TwoHosts(const TwoHosts&) = delete;
  TwoHosts& operator=(const TwoHosts&) = delete;

  const std::string& name(int host) const { return names_.at(static_cast<std::size_t>(host)); }
  static std::string address(int host);
  // The command that runs `command` on that host.
  std::vector<std::string> on(int host, const std::vector<std::string>& command) const;
  // A program PROGRAM ADDRESS COMMAND... that runs the command on the host with this address, as
  // ssh does.
  std::string remote_shell() const { return folder_.path() + "/shell"; }
  // Bytes that have left the host over the cable, headers included.
  std::uint64_t sent_bytes(int host) const;

  // Drops all packets silently in both directions; delivers them again.
  void cut();
  void heal();

 private:
  void direct_to(const std::array<std::string, 2>& hardware_addresses) const;

  const Folder folder_;
  std::array<std::string, 2> names_;
  std::array<std::string, 2> hardware_addresses_;
};

// Tests that share two hosts, which the first test of the suite makes; skipped where there can be
// none. The cable is whole at the begin of each test.
class OnTwoHosts : public testing::Test {
 protected:
  static void SetUpTestSuite();
  static void TearDownTestSuite();
  void SetUp() override;

  static TwoHosts& hosts() { return *hosts_; }

 private:
  static std::string missing_;
  static std::unique_ptr<TwoHosts> hosts_;
};

}  // namespace tally::process
