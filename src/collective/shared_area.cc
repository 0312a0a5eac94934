#include "collective/shared_area.h"

namespace tally::collective {
namespace {

constexpr std::size_t kDataBytes =
    2 * SharedArea::kStages * SharedArea::kStageBytes + 2 * SharedArea::kSlotBytes;

std::size_t page_rounded(std::size_t bytes) { return (bytes + 4095) / 4096 * 4096; }

std::uint64_t low_word(const wire::Signature& s) {
  return std::uint64_t{s.operation} | std::uint64_t{s.type} << 8 |
         std::uint64_t{s.reduce_op} << 16 | std::uint64_t{s.algorithm} << 24 |
         static_cast<std::uint64_t>(static_cast<std::uint32_t>(s.root)) << 32;
}

wire::Signature signature_from(std::uint64_t count, std::uint64_t word) {
  return {.count = count,
          .operation = static_cast<std::uint8_t>(word),
          .type = static_cast<std::uint8_t>(word >> 8),
          .reduce_op = static_cast<std::uint8_t>(word >> 16),
          .algorithm = static_cast<std::uint8_t>(word >> 24),
          .root = static_cast<std::int32_t>(word >> 32)};
}

}  // namespace

// There is one line more than members: the last counts the members that have left.
std::size_t SharedArea::lines_bytes(int members) {
  return page_rounded((static_cast<std::size_t>(members) + 1) * sizeof(Line));
}

std::size_t SharedArea::bytes_for(int members) {
  return lines_bytes(members) + static_cast<std::size_t>(members) * kDataBytes;
}

SharedArea::SharedArea(std::shared_ptr<net::Segment> segment, std::byte* memory,
                       std::vector<Member> members, int self)
    : segment_(std::move(segment)),
      lines_(reinterpret_cast<Line*>(memory)),
      data_(memory + lines_bytes(static_cast<int>(members.size()))),
      members_(std::move(members)),
      self_(self) {
  inputs_.resize(members_.size());
  outputs_.resize(members_.size());
  for (int member = 0; member < this->members(); ++member) {
    slots_[0].push_back(slot(member, 0));
    slots_[1].push_back(slot(member, 1));
  }
}

void SharedArea::leave() { lines_[members()].arrived.fetch_add(1, std::memory_order_acq_rel); }

bool SharedArea::abandoned(const std::byte* memory, int members) {
  const auto* lines = reinterpret_cast<const Line*>(memory);
  return lines[members].arrived.load(std::memory_order_acquire) ==
         static_cast<std::uint32_t>(members);
}

void SharedArea::announce(const Notice& notice) {
  AtomicNotice& mine = line(self_).notices[notice.sequence % 4];
  const std::array<std::uint64_t, 6> words = {notice.signature.count,
                                              low_word(notice.signature),
                                              static_cast<std::uint64_t>(notice.input.kind),
                                              notice.input.name,
                                              static_cast<std::uint64_t>(notice.output.kind),
                                              notice.output.name};
  // Sequences are stored plus one, since zero means none.
  mine.sequence.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  for (std::size_t i = 0; i < words.size(); ++i)
    mine.words[i].store(words[i], std::memory_order_relaxed);
  mine.sequence.store(notice.sequence + 1, std::memory_order_release);
}

std::optional<Notice> SharedArea::notice(int member, std::uint32_t sequence) const {
  const AtomicNotice& theirs = line(member).notices[sequence % 4];
  if (theirs.sequence.load(std::memory_order_acquire) != sequence + 1) return std::nullopt;
  std::array<std::uint64_t, 6> words;
  for (std::size_t i = 0; i < words.size(); ++i)
    words[i] = theirs.words[i].load(std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_acquire);
  if (theirs.sequence.load(std::memory_order_relaxed) != sequence + 1) return std::nullopt;
  return Notice{.sequence = sequence,
                .signature = signature_from(words[0], words[1]),
                .input = {static_cast<Place::Kind>(words[2]), words[3]},
                .output = {static_cast<Place::Kind>(words[4]), words[5]}};
}

void SharedArea::publish(std::atomic<std::uint32_t>& counter, std::uint32_t count) {
  counter.store(count, std::memory_order_release);
  segment_->notify_others(members_[static_cast<std::size_t>(self_)].in_host);
}

std::byte* SharedArea::data_of(int member) const {
  return data_ + static_cast<std::size_t>(member) * kDataBytes;
}

std::byte* SharedArea::input_stage(int member, std::size_t piece) const {
  return data_of(member) + (piece % kStages) * kStageBytes;
}

std::byte* SharedArea::result_stage(int member, std::size_t piece) const {
  return data_of(member) + (kStages + piece % kStages) * kStageBytes;
}

std::byte* SharedArea::slot(int member, std::uint32_t turn) const {
  return data_of(member) + 2 * kStages * kStageBytes + (turn % 2) * kSlotBytes;
}

}  // namespace tally::collective
