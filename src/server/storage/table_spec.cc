#include "server/storage/table_spec.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/check.h"
#include "plan/codec_spec.h"
#include "plan/plan.h"
#include "server/protocol/message.h"
#include "wire/fields.h"

namespace tally::server {
namespace {

constexpr std::uint8_t kSpecVersion = 3;
constexpr std::size_t kMaxTableNameBytes = 200;
constexpr std::size_t kMaxPlanBytes = 1000;
constexpr std::size_t kMaxOptimizerBytes = 1000;
constexpr std::size_t kMaxCodecBytes = 1000;
constexpr std::uint32_t kMaxDimension = 4096;
// Byte counts fit into 63 bits and part numbers into 32.
constexpr std::uint64_t kMaxCount = std::uint64_t{1} << 46;
constexpr std::uint32_t kPartsPerSlot = 4;

template <typename... Args>
Error invalid_spec(const TableSpec& spec, fmt::format_string<Args...> text, Args&&... args) {
  return invalid("table '{}': {}", spec.name, fmt::format(text, std::forward<Args>(args)...));
}

template <typename... Args>
Error corrupt_spec(fmt::format_string<Args...> text, Args&&... args) {
  return corrupt("description of a table: {}", fmt::format(text, std::forward<Args>(args)...));
}

std::size_t part_elements(const TableSpec& spec) { return kPartBytes / size_of(spec.type); }

Result<void> check_dense(const TableSpec& spec) {
  if (spec.type != DataType::kFloat32 && spec.type != DataType::kFloat64)
    return invalid_spec(spec, "dense tables are of float32 or float64, not {}",
                        to_string(spec.type));
  if (spec.count < 1 || spec.count > kMaxCount)
    return invalid_spec(spec, "{} elements, must be 1 to {}", spec.count, kMaxCount);
  if (spec.dimension != 0 || spec.initial_scale != 0)
    return invalid_spec(spec, "a dense table has neither dimension nor initial_scale");
  return {};
}

Result<void> check_sparse(const TableSpec& spec) {
  if (spec.type != DataType::kFloat32)
    return invalid_spec(spec, "sparse tables are of float32, not {}", to_string(spec.type));
  if (spec.dimension < 1 || spec.dimension > kMaxDimension)
    return invalid_spec(spec, "rows of {} values, must be 1 to {}", spec.dimension, kMaxDimension);
  if (spec.count != 0)
    return invalid_spec(spec, "a sparse table has no count: rows come when touched");
  if (!std::isfinite(spec.initial_scale) || spec.initial_scale < 0)
    return invalid_spec(spec, "initial_scale is {}, must be a finite number from 0",
                        spec.initial_scale);
  return {};
}

Result<void> check_codec(const TableSpec& spec) {
  if (spec.codec.empty()) {
    if (spec.columns == 0 && spec.first_element == 0) return {};
    return invalid_spec(spec, "columns and first_element need a codec");
  }
  if (spec.kind != TableKind::kDense || spec.type != DataType::kFloat32)
    return invalid_spec(spec, "a codec needs a dense table of float32");
  if (spec.codec.size() > kMaxCodecBytes)
    return invalid_spec(spec, "a codec of {} bytes, limit {}", spec.codec.size(), kMaxCodecBytes);
  if (spec.first_element > kMaxCount)
    return invalid_spec(spec, "its first element is {}, must be 0 to {}", spec.first_element,
                        kMaxCount);
  const auto parsed = plan::parse_codec(spec.codec);
  if (!parsed.has_value()) return invalid_spec(spec, "{}", parsed.error().message);
  if (parsed->kind == plan::Codec::kNone || parsed->kind == plan::Codec::kAuto)
    return invalid_spec(spec, "codec {}: name a codec, the pushing worker decides between them",
                        spec.codec);
  return {};
}

// A spec with the texts of its optimizer and codec.
struct EncodedSpec {
  std::uint8_t version = kSpecVersion;
  TableSpec spec;
  std::string optimizer;
};

template <typename Fields>
void fields(Fields& f, wire::FieldsOf<Fields, EncodedSpec>& body) {
  auto& spec = body.spec;
  f.number(body.version);
  f.choice(spec.kind, TableKind::kSparse);
  f.choice(spec.type, static_cast<DataType>(kDataTypeCount - 1));
  f.number(spec.count);
  f.number(spec.dimension);
  f.number(spec.workers);
  f.number(spec.seed);
  f.real(spec.initial_scale);
  f.text(spec.name, kMaxTableNameBytes);
  f.text(body.optimizer, kMaxOptimizerBytes);
  f.text(spec.plan, kMaxPlanBytes);
  f.text(spec.codec, kMaxCodecBytes);
  f.number(spec.columns);
  f.number(spec.first_element);
  f.flag(spec.measured);
  f.real(spec.clip_value);
}

// The canonical text of the codec; check() judges a text that is no codec.
std::string codec_text(const TableSpec& spec) {
  const auto parsed = plan::parse_codec(spec.codec);
  return spec.codec.empty() || !parsed.has_value() ? spec.codec : plan::to_string(*parsed);
}

}  // namespace

Result<policy::Rules> rules_of(const TableSpec& spec) {
  TALLY_TRY(const plan::Plan plan, plan::parse_plan(spec.plan, {.home = plan::Home::kServer}));
  return policy::rules_of(plan, spec.workers, spec.seed);
}

Result<void> check(const TableSpec& spec) {
  if (spec.name.empty() || spec.name.size() > kMaxTableNameBytes)
    return invalid("a table's name has {} bytes, must have 1 to {}", spec.name.size(),
                   kMaxTableNameBytes);
  if (const auto sound = tally::check(spec.optimizer); !sound.has_value())
    return invalid_spec(spec, "{}", sound.error().message);
  if (spec.plan.size() > kMaxPlanBytes)
    return invalid_spec(spec, "a plan of {} bytes, limit {}", spec.plan.size(), kMaxPlanBytes);
  if (spec.workers < 1 || spec.workers > static_cast<int>(kMaxWorkers))
    return invalid_spec(spec, "{} workers, must be 1 to {}", spec.workers, kMaxWorkers);
  const bool is_limit = std::isfinite(spec.clip_value) && spec.clip_value >= 0;
  if (!is_limit || (spec.clip_value != 0 && !spec.measured))
    return invalid_spec(spec, "clip_value is {}, must be 0, or above 0 with `measured`",
                        spec.clip_value);
  TALLY_TRY(check_codec(spec));
  switch (spec.kind) {
    case TableKind::kDense:
      return check_dense(spec);
    case TableKind::kSparse:
      return check_sparse(spec);
  }
  return invalid_spec(spec, "neither dense nor sparse");
}

std::uint32_t parts_of(const TableSpec& spec, std::uint32_t slots) {
  if (spec.kind == TableKind::kSparse) return kPartsPerSlot * slots;
  const std::uint64_t each = part_elements(spec);
  return static_cast<std::uint32_t>((spec.count + each - 1) / each);
}

std::size_t elements_of(const TableSpec& spec, std::uint32_t part) {
  const std::uint64_t each = part_elements(spec);
  const std::uint64_t first = part * each;
  TALLY_CHECK(first < spec.count);
  return static_cast<std::size_t>(std::min(each, spec.count - first));
}

std::uint32_t part_of_key(std::uint64_t key, std::uint32_t parts) {
  return part_of_hash(hash_of_key(key), parts);
}

std::string name_of_part(const TableSpec& spec, std::uint32_t part) {
  return fmt::format("table '{}' part {}", spec.name, part);
}

std::vector<std::byte> encode(const TableSpec& spec) {
  EncodedSpec body{.spec = spec, .optimizer = to_string(spec.optimizer)};
  body.spec.codec = codec_text(spec);
  return wire::encode_fields(body);
}

Result<TableSpec> decode_spec(std::span<const std::byte> bytes) {
  if (!bytes.empty() && bytes[0] != std::byte{kSpecVersion})
    return corrupt("description of a table: of version {}, this is {}",
                   std::to_integer<int>(bytes[0]), kSpecVersion);
  TALLY_TRY(EncodedSpec body, wire::decode_fields<EncodedSpec>(bytes));
  TableSpec& spec = body.spec;
  const auto parsed = parse_optimizer(body.optimizer);
  if (!parsed.has_value()) return corrupt_spec("{}", parsed.error().message);
  spec.optimizer = *parsed;
  if (const auto sound = check(spec); !sound.has_value())
    return corrupt_spec("{}", sound.error().message);
  // One optimizer or codec has several texts; encode() writes the canonical one.
  const std::vector<std::byte> again = encode(spec);
  if (!std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()))
    return corrupt_spec("not in canonical form");
  return std::move(spec);
}

}  // namespace tally::server
