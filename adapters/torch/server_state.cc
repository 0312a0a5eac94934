// Meetings of the workers of a ServerExchange, and its part in checkpoints.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "adapters/torch/row_snapshots.h"
#include "adapters/torch/server_exchange.h"
#include "base/clock.h"
#include "base/stopwatch.h"
#include "optimizer/update_rule.h"

namespace tally::adapter {
namespace {

// The time limit for workers to reach a meeting: the slowest may be in a long step.
constexpr auto kMeetingTimeout = std::chrono::minutes(10);
constexpr auto kServerStateTimeout = std::chrono::minutes(5);
// Gradients of one worker that servers have not answered, and the one that it computes: fewer than
// this.
constexpr std::uint64_t kMostUnderWay = 4;
constexpr auto kSnapshotTimeout = std::chrono::minutes(30);
// The limit of Client::agree().
constexpr std::size_t kMostValues = 65536;

Deadline server_state_deadline() { return Deadline::after(kServerStateTimeout); }

}  // namespace

void ServerExchange::place_views() {
  for (std::size_t i = 0; i < options_.parameters.size(); ++i) {
    at::Tensor parameter = options_.parameters[i].tensor;
    const at::Tensor& value = tables_.value(i);
    if (parameter.device().is_cpu() && parameter.scalar_type() == value.scalar_type())
      parameter.set_data(value);
  }
}

// Tables of an earlier training restart at version 0: rounds, warm-ups and random choices depend on
// the version.
void ServerExchange::assign_values() {
  for (const Table& table : tables_.tables())
    or_throw(client().set_version(table.id, 0, server_state_deadline()));
  if (has_embeddings())
    for (const server::TableId table : options_.embeddings->tables())
      or_throw(client().set_version(table, 0, server_state_deadline()));
  for (std::size_t i = 0; i < options_.parameters.size(); ++i)
    copy_into(tables_.value(i), options_.parameters[i].tensor.detach());
  for (const Table& table : tables_.tables())
    or_throw(client().wait(client().push(
        {.table = table.id, .first = 0, .count = table.parts}, {.kind = server::PushKind::kAssign},
        ServerTables::bytes_of(table, table.values, 0, table.parts))));
}

void ServerExchange::pull_first() {
  std::vector<server::Ticket> tickets;
  pull_all({}, tickets);
  await_rows({}, tickets);
  Reading reading;
  for (const server::Ticket ticket : tickets) reading.take(wait(ticket));
  read_own_state();
  me_ = policy::join(options_.rules, rank_, *reading.read);
  first_version_ = me_.version;
  first_clock_ = me_.clock;
  has_chosen_ = false;
  values_to_parameters();
}

void ServerExchange::values_to_parameters() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < options_.parameters.size(); ++i) {
    const at::Tensor& parameter = options_.parameters[i].tensor;
    if (parameter.data_ptr() != tables_.value(i).data_ptr()) parameter.copy_(tables_.value(i));
  }
}

std::vector<double> ServerExchange::sum(std::vector<double> values) {
  const Stopwatch watch(waited_);
  std::size_t begin = 0;
  do {
    const std::size_t count = std::min(kMostValues, values.size() - begin);
    const auto part = std::span(values).subspan(begin, count);
    const std::vector<double> sums =
        or_throw(client().agree(part, Deadline::after(kMeetingTimeout)));
    std::copy_n(sums.begin(), std::min(sums.size(), count), part.begin());
    begin += count;
  } while (begin < values.size());
  return values;
}

// asp: workers that compute when the last gradient of a step arrives would push too many. They
// therefore meet before that, when all gradients that may be under way still fit, and share the
// missing ones.
bool ServerExchange::is_due(std::uint64_t step) {
  if (!counts_gradients()) return steps() >= step;
  const std::uint64_t more = step - std::min(step, first_step_);
  const std::uint64_t version = first_version_ + more * static_cast<std::uint64_t>(ranks_);
  if (std::exchange(meeting_version_, version) != version) meeting_clock_.reset();
  if (meeting_clock_) return me_.clock >= *meeting_clock_;
  return known_version() + kMostUnderWay * static_cast<std::uint64_t>(ranks_) >= version;
}

// `present` has a positive value for each rank that is at this meeting.
void ServerExchange::share_missing_gradients(std::span<const double> present) {
  meeting_clock_.reset();
  const std::uint64_t version = client().newest_version(first_table());
  if (version >= meeting_version_) return;
  std::uint64_t workers = 0;
  std::uint64_t before = 0;  // with lower ranks
  for (std::size_t rank = 0; rank < present.size(); ++rank) {
    if (present[rank] <= 0) continue;
    ++workers;
    if (rank < static_cast<std::size_t>(rank_)) ++before;
  }
  const std::uint64_t missing = meeting_version_ - version;
  meeting_clock_ = me_.clock + missing / workers + (before < missing % workers ? 1 : 0);
}

std::vector<double> ServerExchange::meet(std::vector<double> values) {
  flush();
  // With kbatch a push may wait for more gradients than the workers at this meeting have pushed.
  if (options_.rules.update != plan::Update::kKbatch) settle_all();
  const std::size_t own = values.size();
  values.resize(own + static_cast<std::size_t>(ranks_));
  values[own + static_cast<std::size_t>(rank_)] = 1 + static_cast<double>(steps());
  values = sum(std::move(values));
  const std::vector<double> present(values.begin() + static_cast<std::ptrdiff_t>(own),
                                    values.end());
  const double farthest = *std::max_element(present.begin(), present.end()) - 1;
  met_step_ = std::max(met_step_, static_cast<std::uint64_t>(farthest));
  values.resize(own);
  refresh();
  if (counts_gradients()) share_missing_gradients(present);
  // No rank pushes before all ranks have the same values.
  sum({});
  return values;
}

// Broadcast by sums: the first rank contributes its numbers, the others zeros. float64 represents
// the values of all buffer types exactly, integers up to 2^53.
void ServerExchange::broadcast(const std::vector<NamedTensor>& tensors) {
  if (tensors.empty() || ranks_ == 1) return;
  std::vector<double> values;
  for (const NamedTensor& named : tensors) {
    const at::Tensor host = named.tensor.detach().to(at::kCPU, at::kDouble).contiguous();
    const auto* const data = host.data_ptr<double>();
    values.insert(values.end(), data, data + host.numel());
  }
  if (!is_first()) std::fill(values.begin(), values.end(), 0.0);
  values = sum(std::move(values));
  double* next = values.data();
  const at::NoGradGuard no_grad;
  for (const NamedTensor& named : tensors) {
    at::Tensor tensor = named.tensor;
    tensor.copy_(at::from_blob(next, tensor.sizes(), at::kDouble));
    next += tensor.numel();
  }
}

// The first rank in the job returns all states. No rank pushes meanwhile.
std::vector<exchange::SliceState> ServerExchange::states() {
  settle_all();
  sum({});
  std::vector<exchange::SliceState> states;
  saved_.clear();
  snapshot_.clear();
  gather_senders();
  read_backs();
  if (is_first()) {
    refresh();
    if (has_embeddings()) take_snapshot();
    const auto& tables = tables_.tables();
    std::vector<std::vector<at::Tensor>> arrays(tables.size());
    for (std::size_t t = 0; t < tables.size(); ++t) {
      const int count = optimizer::state_arrays(options_.optimizers[tables[t].group]);
      for (int array = 0; array < count; ++array) {
        const at::Tensor flat = at::empty_like(tables[t].values);
        or_throw(client().read_state({.table = tables[t].id, .first = 0, .count = tables[t].parts},
                                     array, adapter::bytes_of(flat), server_state_deadline()));
        arrays[t].push_back(flat);
      }
    }
    for (std::size_t p = 0; p < options_.infos.size(); ++p) {
      const ServerTables::Place& place = tables_.places()[p];
      const auto begin = static_cast<std::int64_t>(place.begin);
      const auto end = begin + static_cast<std::int64_t>(options_.infos[p].count());
      exchange::SliceState state{.parameter = p, .first = 0};
      const auto keep = [this](const at::Tensor& tensor) {
        saved_.push_back(tensor.contiguous());
        return adapter::bytes_of(saved_.back());
      };
      const at::Tensor master = tables[place.table].values.slice(0, begin, end);
      const at::ScalarType type = options_.parameters[p].tensor.scalar_type();
      state.values = keep(master.to(type, /*non_blocking=*/false, /*copy=*/true));
      for (const at::Tensor& array : arrays[place.table])
        state.state.push_back(keep(array.slice(0, begin, end).clone()));
      if (type == at::kHalf || type == at::kBFloat16) state.state.push_back(keep(master.clone()));
      states.push_back(std::move(state));
    }
  }
  sum({});
  return states;
}

// Saves the rows of embeddings beside the checkpoint: they may exceed the memory of one worker.
void ServerExchange::take_snapshot() {
  const auto now = static_cast<std::uint64_t>(SteadyClock().now().count());
  snapshot_ = or_throw(client().snapshot(row_snapshot_name(steps(), now),
                                         Deadline::after(kSnapshotTimeout)))
                  .string();
}

SavedCourse ServerExchange::course() const {
  SavedCourse course{.steps = steps(), .order = {}, .parameter_steps = {}, .snapshot = snapshot_};
  course.parameter_steps.assign(options_.infos.size(), me_.version);
  return course;
}

// All tables have one version, the workers' version. In a group, parameters without a gradient in
// some steps have fewer updates; on servers such gradients count as zero, so all parameters
// continue with the maximum.
std::uint64_t ServerExchange::updates_of(const SavedCourse& course) const {
  std::uint64_t most = course.steps;
  for (const std::uint64_t steps : course.parameter_steps) most = std::max(most, steps);
  return most;
}

void ServerExchange::restore(const checkpoint::Reader& reader, const SavedCourse& course) {
  if (!options_.rules.has_rounds()) settle_all();
  give_up();
  end_update();
  kept_.clear();
  // The answer shows that all earlier requests have arrived: none of them can reach the restored
  // values.
  tell_clock(0);
  sum({});
  if (has_embeddings() && course.snapshot.empty())
    refuse(
        ErrorCode::kMismatch,
        "the checkpoint has no snapshot of the rows on servers: it was not saved with home=server");
  if (is_first()) {
    if (has_embeddings())
      or_throw(client().restore(course.snapshot, Deadline::after(kSnapshotTimeout),
                                options_.embeddings->names()));
    for (std::size_t t = 0; t < tables_.tables().size(); ++t) {
      const Table& table = tables_.tables()[t];
      const OptimizerSpec& optimizer = options_.optimizers[table.group];
      const auto names = optimizer::state_names(optimizer);
      std::vector<at::Tensor> arrays(names.size());
      for (at::Tensor& array : arrays) array = at::zeros_like(table.values);
      for (const std::size_t p : table.parameters) {
        const exchange::ParameterInfo& info = options_.infos[p];
        const auto begin = static_cast<std::int64_t>(tables_.places()[p].begin);
        const auto end = begin + static_cast<std::int64_t>(info.count());
        if (state_names_of(info, optimizer).size() > names.size()) {
          or_throw(reader.read_state(info.name + "/master", 0,
                                     adapter::bytes_of(table.values.slice(0, begin, end))));
        } else {
          or_throw(reader.read(info.name, 0, adapter::bytes_of(table.values.slice(0, begin, end))));
        }
        for (std::size_t k = 0; k < names.size(); ++k)
          or_throw(reader.read_state(info.name + "/" + names[k], 0,
                                     adapter::bytes_of(arrays[k].slice(0, begin, end))));
      }
      const server::Client::PartRange range{.table = table.id, .first = 0, .count = table.parts};
      or_throw(client().wait(
          client().push(range, {.kind = server::PushKind::kAssign},
                        ServerTables::bytes_of(table, table.values, 0, table.parts))));
      for (std::size_t k = 0; k < arrays.size(); ++k)
        or_throw(client().write_state(range, static_cast<int>(k), adapter::bytes_of(arrays[k]),
                                      server_state_deadline()));
      or_throw(client().set_version(table.id, updates_of(course), server_state_deadline()));
    }
    restore_backs(reader);
  }
  or_throw(exchange::read_states(reader, options_.infos, own_codec_states(), sender()));
  sum({});
  pull_first();
  sum({});
  first_step_ = course.steps;
  met_step_ = 0;
  meeting_version_ = 0;
}

}  // namespace tally::adapter
