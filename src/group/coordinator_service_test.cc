#include "group/coordinator_service.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "group/host.h"

namespace tally::group {
namespace {

using namespace std::chrono_literals;

// A stopped process, which is killed and reaped with the object.
class StoppedProcess final {
 public:
  StoppedProcess() : pid_(::fork()) {
    if (pid_ == 0) {
      ::raise(SIGSTOP);
      ::_exit(0);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(pid_, &status, WUNTRACED), pid_);
    EXPECT_TRUE(WIFSTOPPED(status));
  }
  ~StoppedProcess() { kill(); }
  StoppedProcess(const StoppedProcess&) = delete;
  StoppedProcess& operator=(const StoppedProcess&) = delete;

  pid_t pid() const { return pid_; }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    EXPECT_EQ(::waitpid(pid_, nullptr, 0), pid_);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
};

// A coordinator that starts from a state file with one rank.
class CoordinatorServiceAfterARestart : public testing::Test {
 protected:
  void resume(std::uint64_t started) {
    service_.resume({.job = "digits",
                     .members = {{.rank = 0,
                                  .presence = Presence::kPresent,
                                  .host = "a",
                                  .pid = process_.pid(),
                                  .host_identity = *host_identity(""),
                                  .started = started}}},
                    now_);
  }
  std::uint64_t started() const {
    return LocalProcess(*host_identity(""), process_.pid()).started();
  }
  void pass(Duration time) {
    for (const TimePoint end = now_ + time; now_ < end; now_ += 250ms) {
      service_.tick(now_);
      service_.tidy(now_);
    }
  }

  StoppedProcess process_;
  std::vector<std::string> sentences_;
  TimePoint now_ = 1000s;
  CoordinatorService service_{
      {.job = "digits"},
      "127.0.0.1:1",
      [this](const CoordinatorEvent& event) { sentences_.push_back(event.sentence); },
      now_};
};

TEST_F(CoordinatorServiceAfterARestart, WaitsForAStoppedRankWhileItsProcessLives) {
  resume(started());
  pass(1min);
  EXPECT_THAT(sentences_, testing::ElementsAre(testing::HasSubstr(
                              "rank 0 on host a has not been heard of for 3.0 s; its process "
                              "lives, the job waits for it")));
  sentences_.clear();
  process_.kill();
  pass(1s);
  EXPECT_THAT(sentences_, testing::ElementsAre(testing::HasSubstr("is lost: its process ended")));
}

TEST_F(CoordinatorServiceAfterARestart, DoesNotTakeAnotherProcessForTheRank) {
  resume(started() + 1);
  pass(1min);
  EXPECT_THAT(sentences_, testing::ElementsAre(testing::HasSubstr("it is lost")));
}

}  // namespace
}  // namespace tally::group
