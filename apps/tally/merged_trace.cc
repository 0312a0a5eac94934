#include "apps/tally/merged_trace.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tally::app {
namespace {

double microseconds(Duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

TimePoint first_of(const std::vector<TracedOperation>& operations) {
  return operations.empty() ? TimePoint{} : operations.front().record.started;
}

TimePoint last_of(const std::vector<TracedOperation>& operations) {
  TimePoint last{};
  for (const TracedOperation& operation : operations)
    last = std::max({last, operation.record.started, operation.record.ended});
  return last;
}

bool runs(const OperationRecord& record) {
  return record.stage == OperationRecord::Stage::kRunning;
}

std::string text_of(const TracedOperation& operation) {
  return operation.phase.empty() ? tally::describe(operation.record) : operation.phase;
}

nlohmann::ordered_json arguments_of(const OperationRecord& record) {
  return {{"operation", tally::describe(record)},
          {"algorithm", std::string(to_string(record.algorithm))},
          {"sequence", record.sequence},
          {"outcome", runs(record)                                    ? "running"
                      : record.stage == OperationRecord::Stage::kDone ? "done"
                                                                      : "failed"}};
}

nlohmann::ordered_json named(const char* what, Rank rank, int thread, const std::string& name) {
  return {{"ph", "M"}, {"name", what}, {"pid", rank}, {"tid", thread}, {"args", {{"name", name}}}};
}

}  // namespace

std::vector<TracedOperation> merge(const std::vector<group::Trace>& traces) {
  std::vector<TracedOperation> merged;
  for (const group::Trace& trace : traces) {
    for (const auto& communicator : trace.communicators) {
      for (OperationRecord record : communicator.operations) {
        record.started += trace.clock_offset;
        if (!runs(record)) record.ended += trace.clock_offset;
        merged.push_back({trace.rank, communicator.name, record});
      }
    }
    for (const Phase& phase : trace.phases)
      merged.push_back({.rank = trace.rank,
                        .communicator = "training",
                        .record = {.stage = OperationRecord::Stage::kDone,
                                   .started = phase.started + trace.clock_offset,
                                   .ended = phase.ended + trace.clock_offset},
                        .phase = phase.name});
  }
  std::stable_sort(merged.begin(), merged.end(), [](const auto& a, const auto& b) {
    return std::pair(a.record.started, a.rank) < std::pair(b.record.started, b.rank);
  });
  return merged;
}

std::string trace_listing(const std::vector<TracedOperation>& operations, std::size_t most) {
  std::map<Rank, std::size_t> skip;
  for (const TracedOperation& operation : operations) ++skip[operation.rank];
  for (auto& [rank, count] : skip) count = count > most ? count - most : 0;
  std::string text = fmt::format("{:>12}  {:<5} {:<12} {:<44} {}\n", "seconds", "rank",
                                 "communicator", "operation", "took");
  const TimePoint begin = first_of(operations);
  for (const TracedOperation& operation : operations) {
    const OperationRecord& record = operation.record;
    if (std::size_t& left = skip[operation.rank]; left > 0) {
      --left;
      continue;
    }
    const double milliseconds = microseconds(record.ended - record.started) / 1e3;
    const std::string took =
        runs(record)
            ? "running"
            : fmt::format("{:.3f} ms{}", milliseconds,
                          record.stage == OperationRecord::Stage::kFailed ? ", failed" : "");
    text += fmt::format("{:>12.6f}  {:<5} {:<12} {:<44} {}\n",
                        microseconds(record.started - begin) / 1e6, operation.rank,
                        operation.communicator, text_of(operation), took);
  }
  return text;
}

nlohmann::ordered_json chrome_trace(const std::vector<TracedOperation>& operations) {
  const TimePoint begin = first_of(operations);
  const TimePoint end = last_of(operations);
  auto events = nlohmann::ordered_json::array();
  std::map<std::pair<Rank, std::string>, int> threads;
  std::map<Rank, int> thread_count;
  for (const TracedOperation& operation : operations) {
    const bool is_phase = !operation.phase.empty();
    // Phases overlap, as buckets do with the backward pass, and events of a thread must not.
    const std::string& thread = is_phase ? operation.phase : operation.communicator;
    const auto [found, is_new] =
        threads.emplace(std::pair(operation.rank, thread), thread_count[operation.rank]);
    if (is_new) {
      if (thread_count[operation.rank]++ == 0)
        events.push_back(
            named("process_name", operation.rank, 0, fmt::format("rank {}", operation.rank)));
      events.push_back(named("thread_name", operation.rank, found->second, thread));
    }
    const OperationRecord& record = operation.record;
    const TimePoint until = runs(record) ? end : record.ended;
    events.push_back(
        {{"ph", "X"},
         {"name", is_phase ? operation.phase : std::string(to_string(record.operation))},
         {"pid", operation.rank},
         {"tid", found->second},
         {"ts", microseconds(record.started - begin)},
         {"dur", std::max(0.0, microseconds(until - record.started))},
         {"args", is_phase ? nlohmann::ordered_json::object() : arguments_of(record)}});
  }
  return {{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}};
}

}  // namespace tally::app
