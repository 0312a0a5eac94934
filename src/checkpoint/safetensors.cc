#include "checkpoint/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/errors.h"
#include "checkpoint/json.h"
#include "checkpoint/layout.h"

namespace tally::checkpoint {
namespace {

using nlohmann::json;

constexpr const char* kMetadata = "__metadata__";
// encode_header() pads the JSON with spaces, so that the tensor data is aligned in the file.
constexpr std::size_t kHeaderAlignment = 8;

Result<Entry> entry_from(const std::string& name, const json& object) {
  TALLY_TRY(TensorInfo tensor, tensor_from(name, object));
  const json* const offsets = member(object, "data_offsets");
  if (offsets == nullptr || !offsets->is_array() || offsets->size() != 2 || object.size() != 3)
    return corrupt(fmt::format("{}: not dtype, shape and two data_offsets", json_quoted(name)));
  const auto begin = whole_number(&(*offsets)[0]);
  const auto end = whole_number(&(*offsets)[1]);
  if (!begin || !end || *begin > *end)
    return corrupt(fmt::format("{}: data_offsets that are no range", json_quoted(name)));
  const auto count = element_count(tensor);
  if (!count.has_value()) return corrupt(count.error().message);
  const std::uint64_t bytes = *count * size_of(tensor.type);
  if (*end - *begin != bytes)
    return corrupt(fmt::format("{}: {} bytes, its shape and type have {}", json_quoted(name),
                               *end - *begin, bytes));
  return Entry{.tensor = std::move(tensor), .begin = *begin, .end = *end};
}

Result<void> check_metadata(const json& metadata) {
  const bool texts =
      metadata.is_object() && std::all_of(metadata.begin(), metadata.end(),
                                          [](const json& value) { return value.is_string(); });
  if (!texts) return corrupt("__metadata__ is not an object of strings");
  return {};
}

}  // namespace

Error corrupt_file(const std::filesystem::path& path, std::string_view message) {
  return corrupt(fmt::format("{}: {}", path.string(), message));
}

std::vector<Entry> lay_out(std::span<const TensorInfo> tensors) {
  std::vector<Entry> entries;
  for (const TensorInfo& tensor : tensors) entries.push_back({.tensor = tensor});
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return size_of(tensors[a].type) > size_of(tensors[b].type);
  });
  std::uint64_t end = 0;
  for (const std::size_t index : order) {
    entries[index].begin = end;
    end += tensor_bytes(tensors[index]);
    entries[index].end = end;
  }
  return entries;
}

Result<std::string> encode_header(std::span<const Entry> entries, std::string_view format) {
  std::string text(kHeaderLengthBytes, '\0');
  text += fmt::format(R"({{"{}":{{"format":{}}})", kMetadata, json_quoted(format));
  for (const Entry& entry : entries)
    text += fmt::format(R"(,{}:{{{},"data_offsets":[{},{}]}})", json_quoted(entry.tensor.name),
                        fields_of(entry.tensor), entry.begin, entry.end);
  text += "}";
  while (text.size() % kHeaderAlignment != 0) text += ' ';
  const std::uint64_t length = text.size() - kHeaderLengthBytes;
  if (length > kMaxHeaderBytes)
    return invalid(
        fmt::format("names and shapes take {} bytes, limit {}", length, kMaxHeaderBytes));
  for (std::size_t i = 0; i < kHeaderLengthBytes; ++i)
    text[i] = static_cast<char>(length >> (8 * i));
  return text;
}

Result<std::uint64_t> header_length(std::string_view first_bytes, std::uint64_t file_bytes) {
  if (first_bytes.size() < kHeaderLengthBytes || file_bytes < kHeaderLengthBytes)
    return corrupt(fmt::format("{} bytes are not a safetensors file", file_bytes));
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kHeaderLengthBytes; ++i)
    length |= std::uint64_t{static_cast<unsigned char>(first_bytes[i])} << (8 * i);
  if (length > kMaxHeaderBytes || length > file_bytes - kHeaderLengthBytes)
    return corrupt(fmt::format("a header of {} bytes in a file of {}: not a safetensors file",
                               length, file_bytes));
  return length;
}

Result<std::vector<Entry>> parse_header(std::string_view text, std::uint64_t data_bytes) {
  // The format forbids whitespace before the object, which parse_json() would accept.
  if (text.empty() || text.front() != '{') return corrupt("the header does not begin with {");
  const auto header = parse_json(text);
  if (!header || !header->is_object())
    return corrupt("the header is no JSON object, or has a name twice");
  std::vector<Entry> entries;
  for (auto item = header->begin(); item != header->end(); ++item) {
    if (item.key() == kMetadata) {
      TALLY_TRY(check_metadata(*item));
      continue;
    }
    TALLY_TRY(Entry entry, entry_from(item.key(), *item));
    entries.push_back(std::move(entry));
  }
  // An empty tensor comes before the tensor that begins at the same offset.
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  std::uint64_t end = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != end)
      return corrupt(fmt::format("{} begins at {}, what is before it ends at {}",
                                 json_quoted(entry.tensor.name), entry.begin, end));
    end = entry.end;
  }
  if (end != data_bytes)
    return corrupt(fmt::format("the tensors end at {}, the data at {}", end, data_bytes));
  return entries;
}

Result<OpenedHeader> read_header(const File& file, const std::filesystem::path& path) {
  TALLY_TRY(const std::uint64_t bytes, file.size());
  std::string first(std::min(bytes, kHeaderLengthBytes), '\0');
  TALLY_TRY(file.read_at(0, std::as_writable_bytes(std::span(first))));
  const auto length = header_length(first, bytes);
  if (!length.has_value()) return corrupt_file(path, length.error().message);
  std::string text(*length, '\0');
  TALLY_TRY(file.read_at(kHeaderLengthBytes, std::as_writable_bytes(std::span(text))));
  OpenedHeader header{.data_offset = kHeaderLengthBytes + *length};
  auto entries = parse_header(text, bytes - header.data_offset);
  if (!entries.has_value()) return corrupt_file(path, entries.error().message);
  header.entries = *std::move(entries);
  return header;
}

}  // namespace tally::checkpoint
