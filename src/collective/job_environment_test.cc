#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <map>

#include "collective/variables.h"
#include "tally/job.h"

namespace tally {
namespace {

Result<JobOptions> with(const std::map<std::string, std::string>& variables) {
  return options_from([&variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(JobEnvironment, NothingSetIsAJobOfOne) {
  const auto options = with({});
  ASSERT_TRUE(options.has_value());
  EXPECT_EQ(options->size, 1);
  EXPECT_EQ(options->rank, 0);
  EXPECT_EQ(options->master_port, 0);
  EXPECT_EQ(options->tcp_threads, 0);
  EXPECT_EQ(with({{"TALLY_TCP_THREADS", "auto"}})->tcp_threads, 0);
  EXPECT_EQ(with({{"TALLY_TCP_THREADS", "1"}})->tcp_threads, 1);
}

TEST(JobEnvironment, TheUsualVariablesAreRead) {
  const auto options = with({{"RANK", "3"},
                             {"WORLD_SIZE", "4"},
                             {"LOCAL_RANK", "1"},
                             {"MASTER_ADDR", "::1"},
                             {"MASTER_PORT", "1234"},
                             {"TALLY_GENERATION", "2001"},
                             {"TALLY_TRANSPORT", "tls"},
                             {"TALLY_TCP_THREADS", "2"},
                             {"TALLY_ENGINE", "mpi"},
                             {"TALLY_MPI_INSIDE", "shm"},
                             {"TALLY_HOST_LABEL", "left"},
                             {"TALLY_TIMEOUT", "7"}});
  ASSERT_TRUE(options.has_value());
  EXPECT_EQ(options->rank, 3);
  EXPECT_EQ(options->size, 4);
  EXPECT_EQ(options->local_rank, 1);
  EXPECT_EQ(options->master_address, "::1");
  EXPECT_EQ(options->master_port, 1234);
  EXPECT_EQ(options->generation, 2001U);
  EXPECT_EQ(options->transport, TransportKind::kTls);
  EXPECT_EQ(options->tcp_threads, 2);
  EXPECT_EQ(options->engine, Engine::kMpi);
  EXPECT_EQ(options->mpi_inside, MpiInside::kShm);
  EXPECT_EQ(options->host_label, "left");
  EXPECT_EQ(options->operation_timeout, std::chrono::seconds(7));
}

TEST(JobEnvironment, KnowsTheCoordinator) {
  EXPECT_EQ(with({})->coordinator, "");
  EXPECT_EQ(with({})->heartbeat, std::chrono::seconds(1));
  const auto options = with(
      {{"TALLY_JOB", "digits"}, {"TALLY_COORDINATOR", "[::1]:99"}, {"TALLY_HEARTBEAT", "0.25"}});
  ASSERT_TRUE(options.has_value());
  EXPECT_EQ(options->name, "digits");
  EXPECT_EQ(options->coordinator, "[::1]:99");
  EXPECT_EQ(options->heartbeat, std::chrono::milliseconds(250));
}

TEST(JobEnvironment, WrongVariablesAreNamed) {
  const std::vector<std::pair<std::map<std::string, std::string>, std::string>> cases = {
      {{{"RANK", "1"}}, "WORLD_SIZE"},
      {{{"RANK", "4"}, {"WORLD_SIZE", "4"}}, "RANK=4"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "two"}}, "WORLD_SIZE=two"},
      {{{"MASTER_PORT", "70000"}}, "MASTER_PORT=70000"},
      {{{"TALLY_GENERATION", "0"}}, "TALLY_GENERATION=0"},
      {{{"TALLY_TRANSPORT", "pigeon"}}, "TALLY_TRANSPORT=pigeon"},
      {{{"TALLY_TCP_THREADS", "3"}}, "TALLY_TCP_THREADS=3"},
      {{{"TALLY_ENGINE", "steam"}}, "TALLY_ENGINE=steam"},
      {{{"TALLY_MPI_INSIDE", "out"}}, "TALLY_MPI_INSIDE=out"},
      {{{"TALLY_HEARTBEAT", "0"}}, "TALLY_HEARTBEAT=0"},
      {{{"TALLY_HEARTBEAT", "nan"}}, "TALLY_HEARTBEAT=nan"},
      {{{"TALLY_SECRET_FILE", "/nowhere"}}, "TALLY_SECRET_FILE=/nowhere"}};
  for (const auto& [variables, name] : cases) {
    const auto options = with(variables);
    ASSERT_FALSE(options.has_value()) << name;
    EXPECT_EQ(options.error().code, ErrorCode::kInvalid);
    EXPECT_THAT(options.error().message, testing::HasSubstr(name));
  }
}

class SecretFile : public testing::Test {
 protected:
  void write(const std::string& text, mode_t mode) {
    std::ofstream(path_, std::ios::binary) << text;
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
  }
  ~SecretFile() override { unlink(path_.c_str()); }
  const std::string path_ = testing::TempDir() + "tally_secret_" + std::to_string(getpid());
};

TEST_F(SecretFile, HoldsRawBytesOrHexadecimal) {
  write(std::string(32, '\x5A'), 0600);
  EXPECT_EQ(with({{"TALLY_SECRET_FILE", path_}})->secret->bytes[31], std::byte{0x5A});
  std::string digits;
  for (int i = 0; i < 32; ++i) digits += "5a";
  write(digits + "\n", 0600);
  EXPECT_EQ(with({{"TALLY_SECRET_FILE", path_}})->secret->bytes[31], std::byte{0x5A});
}

TEST_F(SecretFile, IsRefusedIfOthersCanReadItOrItIsNotASecret) {
  write(std::string(32, 'x'), 0644);
  EXPECT_THAT(with({{"TALLY_SECRET_FILE", path_}}).error().message,
              testing::HasSubstr("chmod 600"));
  write("short", 0600);
  EXPECT_THAT(with({{"TALLY_SECRET_FILE", path_}}).error().message, testing::HasSubstr("neither"));
}

// Kubernetes mounts a secret that root owns and that the group of the pod may read.
TEST(SecretFileMode, IsPrivateIfOnlyTheUserCanReadItOrRootLentIt) {
  EXPECT_TRUE(collective::is_private(0600, 1000, 1000));
  EXPECT_TRUE(collective::is_private(0400, 0, 0));
  EXPECT_TRUE(collective::is_private(0440, 0, 1000));
  EXPECT_TRUE(collective::is_private(0640, 0, 1000));
  EXPECT_FALSE(collective::is_private(0640, 1000, 1000));
  EXPECT_FALSE(collective::is_private(0440, 0, 0));
  EXPECT_FALSE(collective::is_private(0660, 0, 1000));
  EXPECT_FALSE(collective::is_private(0444, 0, 1000));
}

TEST(JobEnvironment, LauncherAndItsWayToMeetAreInTheOptions) {
  const auto options = with({{"OMPI_COMM_WORLD_RANK", "1"},
                             {"OMPI_COMM_WORLD_SIZE", "2"},
                             {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                             {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                             {"PMIX_RANK", "1"},
                             {"PMIX_NAMESPACE", "77"}});
  ASSERT_TRUE(options.has_value());
  EXPECT_EQ(options->launcher, "Open MPI");
  EXPECT_EQ(options->rank, 1);
  EXPECT_EQ(options->size, 2);
  EXPECT_EQ(options->local_rank, 1);
  EXPECT_EQ(options->local_size, 2);
  EXPECT_EQ(options->bootstrap, Bootstrap::kLocal);
  EXPECT_THAT(options->job_id, testing::HasSubstr("77"));
  EXPECT_EQ(with({})->launcher, "none");
}

}  // namespace
}  // namespace tally
