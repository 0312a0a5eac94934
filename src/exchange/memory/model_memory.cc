#include "exchange/memory/model_memory.h"

#include <algorithm>

#include "base/check.h"

// The state of a rank is one buffer: for each generation, for each bucket, its arrays. Every array
// begins at a cache line.
namespace tally::exchange {
namespace {

std::size_t in_lines(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

std::size_t array_bytes(const StateArrays& need) {
  return in_lines(need.count * need.element_bytes);
}

std::size_t generation_bytes(const std::vector<StateArrays>& needs) {
  std::size_t bytes = 0;
  for (const StateArrays& need : needs) bytes += need.arrays * array_bytes(need);
  return bytes;
}

}  // namespace

Result<std::unique_ptr<ModelMemory>> ModelMemory::make(MemoryFactory& factory, int local,
                                                       Layout layout, int generations,
                                                       Deadline by) {
  TALLY_CHECK(generations == 1 || generations == 2);
  const std::size_t bytes = in_lines(std::max<std::size_t>(layout.bytes, 1));
  const StepFlags::Counts counts{.buckets = layout.buckets.size(),
                                 .parameters = layout.place_of.size()};
  std::unique_ptr<ModelMemory> memory(new ModelMemory(std::move(layout), generations, local));
  memory->own_gradients_ = std::make_shared<std::vector<SharedBuffer>>(1);
  SharedBuffer& buckets = memory->own_gradients_->front();
  TALLY_TRY(buckets, factory.allocate(bytes));
  const std::size_t value_bytes = static_cast<std::size_t>(generations) * bytes;
  TALLY_TRY(memory->own_values_, factory.allocate(local == 0 ? value_bytes : 1));
  TALLY_TRY(memory->own_flags_, factory.allocate(StepFlags::bytes_for(counts)));
  TALLY_TRY(memory->gradients_, factory.share(buckets, by));
  TALLY_TRY(const auto values, factory.share(memory->own_values_, by));
  TALLY_TRY(const auto flags, factory.share(memory->own_flags_, by));
  for (const std::span<std::byte> view : flags) memory->flags_.emplace_back(view, counts);
  std::byte* const first = values.front().data();
  memory->values_ = {first, first + (value_bytes - bytes)};
  return memory;
}

// Buffers of one rank have the same distance in all processes of the host, which map the memory of
// the host as a whole.
void ModelMemory::put_gradient(std::size_t parameter, const std::byte* gradient) const {
  const auto address = [](const std::byte* memory) {
    return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(memory));
  };
  const std::int64_t place =
      gradient == nullptr ? StepFlags::kNoGradient
                          : address(gradient) - address(own_gradients_->front().bytes().data());
  flags(local_).set_place(parameter, place);
}

Result<std::span<std::byte>> ModelMemory::add_gradients(MemoryFactory& factory, std::size_t bytes) {
  TALLY_TRY(SharedBuffer more, factory.allocate(bytes));
  own_gradients_->push_back(std::move(more));
  return own_gradients_->back().bytes();
}

bool ModelMemory::has_gradients(std::span<const std::byte> memory) const {
  return std::any_of(own_gradients_->begin(), own_gradients_->end(), [&](const SharedBuffer& own) {
    const std::byte* const begin = own.bytes().data();
    return memory.data() >= begin && memory.data() + memory.size() <= begin + own.bytes().size();
  });
}

Result<void> ModelMemory::make_state(MemoryFactory& factory, Needs needs, Deadline by) {
  needs_ = std::move(needs);
  const std::size_t bytes = static_cast<std::size_t>(generations_) *
                            generation_bytes(needs_[static_cast<std::size_t>(local_)]);
  TALLY_TRY(own_state_, factory.allocate(std::max<std::size_t>(bytes, 1)));
  TALLY_TRY(states_, factory.share(own_state_, by));
  return {};
}

std::byte* ModelMemory::state(int neighbour, std::size_t bucket, std::size_t array,
                              int generation) const {
  const auto n = static_cast<std::size_t>(neighbour);
  const std::vector<StateArrays>& needs = needs_[n];
  std::size_t offset = static_cast<std::size_t>(generation) * generation_bytes(needs);
  for (std::size_t b = 0; b < bucket; ++b) offset += needs[b].arrays * array_bytes(needs[b]);
  return states_[n].data() + offset + array * array_bytes(needs[bucket]);
}

std::size_t ModelMemory::bytes() const {
  std::size_t bytes = own_state_.bytes().size();
  for (const SharedBuffer& gradients : *own_gradients_) bytes += gradients.bytes().size();
  if (local_ == 0) bytes += own_values_.bytes().size();
  return bytes;
}

// Keeps the memory that neighbours read unless all of them have left: a neighbour that was slow may
// still complete the last update, and reads the flags when it leaves.
ModelMemory::~ModelMemory() {
  if (flags_.empty() || is_left_) return;
  flags_[static_cast<std::size_t>(local_)].leave();
  const bool all_left = std::all_of(flags_.begin(), flags_.end(),
                                    [](const StepFlags& flags) { return flags.has_left(); });
  if (all_left) return;
  for (SharedBuffer& gradients : *own_gradients_) gradients.keep();
  own_values_.keep();
  own_flags_.keep();
  own_state_.keep();
}

}  // namespace tally::exchange
