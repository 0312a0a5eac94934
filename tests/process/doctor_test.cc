// `tally doctor` on this machine, and on hosts that are this machine under other names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "process/crew.h"

namespace tally::process {
namespace {

using testing::HasSubstr;

// A remote shell, called as PROGRAM HOST COMMAND...: all hosts are this machine, except `locked`,
// which refuses logins.
std::string remote_shell_in(const Folder& folder) {
  return script(folder, "shell",
                "[ \"$1\" = locked ] && { echo 'no way in' >&2; exit 255; }\nshift\nexec \"$@\"");
}

TEST(Doctor, DescribesThisMachineAndFindsNoProblem) {
  Child doctor({.command = {TALLY_PROGRAM, "doctor", "--all"}});
  EXPECT_TRUE(doctor.exits(0)) << doctor.transcript();
  for (const char* const subject : {"cores", "NUMA", "shared memory", "huge pages", "Open MPI",
                                    "CUDA", "libtorch", "BLAS", "clock", "memory"})
    EXPECT_THAT(doctor.transcript(), HasSubstr(subject));
}

TEST(Doctor, HostsCallEachOtherAndTheirClocksAreCompared) {
  const Folder folder;
  Child doctor({.command = {TALLY_PROGRAM, "doctor", "--hosts", "127.0.0.1,127.0.0.2",
                            "--remote-shell", remote_shell_in(folder)},
                .variables = {{"TMPDIR", folder.path()}}});
  EXPECT_TRUE(doctor.exits(0)) << doctor.transcript();
  EXPECT_THAT(doctor.transcript(), HasSubstr("from 127.0.0.2: connected"));
  EXPECT_THAT(doctor.transcript(), HasSubstr("its clock is"));
}

TEST(Doctor, AHostThatRefusesLoginsIsAProblemWithTheMessageOfTheShell) {
  const Folder folder;
  Child doctor({.command = {TALLY_PROGRAM, "doctor", "--hosts", "locked", "--remote-shell",
                            remote_shell_in(folder)}});
  EXPECT_TRUE(doctor.exits(1)) << doctor.transcript();
  EXPECT_THAT(doctor.transcript(), HasSubstr("no way in"));
}

}  // namespace
}  // namespace tally::process
