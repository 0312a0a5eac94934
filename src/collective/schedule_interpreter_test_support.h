#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "base/check.h"
#include "collective/schedule.h"
#include "tally/error.h"

namespace tally::collective {

// Runs the schedules of all ranks in memory, without transport, clock or threads, and reports their
// faults. For tests.

// The buffers of one rank. In place: `input` is empty and kInput means `output`.
template <typename T>
struct RankMemory {
  std::vector<T> input;
  std::vector<T> output;
  bool in_place = false;
};

// The rule of a single step: an arriving block overlaps no other block that is sent or arrives in
// the step. kInput and kOutput are the same memory when in place.
inline Result<void> check_step(std::span<const Action> step, bool in_place) {
  const auto arrives = [](const Action& action) {
    return action.kind == ActionKind::kReceive || action.kind == ActionKind::kCombine;
  };
  const auto memory = [&](const Block& block) {
    return in_place && block.buffer == Buffer::kInput ? Buffer::kOutput : block.buffer;
  };
  for (std::size_t i = 0; i < step.size(); ++i) {
    for (std::size_t j = 0; j < step.size(); ++j) {
      const Action& a = step[i];
      const Action& b = step[j];
      if (i == j || !arrives(a) || !(arrives(b) || b.kind == ActionKind::kSend)) continue;
      if (memory(a.block) != memory(b.block)) continue;
      if (a.block.offset_bytes < b.block.offset_bytes + b.block.bytes &&
          b.block.offset_bytes < a.block.offset_bytes + a.block.bytes) {
        return Error{.code = ErrorCode::kInvalid,
                     .message = fmt::format("actions {} and {} of a step overlap", i, j)};
      }
    }
  }
  return {};
}

// kInvalid: a block outside its buffer or overlapping another. kMismatch: a message sent twice, of
// another size than its receiver expects, or never received. kTimeout: no rank can go on.
template <typename T>
class Interpreter {
 public:
  using Combine = T (*)(T, T);

  Interpreter(std::span<const Schedule> schedules, std::span<RankMemory<T>> memory, Combine combine,
              bool average)
      : schedules_(schedules), memory_(memory), combine_(combine), average_(average) {
    TALLY_CHECK(schedules.size() == memory.size());
    for (const Schedule& schedule : schedules) {
      ranks_.push_back({.scratch = std::vector<T>(schedule.scratch_bytes() / sizeof(T))});
    }
  }

  Result<void> run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        TALLY_TRY(const bool advanced, advance(rank));
        moved = moved || advanced;
      }
    }
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (ranks_[rank].step < schedules_[rank].step_count()) {
        return Error{.code = ErrorCode::kTimeout,
                     .peer = static_cast<Rank>(rank),
                     .message = fmt::format("stuck in step {}", ranks_[rank].step)};
      }
    }
    if (!mail_.empty()) {
      return Error{.code = ErrorCode::kMismatch,
                   .message = fmt::format("{} messages were never received", mail_.size())};
    }
    return {};
  }

 private:
  struct RankState {
    std::vector<T> scratch;
    std::size_t step = 0;
    bool begun = false;
    std::vector<bool> done = {};  // of the actions of the current step
  };
  struct Envelope {
    Rank from = kNoRank;
    Rank to = kNoRank;
    std::uint32_t message = 0;
    auto operator<=>(const Envelope&) const = default;
  };

  // Advances `rank` as far as possible; false if it cannot advance.
  Result<bool> advance(std::size_t rank) {
    RankState& state = ranks_[rank];
    bool moved = false;
    while (state.step < schedules_[rank].step_count()) {
      const std::span<const Action> step = schedules_[rank].step(state.step);
      if (!state.begun) {
        TALLY_TRY(begin(rank, step));
        moved = true;
      }
      TALLY_TRY(const bool complete, collect(rank, step, moved));
      if (!complete) return moved;
      state.begun = false;
      ++state.step;
    }
    return moved;
  }

  Result<void> begin(std::size_t rank, std::span<const Action> step) {
    TALLY_TRY(check_step(step, memory_[rank].in_place));
    for (const Action& action : step) {
      TALLY_TRY(const std::span<T> block, elements(rank, action.block));
      if (action.kind == ActionKind::kCopy) {
        TALLY_TRY(const std::span<T> source, elements(rank, action.source));
        if (source.data() != block.data()) {
          std::copy(source.begin(), source.end(), block.begin());
        }
      } else if (action.kind == ActionKind::kDivide && average_) {
        for (T& value : block) value = static_cast<T>(value / static_cast<T>(ranks_.size()));
      }
    }
    for (const Action& action : step) {
      if (action.kind != ActionKind::kSend) continue;
      TALLY_TRY(const std::span<T> block, elements(rank, action.block));
      const Envelope envelope{static_cast<Rank>(rank), action.peer, action.message};
      if (!mail_.emplace(envelope, std::vector<T>(block.begin(), block.end())).second) {
        return mismatch(envelope, "is sent twice");
      }
    }
    ranks_[rank].begun = true;
    ranks_[rank].done.assign(step.size(), false);
    return {};
  }

  // Takes the messages that have arrived for the current step; true if the step is complete.
  Result<bool> collect(std::size_t rank, std::span<const Action> step, bool& moved) {
    bool complete = true;
    for (std::size_t i = 0; i < step.size(); ++i) {
      const Action& action = step[i];
      const bool combines = action.kind == ActionKind::kCombine;
      if ((!combines && action.kind != ActionKind::kReceive) || ranks_[rank].done[i]) continue;
      const Envelope envelope{action.peer, static_cast<Rank>(rank), action.message};
      const auto found = mail_.find(envelope);
      if (found == mail_.end()) {
        complete = false;
        continue;
      }
      TALLY_TRY(const std::span<T> block, elements(rank, action.block));
      if (found->second.size() != block.size()) return mismatch(envelope, "has another size");
      for (std::size_t k = 0; k < block.size(); ++k) {
        block[k] = combines ? combine_(block[k], found->second[k]) : found->second[k];
      }
      mail_.erase(found);
      ranks_[rank].done[i] = true;
      moved = true;
    }
    return complete;
  }

  Result<std::span<T>> elements(std::size_t rank, const Block& block) {
    RankMemory<T>& memory = memory_[rank];
    std::vector<T>& buffer = block.buffer == Buffer::kScratch ? ranks_[rank].scratch
                             : block.buffer == Buffer::kInput && !memory.in_place ? memory.input
                                                                                  : memory.output;
    if (block.offset_bytes % sizeof(T) != 0 || block.bytes % sizeof(T) != 0 ||
        block.offset_bytes + block.bytes > buffer.size() * sizeof(T)) {
      return Error{
          .code = ErrorCode::kInvalid,
          .peer = static_cast<Rank>(rank),
          .message = fmt::format("block [{}, +{}) in a buffer of {} bytes", block.offset_bytes,
                                 block.bytes, buffer.size() * sizeof(T))};
    }
    return std::span(buffer).subspan(block.offset_bytes / sizeof(T), block.bytes / sizeof(T));
  }

  static Error mismatch(const Envelope& envelope, std::string_view what) {
    return {.code = ErrorCode::kMismatch,
            .message = fmt::format("message {} from {} to {} {}", envelope.message, envelope.from,
                                   envelope.to, what)};
  }

  std::span<const Schedule> schedules_;
  std::span<RankMemory<T>> memory_;
  Combine combine_;
  bool average_;
  std::vector<RankState> ranks_;
  std::map<Envelope, std::vector<T>> mail_;
};

}  // namespace tally::collective
