#include "net/shm_transport.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <numeric>

#include "net/segment_share.h"
#include "net/socket.h"
#include "net/transport_conformance.h"

namespace tally::net {
namespace {

const SteadyClock kClock;
constexpr std::size_t kFrameBytes = Segment::Layout{}.ring_bytes / 4;

std::vector<std::unique_ptr<Transport>> transports_over(
    const std::vector<std::shared_ptr<Segment>>& segments) {
  const int size = static_cast<int>(segments.size());
  std::vector<Rank> ranks(segments.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  std::vector<std::unique_ptr<Transport>> transports;
  for (Rank rank = 0; rank < size; ++rank) {
    transports.push_back(std::make_unique<ShmTransport>(
        segments[static_cast<std::size_t>(rank)],
        ShmTransport::Options{
            .rank = rank, .size = size, .members = ranks, .generation = 3, .processes = {}},
        kClock));
  }
  return transports;
}

std::vector<std::unique_ptr<Transport>> in_process(int size) {
  auto segment = Segment::in_process({.members = size});
  return transports_over(std::vector(static_cast<std::size_t>(size), *segment));
}

// Each rank maps the segment separately, as processes do.
std::vector<std::unique_ptr<Transport>> shared_memory(int size) {
  const Segment::Layout layout{.members = size};
  std::vector<std::shared_ptr<Segment>> segments;
  segments.push_back(*Segment::create(layout));
  while (static_cast<int>(segments.size()) < size)
    segments.push_back(*Segment::open(Descriptor(dup(segments.front()->descriptor())), layout));
  return transports_over(segments);
}

const auto kShmFactories = testing::Values(
    TransportFactory{.name = "in_process", .make = in_process, .frame_bytes = kFrameBytes},
    TransportFactory{.name = "shm", .make = shared_memory, .frame_bytes = kFrameBytes});
INSTANTIATE_TEST_SUITE_P(Memory, TransportConformance, kShmFactories, factory_name);
INSTANTIATE_TEST_SUITE_P(Memory, RealTimeTransportConformance, kShmFactories, factory_name);

TEST(ShmTransport, FramesOfAnotherGenerationAreDroppedAndCounted) {
  const auto segment = *Segment::in_process({.members = 2});
  const auto transport = [&segment](Rank rank, std::uint32_t generation) {
    return std::make_unique<ShmTransport>(
        segment,
        ShmTransport::Options{
            .rank = rank, .size = 2, .members = {0, 1}, .generation = generation, .processes = {}},
        kClock);
  };
  const auto old = transport(0, 1);
  const auto now = transport(1, 2);
  Letter letter{.outgoing = {}, .bytes = pattern(10, 1)};
  letter.outgoing.payload = letter.bytes;
  old->post(1, letter.outgoing);
  Inbox inbox;
  while (now->progress(inbox)) {
  }
  EXPECT_EQ(inbox.count_from(0), 0U);
  EXPECT_EQ(now->counters().stale_frames, 1U);
}

TEST(ShmTransport, ARingThatLiesIsCorruptAndCounted) {
  const auto transports = in_process(2);
  auto segment = Segment::in_process({.members = 2});
  const auto pair = transports_over({*segment, *segment});
  // Rank 0 claims to have written a record that is longer than the ring.
  std::byte* const ring = (*segment)->ring(0, 1);
  const std::uint32_t length = 1U << 30;
  std::memcpy(ring + 256, &length, sizeof(length));
  reinterpret_cast<std::atomic<std::uint64_t>*>(ring)->store(128);
  Inbox inbox;
  pair[1]->progress(inbox);
  ASSERT_EQ(inbox.losses.size(), 1U);
  EXPECT_EQ(inbox.losses[0].why.code, ErrorCode::kCorrupt);
  EXPECT_EQ(pair[1]->counters().corrupt_frames, 1U);
}

TEST(Segment, NamesOnlyItsOwnMemory) {
  const auto segment = *Segment::create({.members = 2});
  auto memory = segment->allocate(1, 1000);
  ASSERT_TRUE(memory.has_value());
  const std::uint64_t name = segment->name_of(*memory, 1000);
  EXPECT_NE(name, 0U);
  EXPECT_EQ(segment->find(name, 1000), *memory);
  int elsewhere = 0;
  EXPECT_EQ(segment->name_of(&elsewhere, sizeof(elsewhere)), 0U);
  EXPECT_EQ(segment->find(name, ~std::size_t{0}), nullptr);
  EXPECT_EQ(segment->find(~std::uint64_t{0}, 1), nullptr);
}

TEST(Segment, MemoryThatWasReleasedComesBackZeroedUnlessReuseWasStopped) {
  const auto segment = *Segment::create({.members = 1});
  std::byte* const first = *segment->allocate(0, 5000);
  std::memset(first, 7, 5000);
  segment->release(first);
  std::byte* const second = *segment->allocate(0, 5000);
  EXPECT_EQ(second, first);
  EXPECT_EQ(second[4999], std::byte{0});
  segment->stop_reuse();
  segment->release(second);
  EXPECT_NE(*segment->allocate(0, 5000), second);
}

TEST(Segment, MoreThanTheArenaIsExhaustedNotACrash) {
  const auto segment = *Segment::create({.members = 1, .arena_bytes = std::size_t{1} << 20});
  const auto memory = segment->allocate(0, std::size_t{2} << 20);
  ASSERT_FALSE(memory.has_value());
  EXPECT_EQ(memory.error().code, ErrorCode::kExhausted);
}

TEST(SegmentShare, AnotherProcessGetsTheSegmentAndSeesItsMemory) {
  const Segment::Layout layout{.members = 2};
  const auto segment = *Segment::create(layout);
  std::byte* const memory = *segment->allocate(0, 100);
  const auto listener = *listen_locally(fmt::format("tally-test-{}", getpid()));
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) {
    auto given = take_segment(fmt::format("tally-test-{}", parent), {.rank = 0, .pid = parent},
                              Deadline::after(std::chrono::seconds(20)));
    if (!given.has_value()) _exit(1);
    auto theirs = Segment::open(std::move(given->memory), layout);
    if (!theirs.has_value()) _exit(2);
    std::byte* const same = (*theirs)->find(given->note, 100);
    if (same == nullptr) _exit(3);
    same[99] = std::byte{42};
    _exit(0);
  }
  const auto given =
      give_segment(listener, segment->descriptor(), segment->name_of(memory, 100),
                   {{.rank = 1, .pid = child}}, Deadline::after(std::chrono::seconds(20)));
  ASSERT_TRUE(given.has_value()) << to_string(given.error());
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(memory[99], std::byte{42});
}

TEST(SegmentShare, AProcessThatWasNotExpectedGetsNothing) {
  const auto segment = *Segment::create({.members = 2});
  const std::string name = fmt::format("tally-test-b-{}", getpid());
  const auto listener = *listen_locally(name);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) {
    const auto given =
        take_segment(name, {.rank = 0, .pid = parent}, Deadline::after(std::chrono::seconds(20)));
    _exit(given.has_value() ? 1 : 0);
  }
  const auto given =
      give_segment(listener, segment->descriptor(), 1, {{.rank = 1, .pid = child + 1}},
                   Deadline::after(std::chrono::milliseconds(500)));
  ASSERT_FALSE(given.has_value());
  EXPECT_EQ(given.error().code, ErrorCode::kTimeout);
  EXPECT_EQ(given.error().peer, 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(SegmentShare, AnEndedProcessIsNoticed) {
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  const auto process = watch_process({.rank = 4, .pid = child});
  ASSERT_TRUE(process.has_value());
  EXPECT_FALSE(wait_ready(process->descriptor(), Readiness::kRead, Deadline::after({})));
  kill(child, SIGKILL);
  EXPECT_TRUE(wait_ready(process->descriptor(), Readiness::kRead,
                         Deadline::after(std::chrono::seconds(20))));
  waitpid(child, nullptr, 0);
  const auto again = watch_process({.rank = 4, .pid = child});
  ASSERT_FALSE(again.has_value());
  EXPECT_EQ(again.error().peer, 4);
}

}  // namespace
}  // namespace tally::net
