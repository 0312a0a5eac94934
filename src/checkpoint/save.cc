// One save. All ranks exchange messages with rank 0, which decides:
//
//   all ranks: claim()    which elements this rank has                     -> gather at rank 0
//   rank 0:    begin()    check the claims, create .step-N.part and the model file  -> agree
//   all ranks: write()    own pieces into the model file, own optimizer file        -> gather
//   rank 0:    finish()   write state.json and manifest.json, rename to step-N, remove old
//                         checkpoints                                      -> agree
//
// An error at any rank reaches rank 0 in a message, and agree() returns it on all ranks. Before the
// rename the folder has its temporary name, so readers never see an incomplete checkpoint.
#include "checkpoint/save.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/errors.h"
#include "base/file_io.h"
#include "base/log.h"
#include "checkpoint/folder.h"
#include "checkpoint/json.h"
#include "checkpoint/manifest.h"
#include "checkpoint/messages.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/state_file.h"
#include "kernel/crc32c/crc32c.h"

namespace tally::checkpoint {
namespace {

namespace fs = std::filesystem;

std::uint32_t checksum_of_text(const std::string& text) {
  return kernel::crc32c(std::as_bytes(std::span(text)));
}

Result<void> check_pieces(std::span<const TensorInfo> tensors, std::span<const Piece> pieces) {
  for (const Piece& piece : pieces) {
    if (piece.tensor >= tensors.size())
      return invalid(fmt::format("a piece of tensor number {}, and there are {}", piece.tensor,
                                 tensors.size()));
    const TensorInfo& tensor = tensors[piece.tensor];
    if (piece.bytes.size() % size_of(tensor.type) != 0)
      return invalid(fmt::format("tensor {}: a piece of {} bytes is not a whole number of elements",
                                 tensor.name, piece.bytes.size()));
  }
  return {};
}

// kInvalid if a tensor or a piece is invalid, a state is too long, or (at rank 0) `state` is no
// JSON object.
Result<void> check_content(const Content& content, Rank rank) {
  TALLY_TRY(check_tensors(content.tensors));
  TALLY_TRY(check_tensors(content.state_tensors));
  TALLY_TRY(check_pieces(content.tensors, content.model));
  TALLY_TRY(check_pieces(content.state_tensors, content.optimizer));
  if (content.rank_state.size() > kMaxStateBytes || content.state.size() > kMaxStateBytes)
    return invalid(fmt::format("a state of more than {} bytes", kMaxStateBytes));
  if (rank != 0) return {};
  const auto state = parse_json(content.state);
  if (!state || !state->is_object()) return invalid("the state is no JSON object");
  return {};
}

// The layout of the model file, equal on all ranks.
struct ModelFile {
  std::vector<Entry> entries;
  std::string header;

  std::uint64_t bytes() const {
    std::uint64_t end = 0;
    for (const Entry& entry : entries) end = std::max(end, entry.end);
    return header.size() + end;
  }
  std::uint64_t offset_of(const Range& range) const {
    const Entry& entry = entries[range.tensor];
    return header.size() + entry.begin + range.first * size_of(entry.tensor.type);
  }
};

Result<ModelFile> model_file(const Content& content) {
  ModelFile file{.entries = lay_out(content.tensors)};
  TALLY_TRY(file.header, encode_header(file.entries, "pt"));
  return file;
}

// One save on one rank.
class Saving final {
 public:
  Saving(Communicator& group, const WriterOptions& options, const Content& content)
      : group_(group),
        options_(options),
        content_(content),
        by_(Deadline::after(options.timeout)),
        part_(part_of(options.folder, content.step)) {}

  Result<void> run(bool* group_works) {
    *group_works = false;
    TALLY_TRY(const std::vector<Message> claims, gather(group_, encode(claim()), by_));
    const auto begun = agree(group_, leads() ? begin(claims) : Result<void>(), by_);
    // The error may be rank 0's decision or a failure of the communicator; ended() finds out which.
    if (!begun.has_value()) return ended(begun.error(), group_works);
    TALLY_TRY(const std::vector<Message> written, gather(group_, encode(write()), by_));
    const auto outcome = agree(group_, leads() ? finish(written) : Result<void>(), by_);
    if (!outcome.has_value()) return ended(outcome.error(), group_works);
    *group_works = true;
    return {};
  }

 private:
  bool leads() const { return group_.rank() == 0; }

  // Ends a failed save and returns its error. A communicator that has failed refuses the barrier,
  // too, so the barrier tells its failure from a decision of rank 0.
  Error ended(const Error& verdict, bool* group_works) {
    if (leads()) {
      std::error_code ignored;
      fs::remove_all(part_, ignored);
    }
    *group_works = group_.barrier({.by = by_}).has_value();
    return verdict;
  }

  Claim claim() {
    Claim claim{.sound = check_content(content_, group_.rank()), .step = content_.step};
    if (!claim.sound.has_value()) return claim;
    claim.tensors_crc32c = checksum_of(content_.tensors, content_.state_tensors);
    claim.model = ranges_of(content_.tensors, content_.model);
    claim.optimizer = ranges_of(content_.state_tensors, content_.optimizer);
    return claim;
  }

  // Rank 0: checks the claims of all ranks, and creates the folder and the model file.
  Result<void> begin(const std::vector<Message>& messages) {
    for (const Message& message : messages) {
      TALLY_TRY(Claim claim, decode_claim(message));
      claims_.push_back(std::move(claim));
    }
    TALLY_TRY(check_claims(content_.tensors, content_.state_tensors, claims_));
    TALLY_TRY(const ModelFile model, model_file(content_));
    TALLY_TRY(remove_leftovers(options_.folder));
    std::error_code error;
    fs::create_directory(part_, error);
    if (error) return of_rank(0, system_error(part_, "cannot be made", error.value()));
    const auto made = make_model_file(model);
    if (!made.has_value()) return of_rank(0, made.error());
    return {};
  }

  Result<void> make_model_file(const ModelFile& model) {
    TALLY_TRY(const File file, File::create(part_ / kModelFile));
    TALLY_TRY(file.write_at(0, std::as_bytes(std::span(model.header))));
    TALLY_TRY(file.resize(model.bytes()));
    return file.sync();
  }

  Written write() {
    Written written;
    written.done = write_files(&written);
    return written;
  }

  Result<void> write_files(Written* written) {
    if (content_.pending) TALLY_TRY(content_.pending->wait(by_));
    TALLY_TRY(write_model(written));
    const std::string name = optimizer_file(group_.rank(), group_.size());
    TALLY_TRY(const FileRecord file, write_optimizer(part_ / name, content_));
    written->optimizer_bytes = file.bytes;
    written->optimizer_crc32c = file.crc32c;
    return {};
  }

  Result<void> write_model(Written* written) {
    if (content_.model.empty()) return {};
    TALLY_TRY(const ModelFile model, model_file(content_));
    TALLY_TRY(const File file, File::open_to_write(part_ / kModelFile));
    const std::vector<Range> ranges = ranges_of(content_.tensors, content_.model);
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      const auto bytes = content_.model[i].bytes;
      written->model_crc32c.push_back(kernel::crc32c(bytes));
      TALLY_TRY(file.write_at(model.offset_of(ranges[i]), bytes));
    }
    return file.sync();
  }

  // Rank 0, after all ranks have written: completes the folder and gives it its final name.
  Result<void> finish(const std::vector<Message>& messages) {
    TALLY_TRY(const std::vector<Written> all, decode_written(messages));
    TALLY_TRY(const Manifest manifest, manifest_for(all));
    const auto named = name_it(manifest);
    if (!named.has_value()) return of_rank(0, named.error());
    // The checkpoint is complete. A failure to remove old ones is only a warning.
    const auto retention =
        decide_retention(list_steps(options_.folder), content_.step, options_.keep);
    auto kept = retain(options_.folder, retention);
    if (kept.has_value()) kept = remove_leftovers(options_.folder);
    if (!kept.has_value()) log_warning("old checkpoints: " + kept.error().message);
    return {};
  }

  Result<void> name_it(const Manifest& manifest) {
    TALLY_TRY(write_text(part_ / kStateFile, content_.state));
    TALLY_TRY(write_text(part_ / kManifestFile, to_text(manifest)));
    TALLY_TRY(sync_folder(part_));
    return publish(options_.folder, content_.step);
  }

  Result<Manifest> manifest_for(const std::vector<Written>& all) {
    Manifest manifest{.step = content_.step,
                      .ranks = group_.size(),
                      .tensors = content_.tensors,
                      .state_tensors = content_.state_tensors};
    TALLY_TRY(const FileRecord model, model_record(all));
    manifest.files.push_back(model);
    manifest.files.push_back({.name = kStateFile,
                              .bytes = content_.state.size(),
                              .crc32c = checksum_of_text(content_.state)});
    for (std::size_t rank = 0; rank < all.size(); ++rank)
      manifest.files.push_back({.name = optimizer_file(static_cast<Rank>(rank), group_.size()),
                                .bytes = all[rank].optimizer_bytes,
                                .crc32c = all[rank].optimizer_crc32c});
    return manifest;
  }

  // Combines the checksums of the pieces to that of the model file: the pieces fill the file after
  // the header without gaps.
  Result<FileRecord> model_record(const std::vector<Written>& all) {
    struct Part {
      std::uint64_t offset, bytes;
      std::uint32_t crc32c;
    };
    TALLY_TRY(const ModelFile model, model_file(content_));
    std::vector<Part> parts;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      const std::vector<Range>& ranges = claims_[rank].model;
      if (all[rank].model_crc32c.size() != ranges.size())
        return of_rank(static_cast<Rank>(rank),
                       {.code = ErrorCode::kCorrupt,
                        .message = fmt::format("{} checksums of {} pieces",
                                               all[rank].model_crc32c.size(), ranges.size())});
      for (std::size_t i = 0; i < ranges.size(); ++i)
        parts.push_back(
            {.offset = model.offset_of(ranges[i]),
             .bytes = ranges[i].count * size_of(content_.tensors[ranges[i].tensor].type),
             .crc32c = all[rank].model_crc32c[i]});
    }
    std::sort(parts.begin(), parts.end(),
              [](const Part& a, const Part& b) { return a.offset < b.offset; });
    std::uint32_t crc32c = checksum_of_text(model.header);
    for (const Part& part : parts) crc32c = kernel::crc32c_combine(crc32c, part.crc32c, part.bytes);
    return FileRecord{.name = kModelFile, .bytes = model.bytes(), .crc32c = crc32c};
  }

  Communicator& group_;
  const WriterOptions& options_;
  const Content& content_;
  const Deadline by_;
  const fs::path part_;
  std::vector<Claim> claims_;  // rank 0 only
};

}  // namespace

Result<void> save_together(Communicator& group, const WriterOptions& options,
                           const Content& content, bool* group_works) {
  return Saving(group, options, content).run(group_works);
}

}  // namespace tally::checkpoint
