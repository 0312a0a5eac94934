// `tally doctor` on this machine, and on hosts that are this machine under other names.
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "process/crew.h"

namespace tally::process {
namespace {

using testing::HasSubstr;

// Called as PROGRAM HOST COMMAND...: every host is here, but for one that nobody can log in to.
std::string remote_shell_in(const Folder& folder) {
  const std::string path = folder.path() + "/shell";
  std::ofstream(path) << "#!/bin/sh\n"
                         "[ \"$1\" = locked ] && { echo 'no way in' >&2; exit 255; }\n"
                         "shift\nexec \"$@\"\n";
  chmod(path.c_str(), 0700);
  return path;
}

TEST(Doctor, TellsWhatThisMachineHasAndFindsNoProblem) {
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

TEST(Doctor, AHostWithoutAWayInIsAProblemWithTheShellsOwnWords) {
  const Folder folder;
  Child doctor({.command = {TALLY_PROGRAM, "doctor", "--hosts", "locked", "--remote-shell",
                            remote_shell_in(folder)}});
  EXPECT_TRUE(doctor.exits(1)) << doctor.transcript();
  EXPECT_THAT(doctor.transcript(), HasSubstr("no way in"));
}

}  // namespace
}  // namespace tally::process
