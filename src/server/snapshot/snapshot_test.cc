#include "server/snapshot/snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <fstream>

#include "base/file_io.h"
#include "server/storage/storage_test_support.h"

namespace tally::server {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Snapshot : public ::testing::Test {
 protected:
  Snapshot() : folder_(fs::temp_directory_path().string() + "/tally_snapshot_XXXXXX") {
    TALLY_CHECK(::mkdtemp(folder_.data()) != nullptr);
  }
  ~Snapshot() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  // A table of each kind, partitioned for `slots` slots. Each value depends on its position.
  struct Tables {
    TableSpec dense = dense_spec(DataType::kFloat32, 150'000, adam());
    TableSpec sparse = sparse_spec(3, adagrad(), 0.5);
    std::vector<std::unique_ptr<Storage>> dense_parts, sparse_parts;
  };
  Tables tables(std::uint32_t slots) {
    Tables t;
    for (std::uint32_t p = 0; p < parts_of(t.dense, slots); ++p)
      t.dense_parts.push_back(made(t.dense, budget_, p));
    for (std::uint32_t p = 0; p < parts_of(t.sparse, slots); ++p)
      t.sparse_parts.push_back(made(t.sparse, budget_, p));
    return t;
  }
  void train(Tables& t) {
    Rng rng(1);
    for (auto& part : t.dense_parts) {
      const auto numbers = random_numbers<float>(part->elements(), rng);
      const Gradient pushed{.values = bytes_view(numbers)};
      for (int step = 0; step < 2; ++step)
        ASSERT_TRUE(part->apply({&pushed, 1}, {.rate = 0.1}).has_value());
    }
    const auto parts = static_cast<std::uint32_t>(t.sparse_parts.size());
    for (std::uint64_t key = 0; key < 500; ++key) {
      const auto row = random_numbers<float>(3, rng);
      const Gradient pushed{.keys = {&key, 1}, .values = bytes_view(row)};
      ASSERT_TRUE(t.sparse_parts[part_of_key(key, parts)]->apply({&pushed, 1}, {.rate = 0.1}));
    }
  }

  // Part p is on server p % servers + 1 and has version 10 + p.
  std::vector<SnapshotFile> write(const Tables& t, std::uint32_t servers, const std::string& name) {
    std::vector<SnapshotFile> files;
    for (std::uint32_t server = 0; server < servers; ++server) {
      const auto own = write_snapshot(
          folder_, name, server + 1,
          [&](const PartSink& add) -> Result<void> {
            TALLY_TRY(add_parts(add, t.dense, t.dense_parts, server, servers));
            return add_parts(add, t.sparse, t.sparse_parts, server, servers);
          },
          file_bytes_);
      TALLY_CHECK(own.has_value());
      files.insert(files.end(), own->begin(), own->end());
    }
    return files;
  }
  static Result<void> add_parts(const PartSink& add, const TableSpec& spec,
                                const std::vector<std::unique_ptr<Storage>>& parts,
                                std::uint32_t server, std::uint32_t servers) {
    for (std::uint32_t p = server; p < parts.size(); p += servers) {
      const SnapshotPart part{
          .part = p, .parts = static_cast<std::uint32_t>(parts.size()), .version = 10 + p};
      TALLY_TRY(add(spec, part, parts[p]->pieces({}, true, 10'000)));
    }
    return {};
  }
  Result<std::vector<SnapshotFile>> write_nothing(const std::string& folder,
                                                  const std::string& name) const {
    return write_snapshot(folder, name, 1, [](const PartSink&) { return Result<void>(); });
  }
  fs::path published(const Tables& t, std::uint32_t servers, const std::string& name) {
    const auto path = publish_snapshot(folder_, name, 1, write(t, servers, name));
    TALLY_CHECK(path.has_value());
    return *path;
  }

  static Result<std::vector<SnapshotReader::Wanted>> restore_all(
      const SnapshotReader& reader, const TableSpec& spec,
      const std::vector<std::unique_ptr<Storage>>& parts) {
    std::vector<SnapshotReader::Wanted> wanted;
    for (std::uint32_t p = 0; p < parts.size(); ++p)
      wanted.push_back({.part = p, .storage = parts[p].get()});
    TALLY_TRY(reader.restore(spec, static_cast<std::uint32_t>(parts.size()), wanted));
    return wanted;
  }

  static void change_byte(const fs::path& path, std::int64_t at) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(at, at < 0 ? std::ios::end : std::ios::beg);
    const int byte = file.peek();
    file.seekp(at, at < 0 ? std::ios::end : std::ios::beg);
    file.put(static_cast<char>(byte ^ 4));
  }

  std::string folder_;
  std::size_t file_bytes_ = kSnapshotFileBytes;
  MemoryBudget budget_{0};
};

TEST_F(Snapshot, RestoredOnAsManyServersEverythingIsTheSame) {
  file_bytes_ = 100'000;
  Tables was = tables(2);
  train(was);
  const fs::path path = published(was, 2, "a");
  EXPECT_EQ(path, fs::path(folder_) / "a");
  EXPECT_FALSE(fs::exists(fs::path(folder_) / "a.part"));
  EXPECT_TRUE(fs::exists(path / "server-2-00005.safetensors"));
  const auto reader = SnapshotReader::open(path);
  ASSERT_TRUE(reader.has_value()) << reader.error().message;
  EXPECT_EQ(reader->tables(), (std::vector<std::string>{"rows", "weights"}));
  Tables is = tables(2);
  const auto dense = restore_all(*reader, is.dense, is.dense_parts);
  const auto sparse = restore_all(*reader, is.sparse, is.sparse_parts);
  ASSERT_TRUE(dense.has_value() && sparse.has_value());
  for (std::uint32_t p = 0; p < 3; ++p) {
    EXPECT_EQ((*dense)[p].version, 10 + p);
    EXPECT_EQ(is.dense_parts[p]->pieces({}, true, 1 << 20),
              was.dense_parts[p]->pieces({}, true, 1 << 20));
  }
  for (std::uint32_t p = 0; p < 8; ++p) {
    EXPECT_EQ((*sparse)[p].version, 10 + p);
    EXPECT_EQ(is.sparse_parts[p]->pieces({}, true, 1 << 20),
              was.sparse_parts[p]->pieces({}, true, 1 << 20));
  }
}

TEST_F(Snapshot, RestoredOnAnotherNumberOfServersEachRowIsWhereItBelongs) {
  Tables was = tables(2);
  train(was);
  const auto reader = SnapshotReader::open(published(was, 2, "a"));
  ASSERT_TRUE(reader.has_value());
  for (const std::uint32_t slots : {1U, 3U}) {
    Tables is = tables(slots);
    // A restore replaces all earlier content.
    train(is);
    const std::uint64_t stranger = 100'000;
    ASSERT_TRUE(is.sparse_parts[0]->prepare_rows({&stranger, 1}).has_value());
    const auto restored = restore_all(*reader, is.sparse, is.sparse_parts);
    ASSERT_TRUE(restored.has_value()) << restored.error().message;
    ASSERT_TRUE(restore_all(*reader, is.dense, is.dense_parts).has_value());
    std::uint64_t rows = 0;
    for (std::uint32_t p = 0; p < is.sparse_parts.size(); ++p) {
      EXPECT_EQ((*restored)[p].version, 17U);
      rows += is.sparse_parts[p]->elements();
    }
    EXPECT_EQ(rows, 500U);
    for (std::uint64_t key = 0; key < 500; ++key) {
      const Storage& then = *was.sparse_parts[part_of_key(key, 8)];
      const Storage& now = *is.sparse_parts[part_of_key(key, 4 * slots)];
      EXPECT_EQ(now.pieces({&key, 1}, false, 4096), then.pieces({&key, 1}, false, 4096));
    }
    EXPECT_EQ(is.dense_parts[2]->pieces({}, true, 1 << 20),
              was.dense_parts[2]->pieces({}, true, 1 << 20));
  }
}

TEST_F(Snapshot, EachServerOfASharedFolderMayPublish) {
  Tables t = tables(1);
  const auto files = write(t, 3, "a");
  for (const NodeId server : {2U, 1U, 3U}) {
    const auto path = publish_snapshot(folder_, "a", server, files);
    ASSERT_TRUE(path.has_value()) << path.error().message;
  }
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(fs::path(folder_) / "a"))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names,
            (std::vector<std::string>{"manifest.json", "server-1-00000.safetensors",
                                      "server-2-00000.safetensors", "server-3-00000.safetensors"}));
  const std::vector<SnapshotFile> others{files[0]};
  EXPECT_EQ(publish_snapshot(folder_, "a", 1, others).error().code, ErrorCode::kInvalid);
}

TEST_F(Snapshot, WhatAnEarlierAttemptLeftIsNotPartOfIt) {
  Tables t = tables(1);
  ASSERT_FALSE(write(t, 3, "a").empty());
  const auto path = published(t, 2, "a");
  EXPECT_FALSE(fs::exists(path / "server-3-00000.safetensors"));
  EXPECT_TRUE(SnapshotReader::open(path).has_value());
}

TEST_F(Snapshot, ANameThatIsTakenOrNoneIsRefused) {
  Tables t = tables(1);
  published(t, 1, "a");
  EXPECT_EQ(write_nothing(folder_, "a").error().code, ErrorCode::kInvalid);
  for (const std::string name : {"", ".", "..", ".a", "a/b", "a.part", "a b", "\xC3\xBC"}) {
    EXPECT_EQ(write_nothing(folder_, name).error().code, ErrorCode::kInvalid) << name;
    EXPECT_EQ(publish_snapshot(folder_, name, 1, {}).error().code, ErrorCode::kInvalid) << name;
  }
  EXPECT_TRUE(check_snapshot_name("step-120.v2_x").has_value());
  EXPECT_FALSE(check_snapshot_name(std::string(101, 'a')).has_value());
}

TEST_F(Snapshot, WithoutItsFolderTheReasonIsTold) {
  const auto begun = write_nothing("/proc/nowhere", "a");
  ASSERT_FALSE(begun.has_value());
  EXPECT_EQ(begun.error().code, ErrorCode::kSystem);
  EXPECT_EQ(publish_snapshot(folder_, "a", 1, {}).error().code, ErrorCode::kSystem);
  EXPECT_EQ(SnapshotReader::open(fs::path(folder_) / "none").error().code, ErrorCode::kSystem);
}

// RLIMIT_FSIZE limits the file size, as a full disk would.
TEST_F(Snapshot, WithoutSpaceTheReasonIsToldAndNothingIsLeft) {
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  rlimit small = old;
  small.rlim_cur = 4096;
  Tables t = tables(1);
  const auto written = write_snapshot(
      folder_, "a", 1,
      [&](const PartSink& add) {
        TALLY_CHECK(::setrlimit(RLIMIT_FSIZE, &small) == 0);
        const auto pieces = t.dense_parts[0]->pieces({}, true, 100'000);
        const auto added = add(t.dense, {.part = 0, .parts = 3}, pieces);
        TALLY_CHECK(::setrlimit(RLIMIT_FSIZE, &old) == 0);
        return added;
      },
      1);
  ASSERT_FALSE(written.has_value());
  EXPECT_EQ(written.error().code, ErrorCode::kSystem);
  EXPECT_EQ(written.error().message,
            folder_ + "/a.part/server-1-00000.safetensors: cannot be written: File too large");
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(Snapshot, ADamagedFileIsNamed) {
  Tables t = tables(1);
  train(t);
  const auto path = published(t, 2, "a");
  const auto size = static_cast<std::int64_t>(fs::file_size(path / "server-2-00000.safetensors"));
  for (const std::int64_t at : {std::int64_t{0}, std::int64_t{9}, size / 2, size - 1}) {
    change_byte(path / "server-2-00000.safetensors", at);
    const auto damaged = SnapshotReader::open(path);
    ASSERT_FALSE(damaged.has_value());
    EXPECT_EQ(damaged.error().code, ErrorCode::kCorrupt);
    EXPECT_NE(damaged.error().message.find("server-2-00000.safetensors: checksum"),
              std::string::npos);
    change_byte(path / "server-2-00000.safetensors", at);
  }
  ASSERT_TRUE(SnapshotReader::open(path).has_value());
  fs::resize_file(path / "server-2-00000.safetensors", static_cast<std::uintmax_t>(size - 1));
  EXPECT_NE(SnapshotReader::open(path).error().message.find("expected"), std::string::npos);
}

TEST_F(Snapshot, ADamagedManifestIsCorrupt) {
  Tables t = tables(1);
  const auto path = published(t, 1, "a");
  const auto size = static_cast<std::int64_t>(fs::file_size(path / "manifest.json"));
  for (std::int64_t at = 0; at < size; ++at) {
    change_byte(path / "manifest.json", at);
    const auto damaged = SnapshotReader::open(path);
    ASSERT_FALSE(damaged.has_value()) << at;
    EXPECT_EQ(damaged.error().code, ErrorCode::kCorrupt);
    change_byte(path / "manifest.json", at);
  }
  EXPECT_TRUE(SnapshotReader::open(path).has_value());
}

// The reader validates the content of files even if their checksums match.
TEST_F(Snapshot, AFileThatIsNoneIsCorruptWhateverItsChecksum) {
  const auto problem_of = [this](const std::vector<checkpoint::TensorBytes>& tensors) {
    const fs::path path = fs::path(folder_) / "a";
    fs::remove_all(path);
    fs::create_directories(path);
    const auto file = checkpoint::write_stored(path / "server-1-00000.safetensors", tensors);
    TALLY_CHECK(file.has_value());
    const auto manifest = encode(std::span(&*file, 1));
    TALLY_CHECK(write_text(path / "manifest.json",
                           {reinterpret_cast<const char*>(manifest.data()), manifest.size()}));
    const auto opened = SnapshotReader::open(path);
    return opened.has_value() ? std::string() : opened.error().message;
  };
  const TableSpec spec = dense_spec(DataType::kFloat32, 2);
  const auto piece = made(spec, budget_)->pieces({}, true, 1000).front();
  SavedPiece saved{.spec = spec};
  std::copy_n(piece.begin(), saved.header.size(), saved.header.begin());
  const auto values = std::span(piece).subspan(saved.header.size());
  const auto described = [&saved](const std::vector<std::byte>& as) {
    return checkpoint::TensorBytes{
        {name_of(saved), DataType::kUInt8, {static_cast<std::int64_t>(as.size())}}, as};
  };
  std::vector<std::byte> bytes = encode(saved);
  const checkpoint::TensorBytes array{{"weights/0.0/values", DataType::kFloat32, {2}}, values};
  EXPECT_EQ(problem_of({described(bytes), array}), "");
  EXPECT_THAT(problem_of({described(bytes)}), HasSubstr("does not describe weights/0.0/values"));
  const checkpoint::TensorBytes other{{"weights/0.0/values", DataType::kInt32, {2}}, values};
  EXPECT_THAT(problem_of({described(bytes), other}), HasSubstr("does not describe"));
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    const std::vector<std::byte> cut(bytes.begin(), bytes.begin() + static_cast<long>(length));
    EXPECT_FALSE(decode_saved_piece(cut).has_value()) << length;
  }
  bytes.pop_back();
  EXPECT_THAT(problem_of({described(bytes), array}), HasSubstr("server-1-00000.safetensors: "));
  saved.part.part = 1;  // of 1
  EXPECT_THAT(problem_of({described(encode(saved))}), HasSubstr("its table does not have"));
  saved.part.part = 0;
  saved.spec.optimizer = adam();
  EXPECT_THAT(problem_of({described(encode(saved))}), HasSubstr("has other arrays"));
}

TEST_F(Snapshot, OfAnEarlierVersionIsRefusedWithTheReason) {
  fs::create_directories(fs::path(folder_) / "a");
  std::ofstream(fs::path(folder_) / "a/manifest") << "tally snapshot 1\n";
  const auto opened = SnapshotReader::open(fs::path(folder_) / "a");
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(opened.error().message, HasSubstr("/a: an earlier version of Tally wrote this"));
}

// Other programs read the rows by key.
TEST_F(Snapshot, ItsFilesAreSafetensors) {
  Tables t = tables(1);
  train(t);
  const auto reader = checkpoint::Reader::open(published(t, 1, "a") / "server-1-00000.safetensors");
  ASSERT_TRUE(reader.has_value()) << reader.error().message;
  const std::uint64_t rows = t.sparse_parts[2]->elements();
  std::vector<std::uint64_t> keys(rows);
  // Pieces of 10,000 bytes have all rows of a part.
  ASSERT_TRUE((*reader)->read("rows/2.0/keys", 0, std::as_writable_bytes(std::span(keys))));
  std::vector<float> values(3 * rows);
  ASSERT_TRUE((*reader)->read("rows/2.0/values", 0, std::as_writable_bytes(std::span(values))));
  EXPECT_EQ(values, read_all<float>(*t.sparse_parts[2], keys));
  std::vector<float> moment(16);
  ASSERT_TRUE(
      (*reader)->read("weights/1.3/exp_avg_sq", 0, std::as_writable_bytes(std::span(moment))));
}

TEST_F(Snapshot, PartsInFilesThatAreElsewhereAreMissedOnlyWhereNeeded) {
  Tables was = tables(2);
  train(was);
  const auto path = published(was, 2, "a");
  fs::remove(path / "server-2-00000.safetensors");
  const auto reader = SnapshotReader::open(path);
  ASSERT_TRUE(reader.has_value());
  Tables is = tables(2);
  // Part 0 was on server 1, part 1 on server 2.
  SnapshotReader::Wanted wanted{.part = 0, .storage = is.sparse_parts[0].get()};
  EXPECT_TRUE(reader->restore(is.sparse, 8, {&wanted, 1}).has_value());
  wanted = {.part = 1, .storage = is.sparse_parts[1].get()};
  const auto lacks = reader->restore(is.sparse, 8, {&wanted, 1});
  ASSERT_FALSE(lacks.has_value());
  EXPECT_EQ(lacks.error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(lacks.error().message,
            path.string() +
                ": part 1 of table 'rows' is not complete in the files here; "
                "not here: server-2-00000.safetensors");
  EXPECT_EQ(reader->restore(is.sparse, 4, {&wanted, 1}).error().code, ErrorCode::kCorrupt);
  fs::remove(path / "server-1-00000.safetensors");
  const auto none = SnapshotReader::open(path);
  ASSERT_TRUE(none.has_value());
  EXPECT_EQ(none->restore(is.sparse, 8, {&wanted, 1}).error().code, ErrorCode::kCorrupt);
}

// One of several files of a server was lost.
TEST_F(Snapshot, APartIsMissedWithOneOfItsFiles) {
  file_bytes_ = 200'000;
  Tables t = tables(1);
  train(t);
  const auto path = published(t, 1, "a");
  fs::remove(path / "server-1-00001.safetensors");
  const auto reader = SnapshotReader::open(path);
  ASSERT_TRUE(reader.has_value());
  SnapshotReader::Wanted wanted{.part = 0, .storage = t.dense_parts[0].get()};
  const auto lacks = reader->restore(t.dense, 3, {&wanted, 1});
  ASSERT_FALSE(lacks.has_value());
  EXPECT_THAT(lacks.error().message, HasSubstr("not here: server-1-00001.safetensors"));
  wanted = {.part = 2, .storage = t.dense_parts[2].get()};
  EXPECT_TRUE(reader->restore(t.dense, 3, {&wanted, 1}).has_value());
}

TEST_F(Snapshot, AnotherTableIsAMismatchAndNothingChanges) {
  Tables was = tables(1);
  train(was);
  const auto reader = SnapshotReader::open(published(was, 1, "a"));
  ASSERT_TRUE(reader.has_value());
  std::vector<TableSpec> others(5, was.dense);
  others[0].name = "other";
  others[1].optimizer = sgd();
  others[2].count += 1;
  others[3] = was.sparse;
  others[3].dimension = 4;
  others[4] = was.sparse;
  others[4].name = "weights";
  for (const TableSpec& spec : others) {
    const auto storage = made(spec, budget_);
    SnapshotReader::Wanted wanted{.part = 0, .storage = storage.get()};
    const auto restored = reader->restore(spec, parts_of(spec, 1), {&wanted, 1});
    ASSERT_FALSE(restored.has_value());
    EXPECT_EQ(restored.error().code, ErrorCode::kMismatch) << restored.error().message;
  }
  // A table with another learning rate, plan, seed or number of workers still matches.
  TableSpec tuned = was.dense;
  tuned.optimizer.rate = 0.5;
  tuned.workers = 9;
  const auto storage = made(tuned, budget_);
  SnapshotReader::Wanted wanted{.part = 0, .storage = storage.get()};
  EXPECT_TRUE(reader->restore(tuned, 3, {&wanted, 1}).has_value());
}

TEST(SnapshotFiles, EncodedAndDecodedTheyAreTheSame) {
  const std::vector<SnapshotFile> files{{"server-1-00000.safetensors", 123, 0xDEADBEEF},
                                        {"server-4294967295-65535.safetensors", 1ULL << 60, 0}};
  const auto bytes = encode(files);
  const auto again = decode_snapshot_files(bytes);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(*again, files);
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(decode_snapshot_files(std::span(bytes).first(length)).has_value());
}

TEST(SnapshotFiles, NamesThatLeadElsewhereAreCorrupt) {
  for (const std::string name :
       {"", "server-", "server-1", "server-1-", "server-1-00000", "server--00000.safetensors",
        "server-x-00000.safetensors", "server-01-00000.safetensors", "server-1-0.safetensors",
        "server--1-00000.safetensors", "../server-1-00000.safetensors",
        "server-1-00000.safetensors/..", "manifest.json", "server-4294967296-00000.safetensors"}) {
    const std::vector<SnapshotFile> files{{name, 1, 1}};
    EXPECT_FALSE(decode_snapshot_files(encode(files)).has_value()) << name;
  }
  const std::vector<SnapshotFile> twice(2, {"server-1-00000.safetensors", 1, 1});
  EXPECT_FALSE(decode_snapshot_files(encode(twice)).has_value());
  EXPECT_FALSE(decode_snapshot_files(encode(std::vector<SnapshotFile>())).has_value());
}

}  // namespace
}  // namespace tally::server
