#include "group/bodies.h"

#include <gtest/gtest.h>

namespace tally::group {
namespace {

Hello some_hello() {
  Hello hello{.rank = 3,
              .size = 8,
              .generation = 7,
              .transport = TransportKind::kTls,
              .host = "identity",
              .host_name = "node1",
              .pid = 4711,
              .listens = {.host = "10.0.0.1", .port = 29400},
              .local_socket = "tally-x",
              .lost = {1, 2}};
  hello.cpus[0] = 0b1010;
  hello.cpus[2] = 1;
  return hello;
}

TEST(Bodies, AHelloArrivesAsItWasSent) {
  wire::Writer writer;
  wire::write_fields(writer, some_hello());
  wire::Reader reader(writer.view());
  const auto read = wire::read_fields<Hello>(reader);
  ASSERT_TRUE(read.has_value()) << to_string(read.error());
  EXPECT_EQ(*read, some_hello());
  EXPECT_TRUE(reader.end().has_value());
}

TEST(Bodies, AHelloThatEndsEarlyIsCorruptWhereverItEnds) {
  wire::Writer writer;
  wire::write_fields(writer, some_hello());
  for (std::size_t bytes = 0; bytes < writer.view().size(); ++bytes) {
    wire::Reader reader(writer.view().first(bytes));
    const auto read = wire::read_fields<Hello>(reader);
    ASSERT_FALSE(read.has_value()) << bytes;
    EXPECT_EQ(read.error().code, ErrorCode::kCorrupt);
  }
}

TEST(Bodies, MoreProcessorsThanASetHasAreCorrupt) {
  Hello hello = some_hello();
  hello.lost.clear();
  hello.cpus = {};
  wire::Writer writer;
  wire::write_fields(writer, hello);
  std::vector<std::byte> bytes = writer.take();
  // The last fields are the number of words and the number of lost ranks.
  bytes[bytes.size() - 5] = std::byte{17};
  bytes.resize(bytes.size() + 17 * 8);
  wire::Reader reader(bytes);
  EXPECT_FALSE(wire::read_fields<Hello>(reader).has_value());
}

}  // namespace
}  // namespace tally::group
