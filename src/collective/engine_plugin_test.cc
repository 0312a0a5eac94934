#include "collective/engine_plugin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace tally::collective {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Set = std::map<std::string, std::string>;

Variables from(const Set& set) {
  return [set](const char* name) -> const char* {
    const auto found = set.find(name);
    return found == set.end() ? nullptr : found->second.c_str();
  };
}

TEST(EnginePlugin, TheLauncherDecidesWhichMpi) {
  const auto both = ElementsAre(MpiKind::kOpenMpi, MpiKind::kMpich);
  EXPECT_THAT(*mpi_candidates(from({}), {}), both);
  for (const char* const name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK"})
    EXPECT_THAT(*mpi_candidates(from({{name, "0"}}), {}), ElementsAre(MpiKind::kOpenMpi));
  for (const char* const name : {"PMI_RANK", "PMI_FD", "MPI_LOCALRANKID"})
    EXPECT_THAT(*mpi_candidates(from({{name, "0"}}), {}), ElementsAre(MpiKind::kMpich));
}

TEST(EnginePlugin, TheProgramsOwnMpiGoesBeforeTheLauncherAndTallyMpiBeforeAll) {
  const Set launched = {{"PMI_RANK", "0"}};
  EXPECT_THAT(*mpi_candidates(from(launched), MpiKind::kOpenMpi), ElementsAre(MpiKind::kOpenMpi));
  const Set forced = {{"PMI_RANK", "0"}, {"TALLY_MPI", "openmpi"}};
  EXPECT_THAT(*mpi_candidates(from(forced), {}), ElementsAre(MpiKind::kOpenMpi));
}

TEST(EnginePlugin, TwoMpisInOneProcessAreRefused) {
  const auto mixed = mpi_candidates(from({{"TALLY_MPI", "mpich"}}), MpiKind::kOpenMpi);
  ASSERT_FALSE(mixed.has_value());
  EXPECT_THAT(mixed.error().message, HasSubstr("the program itself uses openmpi"));
  const auto unknown = mpi_candidates(from({{"TALLY_MPI", "lam"}}), {});
  ASSERT_FALSE(unknown.has_value());
  EXPECT_THAT(unknown.error().message, HasSubstr("TALLY_MPI=lam"));
}

TEST(EnginePlugin, IsLookedForBesideTheProgramFirst) {
  const auto folders = plugin_folders(from({}), "/opt/tool/run");
  ASSERT_GE(folders.size(), 3U);
  EXPECT_EQ(folders[0], "/opt/tool");
  EXPECT_EQ(folders[1], "/opt/tool/lib");
  // An installation may be moved, so its plugin folder is relative to the program.
  EXPECT_THAT(folders[2], testing::MatchesRegex("/opt/tool/\\.\\./lib.*/tally"));
  EXPECT_THAT(plugin_folders(from({{"TALLY_PLUGIN_DIR", "/elsewhere"}}), "/opt/tool/run"),
              ElementsAre("/elsewhere"));
}

TEST(EnginePlugin, WithoutOneTheErrorSaysWhatToInstall) {
  const auto job = join_by_plugin({.engine = Engine::kMpi},
                                  from({{"TALLY_PLUGIN_DIR", "/nowhere"}, {"TALLY_MPI", "mpich"}}));
  ASSERT_FALSE(job.has_value());
  EXPECT_EQ(job.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(job.error().message, HasSubstr("libtally_mpi_mpich.so with MPICH (Debian: mpich"));
  EXPECT_THAT(job.error().message, HasSubstr("/nowhere"));
}

}  // namespace
}  // namespace tally::collective
