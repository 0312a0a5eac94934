#include "sim/server_load.h"

#include <algorithm>
#include <list>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "codec/codec.h"

namespace tally::sim {
namespace {

constexpr std::size_t kPartElements = server::kPartBytes / sizeof(float);
constexpr std::uint32_t kWideParts = 3;
constexpr std::uint64_t kSharedKey = 1'000'000'007;
constexpr std::size_t kWindow = 6;
constexpr int kAgreeEvery = 4;
constexpr TimePoint kLatestStart = std::chrono::milliseconds(600);

std::uint64_t key_of(std::size_t slot) { return slot * 0x9E3779B97F4A7C15ULL + 1; }

Error wrong(std::string message) {
  return {.code = ErrorCode::kMismatch, .message = std::move(message)};
}

}  // namespace

Load::Load(const LoadOptions& options) : options_(options) {}

std::uint64_t Load::count_of(std::size_t table) const {
  const std::uint64_t narrow = 2 * slots() + 1;
  return options_.wide && table == 0 ? (kWideParts - 1) * kPartElements + narrow : narrow;
}

std::size_t Load::begin_of_part(std::uint32_t part) const { return part * kPartElements; }

Result<std::vector<Load::Table>> Load::define(ServedWorker& me) const {
  std::vector<Table> tables;
  server::TableSpec spec{.plan = "update=asp:rate=full", .workers = options_.workers};
  for (std::size_t i = 0; i < sparse(); ++i) {
    spec.name = fmt::format("dense {}", i);
    spec.count = count_of(i);
    spec.codec = options_.codec;
    TALLY_TRY(const server::TableId id, me.define(spec));
    tables.push_back({.id = id, .parts = me.node().parts(id)});
  }
  spec.name = "sparse";
  spec.kind = server::TableKind::kSparse;
  spec.count = 0;
  spec.codec.clear();
  spec.dimension = 2;
  TALLY_TRY(const server::TableId id, me.define(spec));
  tables.push_back({.id = id, .parts = me.node().parts(id)});
  return tables;
}

Result<void> Load::submit(ServedWorker& me, const std::vector<Table>& tables, const Name& name,
                          bool reads_back, Open& open) const {
  const Table& table = tables[name.table];
  const float sign = options_.gradients ? -1.0F : 1.0F;
  const server::PushOptions facts{
      .kind = options_.gradients ? server::PushKind::kGradient : server::PushKind::kAdd,
      .clock = static_cast<std::uint64_t>(name.push) + 1,
      .rate = 1};
  open.name = name;
  open.sent = me.now();
  if (name.table == sparse()) {
    open.keys = {key_of(slot(name)), kSharedKey};
    open.values = {sign, 3 * sign, sign, 0};
    open.answer.resize(4);
    open.ticket =
        reads_back ? me.node().push_pull(table.id, facts, {}, open.keys, open.values, open.answer)
                   : me.node().push(table.id, facts, open.keys, open.values);
    return {};
  }
  open.values.assign(count_of(name.table), 0);
  for (std::uint32_t part = 0; part < table.parts; ++part) {
    float* at = open.values.data() + begin_of_part(part);
    at[2 * slot(name)] = sign;
    at[2 * slot(name) + 1] = 3 * sign;
    at[2 * slots()] = sign;
  }
  open.answer.resize(open.values.size());
  const server::Client::PartRange range{table.id, 0, table.parts};
  const auto bytes = std::as_bytes(std::span(open.values));
  if (!options_.codec.empty()) {
    submit_encoded(me, range, facts, reads_back, open);
    return {};
  }
  open.ticket = reads_back ? me.node().push_pull(range, facts, {}, bytes,
                                                 std::as_writable_bytes(std::span(open.answer)))
                           : me.node().push(range, facts, bytes);
  if (!reads_back) open.answer.clear();
  return {};
}

void Load::submit_encoded(ServedWorker& me, const server::Client::PartRange& range,
                          const server::PushOptions& facts, bool reads_back, Open& open) const {
  const auto codec = codec::make_codec(*plan::parse_codec(options_.codec));
  std::vector<std::span<const std::byte>> messages;
  for (std::uint32_t part = 0; part < range.count; ++part) {
    const auto rest = std::span<const float>(open.values).subspan(begin_of_part(part));
    const auto values = rest.first(std::min(rest.size(), kPartElements));
    std::vector<std::byte>& bytes = open.encoded.emplace_back(codec->max_bytes(values.size()));
    bytes.resize(codec->encode(values, {}, bytes));
  }
  for (const auto& bytes : open.encoded) messages.emplace_back(bytes);
  open.ticket = reads_back
                    ? me.node().push_pull_encoded(range, facts, {}, messages,
                                                  std::as_writable_bytes(std::span(open.answer)))
                    : me.node().push_encoded(range, facts, messages);
  if (!reads_back) open.answer.clear();
}

// An acknowledged push must be in the tables from now on.
Result<void> Load::finish(ServedWorker& me, Open& open) {
  TALLY_TRY(const server::Completion completion, me.wait(open.ticket));
  if (completion.dropped != 0)
    return wrong(fmt::format("push {} of worker {} was dropped", open.name.push, open.name.worker));
  acknowledged_[open.name] = {.sent = open.sent, .acknowledged = me.now()};
  if (open.name.table != sparse() && !open.answer.empty() &&
      open.answer[2 * slot(open.name)] != 1.0F)
    return wrong(fmt::format("push {} of worker {} to table {} did not read its own write",
                             open.name.push, open.name.worker, open.name.table));
  return {};
}

Result<void> Load::run(ServedWorker& me) {
  Rng rng(options_.seed * 131 + static_cast<std::uint64_t>(me.rank()));
  // Agreements are for those who are there from the beginning. One that dies before it is there is
  // not waited for long.
  TALLY_TRY(me.sleep_until(kLatestStart,
                           [&] { return me.node().membership().workers == options_.workers; }));
  TALLY_TRY(const std::vector<Table> tables, define(me));
  std::list<Open> open;
  for (int push = 0; push < options_.pushes; ++push) {
    for (std::size_t table = 0; table < tables.size(); ++table) {
      if (table == sparse() && push % 2 != 0) continue;
      const bool reads_back = rng.below(4) == 0 && table != sparse();
      TALLY_TRY(submit(me, tables, {me.rank(), push, table}, reads_back, open.emplace_back()));
    }
    while (open.size() > kWindow) {
      TALLY_TRY(finish(me, open.front()));
      open.pop_front();
    }
    if (push % kAgreeEvery == kAgreeEvery - 1) TALLY_TRY(agree(me, push));
    if (options_.pause > Duration::zero()) {
      const auto bound = 2 * static_cast<std::uint64_t>(options_.pause.count());
      TALLY_TRY(me.sleep(Duration(static_cast<Duration::rep>(rng.below(bound)))));
    }
  }
  for (; !open.empty(); open.pop_front()) TALLY_TRY(finish(me, open.front()));
  TALLY_TRY(agree(me, options_.pushes));
  return read_all(me, tables);
}

// All living workers have reached the same point.
Result<void> Load::agree(ServedWorker& me, int point) const {
  const double mine[] = {1, static_cast<double>(point)};
  TALLY_TRY(const std::vector<double> sum, me.agree(mine));
  const auto living = options_.workers - static_cast<int>(killed_.size());
  if (sum.size() != 2 || sum[0] < living || sum[0] > options_.workers || sum[1] != point * sum[0])
    return wrong(fmt::format("at point {} {} workers or more agreed on {}", point, living,
                             fmt::join(sum, ", ")));
  return {};
}

// A push is in the tables once and completely, or not at all if it was not acknowledged.
void Load::check_pair(const Name& name, float first, float second, double& present) const {
  const bool is_there = first == 1.0F && second == 3.0F;
  const bool is_not = first == 0.0F && second == 0.0F;
  EXPECT_TRUE(is_there || is_not) << "push " << name.push << " of worker " << name.worker
                                  << " to table " << name.table << " left " << first << " and "
                                  << second;
  const bool was_pushed = name.table != sparse() || name.push % 2 == 0;
  if (acknowledged_.count(name) > 0 || (was_pushed && killed_.count(name.worker) == 0)) {
    EXPECT_TRUE(is_there) << "push " << name.push << " of worker " << name.worker << " to table "
                          << name.table << " is lost";
  }
  if (is_there) ++present;
}

void Load::check_part(std::size_t table, std::span<const float> part) const {
  double present = 0;
  for (int worker = 0; worker < options_.workers; ++worker) {
    for (int push = 0; push < options_.pushes; ++push) {
      const Name name{worker, push, table};
      check_pair(name, part[2 * slot(name)], part[2 * slot(name) + 1], present);
    }
  }
  EXPECT_EQ(part[2 * slots()], present) << "the sum of table " << table;
}

Result<void> Load::read_all(ServedWorker& me, const std::vector<Table>& tables) {
  for (std::size_t i = 0; i < sparse(); ++i) {
    std::vector<float> values(count_of(i));
    TALLY_TRY(me.wait(me.node().pull({tables[i].id, 0, tables[i].parts}, {},
                                     std::as_writable_bytes(std::span(values)))));
    for (std::uint32_t part = 0; part < tables[i].parts; ++part)
      check_part(i, std::span(values).subspan(begin_of_part(part)));
  }
  std::vector<std::uint64_t> keys;
  for (std::size_t i = 0; i < slots(); ++i) keys.push_back(key_of(i));
  std::vector<float> rows(2 * keys.size());
  TALLY_TRY(me.wait(me.node().pull(tables[sparse()].id, {}, keys, rows)));
  double present = 0;
  for (int worker = 0; worker < options_.workers; ++worker) {
    for (int push = 0; push < options_.pushes; ++push) {
      const Name name{worker, push, sparse()};
      check_pair(name, rows[2 * slot(name)], rows[2 * slot(name) + 1], present);
    }
  }
  return {};
}

std::map<std::size_t, TimePoint> Load::first_acknowledged_after(TimePoint moment) const {
  std::map<std::size_t, TimePoint> first;
  for (const auto& [name, times] : acknowledged_) {
    if (times.sent < moment) continue;
    const auto [at, is_new] = first.try_emplace(name.table, times.acknowledged);
    if (!is_new) at->second = std::min(at->second, times.acknowledged);
  }
  return first;
}

}  // namespace tally::sim
