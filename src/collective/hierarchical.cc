#include "collective/hierarchical.h"

#include <functional>

#include "collective/algorithms.h"
#include "collective/choose.h"
#include "collective/direct.h"
#include "collective/message_task.h"
#include "collective/shared_area.h"

namespace tally::collective {
namespace {

// Runs tasks one after the other: each is made when the previous one is complete; a null task is
// skipped.
class ChainTask final : public Task {
 public:
  using Stage = std::function<std::unique_ptr<Task>()>;
  explicit ChainTask(std::vector<Stage> stages) : stages_(std::move(stages)) {}

  Result<Progress> advance() override {
    Progress progress = Progress::kBlocked;
    for (;;) {
      if (current_ == nullptr) {
        if (next_ == stages_.size()) return Progress::kComplete;
        current_ = stages_[next_++]();
        progress = Progress::kMoved;
        if (current_ == nullptr) continue;
      }
      TALLY_TRY(const Progress now, current_->advance());
      if (now != Progress::kComplete) return now == Progress::kMoved ? now : progress;
      current_ = nullptr;
    }
  }
  bool ready() const override { return current_ == nullptr || current_->ready(); }
  std::vector<Rank> awaited() const override {
    return current_ == nullptr ? std::vector<Rank>() : current_->awaited();
  }
  void cancel() override {
    next_ = stages_.size();
    if (current_ != nullptr) current_->cancel();
  }

 private:
  std::vector<Stage> stages_;
  std::size_t next_ = 0;
  std::unique_ptr<Task> current_;
};

}  // namespace

std::unique_ptr<Task> hierarchical_allreduce(SharedArea* area, Mailbox& mailbox,
                                             const Topology& topology, const Request& request,
                                             std::uint32_t sequence,
                                             const wire::Signature& signature,
                                             const RingSegments& segments, Traffic& traffic) {
  const std::vector<Part> slices = lane_parts(topology, request.count);  // by member of this host
  const std::size_t element = size_of(request.type);
  const auto* input = static_cast<const std::byte*>(request.input);
  auto* output = static_cast<std::byte*>(request.output);
  const Part own = slices[static_cast<std::size_t>(topology.local)];
  std::byte* const own_slice = output == nullptr ? nullptr : output + own.begin * element;

  const auto reduce_inside = [=, &mailbox]() -> std::unique_ptr<Task> {
    if (area == nullptr) return nullptr;
    const Notice notice{.sequence = 2 * sequence,
                        .signature = signature,
                        .input = place_of(area->segment(), input, request.count * element)};
    area->announce(notice);
    return std::make_unique<DirectTask>(*area, mailbox, notice,
                                        DirectPlan{.combine = true,
                                                   .type = request.type,
                                                   .op = request.reduce_op,
                                                   .input = input,
                                                   .own_slice = own_slice,
                                                   .slices = slices});
  };
  const auto reduce_across = [=, lane = topology.lane, host = topology.host, &mailbox,
                              &traffic]() -> std::unique_ptr<Task> {
    if (lane.empty()) return nullptr;
    const Vector slice{.count = own.size(), .element_bytes = element};
    const int size = static_cast<int>(lane.size());
    return std::make_unique<MessageTask>(
        mailbox,
        slice.bytes() <= kHalvingDoublingBytes
            ? halving_doubling_allreduce(slice, host, size)
            : segmented_ring_allreduce(slice, host, size, segments),
        MessageTask::Options{
            // A rank that is alone on its host has combined nothing yet: the sum starts with its
            // input.
            .input = area == nullptr ? input + own.begin * element : own_slice,
            .output = own_slice,
            .sequence = sequence,
            .signature = signature,
            .type = request.type,
            .op = request.reduce_op,
            .divisor = request.reduce_op == ReduceOp::kAverage ? mailbox.size() : 1,
            .group = lane},
        traffic);
  };
  const auto spread_inside = [=, &mailbox]() -> std::unique_ptr<Task> {
    if (area == nullptr) return nullptr;
    const Notice notice{.sequence = 2 * sequence + 1,
                        .signature = signature,
                        .input = place_of(area->segment(), own_slice, own.size() * element),
                        .output = place_of(area->segment(), output, request.count * element)};
    area->announce(notice);
    return std::make_unique<DirectTask>(*area, mailbox, notice,
                                        DirectPlan{.combine = false,
                                                   .type = request.type,
                                                   .input = own_slice,
                                                   .output = output,
                                                   .slices = slices});
  };
  return std::make_unique<ChainTask>(
      std::vector<ChainTask::Stage>{reduce_inside, reduce_across, spread_inside});
}

}  // namespace tally::collective
