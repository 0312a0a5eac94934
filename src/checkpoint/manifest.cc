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

Result<FileRecord> file_from(const json& item, const std::string& expected) {
  const auto name = text_of(member(item, "name"));
  const auto bytes = whole_number(member(item, "bytes"));
  const auto checksum = text_of(member(item, "crc32c"));
  if (!name || *name != expected || !bytes || !checksum || checksum->size() != 8)
    return corrupt(fmt::format("no name, bytes and crc32c of {}", expected));
  FileRecord file{.name = *name, .bytes = *bytes};
  const char* const end = checksum->data() + checksum->size();
  const auto parsed = std::from_chars(checksum->data(), end, file.crc32c, 16);
  if (parsed.ec != std::errc() || parsed.ptr != end || checksum_text(file.crc32c) != *checksum)
    return corrupt(fmt::format("no crc32c of {}", expected));
  return file;
}

Result<std::vector<FileRecord>> files_from(const json& manifest, int ranks) {
  std::vector<std::string> names{kModelFile, kStateFile};
  for (Rank rank = 0; rank < ranks; ++rank) names.push_back(optimizer_file(rank, ranks));
  const json* const list = member(manifest, "files");
  if (list == nullptr || !list->is_array() || list->size() != names.size())
    return corrupt(fmt::format("no list of the {} files of {} ranks", names.size(), ranks));
  std::vector<FileRecord> files;
  for (std::size_t i = 0; i < names.size(); ++i) {
    TALLY_TRY(FileRecord file, file_from((*list)[i], names[i]));
    files.push_back(std::move(file));
  }
  return files;
}

}  // namespace

std::string optimizer_file(Rank rank, int ranks) {
  return fmt::format("optimizer-{:05}-of-{:05}.safetensors", rank, ranks);
}

std::string checksum_text(std::uint32_t crc32c) { return fmt::format("{:08x}", crc32c); }

std::string to_text(const Manifest& manifest) {
  std::string files;
  for (const FileRecord& file : manifest.files)
    files += fmt::format("{}\n  {{\"name\":{},\"bytes\":{},\"crc32c\":\"{}\"}}",
                         files.empty() ? "" : ",", json_quoted(file.name), file.bytes,
                         checksum_text(file.crc32c));
  const std::string rest = fmt::format(
      "\"format\":\"{}\",\n\"step\":{},\n\"ranks\":{},\n\"files\":[{}],\n"
      "\"tensors\":[{}],\n\"state_tensors\":[{}]}}\n",
      kFormat, manifest.step, manifest.ranks, files, list_text(manifest.tensors),
      list_text(manifest.state_tensors));
  return first_line(checksum_of(rest)) + rest;
}

Result<Manifest> manifest_from_text(std::string_view text) {
  if (text.size() > kMaxManifestBytes)
    return corrupt(fmt::format("{} bytes, limit {}", text.size(), kMaxManifestBytes));
  const std::size_t start = first_line(0).size();
  if (text.size() <= start) return corrupt("too short");
  const std::uint32_t found = checksum_of(text.substr(start));
  if (const std::string expected = first_line(found); text.substr(0, start) != expected)
    return corrupt(fmt::format("the first line does not have the checksum of the rest, {}",
                               checksum_text(found)));
  const auto manifest = parse_json(text);
  if (!manifest || !manifest->is_object()) return corrupt("no JSON object");
  if (text_of(member(*manifest, "format")) != std::string(kFormat))
    return corrupt(fmt::format("not of the format \"{}\"", kFormat));
  const auto step = whole_number(member(*manifest, "step"));
  const auto ranks = whole_number(member(*manifest, "ranks"));
  if (!step) return corrupt("no step");
  if (!ranks || *ranks < 1 || *ranks > kMaxRanks) return corrupt("no number of ranks");
  Manifest result{.step = *step, .ranks = static_cast<int>(*ranks)};
  TALLY_TRY(result.files, files_from(*manifest, result.ranks));
  TALLY_TRY(result.tensors, list_from(*manifest, "tensors"));
  TALLY_TRY(result.state_tensors, list_from(*manifest, "state_tensors"));
  return result;
}

}  // namespace tally::checkpoint
