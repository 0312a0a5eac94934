// A program with its own loop is killed in the middle of an epoch and started again.
#include <gmock/gmock.h>

#include "process/folder.h"
#include "process/launched.h"

namespace tally::process {
namespace {

using testing::HasSubstr;

// The ranks load libtorch first.
constexpr milliseconds kTime = 2 * kPatience;

std::string run(const std::vector<std::string>& words, int code) {
  std::vector<std::string> command = {"-n", "2"};
  command.insert(command.end(), words.begin(), words.end());
  Launched job(command, {{"OMP_NUM_THREADS", "1"}});
  EXPECT_TRUE(job.tally().exits(code, kTime)) << job.tally().transcript();
  return job.tally().transcript();
}

// 16 steps are an epoch: a rank takes 32 of the 1000 samples in each.
TEST(OwnLoop, ThatIsKilledAndResumedEndsWithTheBitsOfOneThatWasNot) {
  const Folder folder;
  EXPECT_THAT(run({"--", TALLY_RESUME_PROGRAM, folder.file("whole")}, 0),
              HasSubstr("2 ranks, 64 steps"));
  // The launcher starts the ranks again after they have killed themselves.
  const std::string restarted =
      run({"--max-restarts", "1", "--", TALLY_RESUME_PROGRAM, folder.file("parts"), "30"}, 0);
  EXPECT_THAT(restarted, HasSubstr("resumed at step 20"));
  EXPECT_THAT(restarted, HasSubstr("2 ranks, 64 steps"));
  for (const char* const file : {"model.safetensors", "optimizer-00000-of-00002.safetensors",
                                 "optimizer-00001-of-00002.safetensors", "state.json"}) {
    const std::string expected = contents_of(folder.file("whole/step-0000000064/") + file);
    EXPECT_FALSE(expected.empty()) << file;
    EXPECT_TRUE(contents_of(folder.file("parts/step-0000000064/") + file) == expected) << file;
  }
}

}  // namespace
}  // namespace tally::process
