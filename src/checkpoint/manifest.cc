#include "checkpoint/manifest.h"

#include <fmt/format.h>

#include <charconv>

#include "base/errors.h"
#include "checkpoint/json.h"
#include "checkpoint/layout.h"
#include "kernel/crc32c/crc32c.h"

namespace tally::checkpoint {
namespace {

using nlohmann::json;

constexpr std::string_view kFormat = "tally checkpoint 1";

std::uint32_t checksum_of(std::string_view text) {
  return kernel::crc32c(std::as_bytes(std::span(text)));
}

std::string first_line(std::uint32_t crc32c) {
  return fmt::format("{{\"manifest_crc32c\":\"{}\",\n", checksum_text(crc32c));
}

std::string list_text(const std::vector<TensorInfo>& tensors) {
  std::string text;
  for (const TensorInfo& tensor : tensors)
    text += fmt::format("{}\n  {{\"name\":{},{}}}", text.empty() ? "" : ",",
                        json_quoted(tensor.name), fields_of(tensor));
  return text;
}

Result<std::vector<TensorInfo>> list_from(const json& manifest, const char* key) {
  const json* const list = member(manifest, key);
  if (list == nullptr || !list->is_array()) return corrupt(fmt::format("no list of {}", key));
  std::vector<TensorInfo> tensors;
  for (const json& item : *list) {
    const auto name = text_of(member(item, "name"));
    if (!name) return corrupt(fmt::format("one of {} without a name", key));
    TALLY_TRY(TensorInfo tensor, tensor_from(*name, item));
    tensors.push_back(std::move(tensor));
  }
  if (const auto sound = check_tensors(tensors); !sound.has_value())
    return corrupt(sound.error().message);
  return tensors;
}

Result<FileRecord> file_from(const json& item) {
  const auto name = text_of(member(item, "name"));
  const auto bytes = whole_number(member(item, "bytes"));
  const auto checksum = text_of(member(item, "crc32c"));
  if (!name) return corrupt("a file without a name");
  if (!bytes || !checksum || checksum->size() != 8)
    return corrupt(fmt::format("no bytes and crc32c of {}", json_quoted(*name)));
  FileRecord file{.name = *name, .bytes = *bytes};
  const char* const end = checksum->data() + checksum->size();
  const auto parsed = std::from_chars(checksum->data(), end, file.crc32c, 16);
  if (parsed.ec != std::errc() || parsed.ptr != end || checksum_text(file.crc32c) != *checksum)
    return corrupt(fmt::format("no crc32c of {}", json_quoted(*name)));
  return file;
}

Result<std::vector<FileRecord>> files_from(const json& manifest) {
  const json* const list = member(manifest, "files");
  if (list == nullptr || !list->is_array()) return corrupt("no list of files");
  std::vector<FileRecord> files;
  for (const json& item : *list) {
    TALLY_TRY(FileRecord file, file_from(item));
    files.push_back(std::move(file));
  }
  return files;
}

Result<void> check_names(const std::vector<FileRecord>& files, int ranks) {
  std::vector<std::string> names{kModelFile, kStateFile};
  for (Rank rank = 0; rank < ranks; ++rank) names.push_back(optimizer_file(rank, ranks));
  if (files.size() != names.size())
    return corrupt(fmt::format("no list of the {} files of {} ranks", names.size(), ranks));
  for (std::size_t i = 0; i < names.size(); ++i)
    if (files[i].name != names[i])
      return corrupt(fmt::format("{} in the place of {}", json_quoted(files[i].name), names[i]));
  return {};
}

// The members that all manifests begin with, and then `more`.
std::string sealed(std::string_view format, std::span<const FileRecord> files,
                   std::string_view more) {
  std::string list;
  for (const FileRecord& file : files)
    list +=
        fmt::format("{}\n  {{\"name\":{},\"bytes\":{},\"crc32c\":\"{}\"}}", list.empty() ? "" : ",",
                    json_quoted(file.name), file.bytes, checksum_text(file.crc32c));
  const std::string rest =
      fmt::format("\"format\":\"{}\",\n{}\"files\":[{}]}}\n", format, more, list);
  return first_line(checksum_of(rest)) + rest;
}

// Checks first line and format.
Result<json> unsealed(std::string_view text, std::string_view format) {
  if (text.size() > kMaxManifestBytes)
    return corrupt(fmt::format("{} bytes, limit {}", text.size(), kMaxManifestBytes));
  const std::size_t start = first_line(0).size();
  if (text.size() <= start) return corrupt("too short");
  const std::uint32_t found = checksum_of(text.substr(start));
  if (const std::string expected = first_line(found); text.substr(0, start) != expected)
    return corrupt(fmt::format("the first line does not have the checksum of the rest, {}",
                               checksum_text(found)));
  auto manifest = parse_json(text);
  if (!manifest || !manifest->is_object()) return corrupt("no JSON object");
  if (text_of(member(*manifest, "format")) != std::string(format))
    return corrupt(fmt::format("not of the format \"{}\"", format));
  return *std::move(manifest);
}

}  // namespace

std::string optimizer_file(Rank rank, int ranks) {
  return fmt::format("optimizer-{:05}-of-{:05}.safetensors", rank, ranks);
}

std::string to_text(const Manifest& manifest) {
  return sealed(
      kFormat, manifest.files,
      fmt::format("\"step\":{},\n\"ranks\":{},\n\"tensors\":[{}],\n\"state_tensors\":[{}],\n",
                  manifest.step, manifest.ranks, list_text(manifest.tensors),
                  list_text(manifest.state_tensors)));
}

std::string file_list_text(std::string_view format, std::span<const FileRecord> files) {
  return sealed(format, files, "");
}

Result<std::vector<FileRecord>> file_list_from_text(std::string_view text,
                                                    std::string_view format) {
  TALLY_TRY(const json manifest, unsealed(text, format));
  return files_from(manifest);
}

Result<Manifest> manifest_from_text(std::string_view text) {
  TALLY_TRY(const json manifest, unsealed(text, kFormat));
  const auto step = whole_number(member(manifest, "step"));
  const auto ranks = whole_number(member(manifest, "ranks"));
  if (!step) return corrupt("no step");
  if (!ranks || *ranks < 1 || *ranks > kMaxRanks) return corrupt("no number of ranks");
  Manifest result{.step = *step, .ranks = static_cast<int>(*ranks)};
  TALLY_TRY(result.files, files_from(manifest));
  TALLY_TRY(check_names(result.files, result.ranks));
  TALLY_TRY(result.tensors, list_from(manifest, "tensors"));
  TALLY_TRY(result.state_tensors, list_from(manifest, "state_tensors"));
  return result;
}

std::string text_in_state(std::string_view state, const char* object, const char* name) {
  const auto whole = parse_json(state);
  const json* const inner = whole ? member(*whole, object) : nullptr;
  return inner == nullptr ? std::string() : text_of(member(*inner, name)).value_or("");
}

}  // namespace tally::checkpoint
