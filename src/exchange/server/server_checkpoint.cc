#include "exchange/server/server_checkpoint.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/errors.h"
#include "exchange/state_names.h"
#include "kernel/reduce/reduce.h"
#include "optimizer/update_rule.h"
#include "server/snapshot/row_snapshots.h"

namespace tally::exchange {
namespace {

constexpr Duration kSnapshotLimit = std::chrono::minutes(30);

}  // namespace

Result<std::vector<SliceState>> ServerCheckpoint::states() {
  TALLY_TRY(step_.settle());
  TALLY_TRY(worker_.barrier());
  saved_.clear();
  snapshot_.clear();
  TALLY_TRY(codecs_.gather());
  Result<std::vector<SliceState>> states = std::vector<SliceState>();
  if (worker_.is_first()) states = read_tables();
  TALLY_TRY(worker_.agree(states.has_value() ? Result<void>() : states.error()));
  return states;
}

Result<std::vector<SliceState>> ServerCheckpoint::read_tables() {
  TALLY_TRY(worker_.refresh());
  step_.renew();
  if (!worker_.tables().sparse().empty()) {
    const auto number = static_cast<std::uint64_t>(steady_now().count());
    TALLY_TRY(const auto folder,
              worker_.client().snapshot(server::row_snapshot_name(worker_.steps(), number),
                                        kSnapshotLimit));
    snapshot_ = folder.string();
  }
  std::vector<SliceState> states(worker_.tables().options().parameters.size());
  for (const ServerTables::Table& table : worker_.tables().all())
    TALLY_TRY(read_table(table, states));
  return states;
}

std::span<std::byte> ServerCheckpoint::keep(std::span<const std::byte> bytes) {
  return saved_.emplace_back(bytes.begin(), bytes.end());
}

Result<void> ServerCheckpoint::read_table(const ServerTables::Table& table,
                                          std::vector<SliceState>& states) {
  const std::span<std::byte> values = keep(table.values);
  std::vector<std::span<std::byte>> arrays;
  for (int k = 0; k < table.state_arrays; ++k) {
    saved_.emplace_back(table.values.size());
    arrays.emplace_back(saved_.back());
    TALLY_TRY(worker_.client().read_state(table.all(), k, arrays.back(), kTableLimit));
  }
  for (const std::size_t p : table.parameters) {
    const ParameterInfo& info = worker_.tables().options().parameters[p];
    SliceState& state = states[p];
    state.parameter = p;
    state.values = worker_.tables().bytes_of(p, values);
    for (const std::span<std::byte> array : arrays)
      state.state.push_back(worker_.tables().bytes_of(p, array));
    if (!has_master(info)) continue;
    state.state.push_back(state.values);
    const std::span<float> master = elements_of<float>(state.values);
    state.values = saved_.emplace_back(info.count() * size_of(info.type));
    kernel::kernels().narrow(info.type, master.data(), state.values.data(), info.count());
  }
  return {};
}

SavedCourse ServerCheckpoint::course() const {
  SavedCourse course{.steps = worker_.steps(), .snapshot = snapshot_};
  course.parameter_steps.assign(worker_.tables().options().parameters.size(),
                                worker_.clock().version);
  return course;
}

// All tables have one version, the workers' version. In a group, parameters without a gradient in
// some steps have fewer updates; on servers such gradients count as zero, so all parameters
// continue with the maximum.
std::uint64_t ServerCheckpoint::updates_of(const SavedCourse& course) const {
  std::uint64_t most = course.steps;
  for (const std::uint64_t steps : course.parameter_steps) most = std::max(most, steps);
  return most;
}

Result<void> ServerCheckpoint::restore(const checkpoint::Reader& reader,
                                       const SavedCourse& course) {
  if (!worker_.tables().sparse().empty() && course.snapshot.empty())
    return make_error(ErrorCode::kMismatch,
                      "the checkpoint has no snapshot of the rows on servers: it was not saved "
                      "with home=server");
  if (!worker_.rules().has_rounds()) TALLY_TRY(step_.settle());
  step_.give_up();
  // The answer shows that all earlier requests have arrived: none of them can reach the restored
  // values.
  TALLY_TRY(worker_.tell_clock(0));
  TALLY_TRY(worker_.barrier());
  Result<void> restored;
  if (worker_.is_first()) restored = restore_tables(reader, course);
  if (restored.has_value()) restored = codecs_.restore_own(reader);
  TALLY_TRY(worker_.agree(restored));
  TALLY_TRY(worker_.join(course.steps));
  return worker_.barrier();
}

Result<void> ServerCheckpoint::restore_tables(const checkpoint::Reader& reader,
                                              const SavedCourse& course) {
  if (!worker_.tables().sparse().empty())
    TALLY_TRY(
        worker_.client().restore(course.snapshot, kSnapshotLimit, worker_.tables().sparse_names()));
  for (const ServerTables::Table& table : worker_.tables().all())
    TALLY_TRY(restore_table(table, reader, updates_of(course)));
  return codecs_.restore_servers(reader);
}

Result<void> ServerCheckpoint::restore_table(const ServerTables::Table& table,
                                             const checkpoint::Reader& reader,
                                             std::uint64_t version) {
  const auto names = optimizer::state_names(worker_.tables().options().optimizers[table.group]);
  std::vector<std::vector<std::byte>> arrays(names.size());
  for (std::vector<std::byte>& array : arrays) array.resize(table.values.size());
  for (const std::size_t p : table.parameters) {
    const ParameterInfo& info = worker_.tables().options().parameters[p];
    const std::span<std::byte> values = worker_.tables().bytes_of(p, table.next);
    if (has_master(info)) {
      TALLY_TRY(reader.read_state(info.name + "/master", 0, values));
    } else {
      TALLY_TRY(reader.read(info.name, 0, values));
    }
    for (std::size_t k = 0; k < names.size(); ++k)
      TALLY_TRY(reader.read_state(info.name + "/" + names[k], 0,
                                  worker_.tables().bytes_of(p, arrays[k])));
  }
  ServerClient& client = worker_.client();
  TALLY_TRY(worker_.assign(table.all(), table.next));
  for (std::size_t k = 0; k < arrays.size(); ++k)
    TALLY_TRY(client.write_state(table.all(), static_cast<int>(k), arrays[k], kTableLimit));
  return client.set_version(table.id, version, kTableLimit);
}

}  // namespace tally::exchange
