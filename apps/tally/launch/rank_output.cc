#include "apps/tally/launch/rank_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "base/errors.h"

namespace tally::launch {
namespace {

// A line that has not ended by then is shown as far as it has come.
constexpr auto kLineTime = std::chrono::milliseconds(300);

}  // namespace

RankOutput::RankOutput(const LaunchOptions& options, JobConsole& console)
    : console_(console),
      quiet_(options.quiet_ranks),
      ranks_(static_cast<std::size_t>(options.size())) {
  for (const HostRanks& place : options.places)
    for (Rank rank = place.first; rank < place.first + place.count; ++rank)
      for (const Stream stream : {Stream::kOutput, Stream::kErrors})
        if (options.prefixes)
          of(rank).prefixes[static_cast<std::size_t>(stream)] =
              prefix_of(rank, options.several_hosts() ? place.host : "", console.coloured(stream));
}

Result<std::unique_ptr<RankOutput>> RankOutput::open(const LaunchOptions& options,
                                                     JobConsole& console) {
  std::unique_ptr<RankOutput> output(new RankOutput(options, console));
  if (options.log_folder.empty()) return output;
  std::error_code failed;
  std::filesystem::create_directories(options.log_folder, failed);
  if (failed) return system_failure("cannot make {}: {}", options.log_folder, failed.message());
  for (Rank rank = 0; rank < options.size(); ++rank) {
    const std::string path = fmt::format("{}/rank-{}.log", options.log_folder, rank);
    Descriptor& log = output->of(rank).log;
    log =
        Descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666));
    if (!log.open()) return system_failure("cannot write {}: {}", path, strerror(errno));
  }
  return output;
}

void RankOutput::begin() {
  for (RankStreams& streams : ranks_) streams.tail.clear();
}

void RankOutput::add(const Output& output) {
  RankStreams& streams = of(output.rank);
  std::string_view rest = output.bytes;
  while (streams.log.open() && !rest.empty()) {
    const ssize_t written = ::write(streams.log.descriptor(), rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      // A full disk does not end a job; it is reported once.
      if (!log_failed_)
        console_.say(fmt::format("cannot write the log of rank {}: {}; logs end here", output.rank,
                                 strerror(errno)));
      log_failed_ = true;
      streams.log.reset();
      break;
    }
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  LineSplitter& lines = streams.lines[static_cast<std::size_t>(output.stream)];
  lines.add(output.bytes, [&](std::string_view piece) { take(output.rank, output.stream, piece); });
  if (lines.holds() && console_.watched(output.stream))
    begun_ = earlier(begun_, Deadline::after(kLineTime));
}

void RankOutput::show_begun() {
  begun_ = Deadline::never();
  for (Rank rank = 0; rank < static_cast<Rank>(ranks_.size()); ++rank)
    for (const Stream stream : {Stream::kOutput, Stream::kErrors})
      if (console_.watched(stream))
        of(rank).lines[static_cast<std::size_t>(stream)].release(
            [&](std::string_view piece) { take(rank, stream, piece); });
}

void RankOutput::take(Rank rank, Stream stream, std::string_view piece) {
  of(rank).tail.add(piece);
  if (!shown(rank) || hidden_) return;
  console_.show(stream, rank, of(rank).prefixes[static_cast<std::size_t>(stream)], piece);
}

void RankOutput::finish(Rank rank) {
  for (const Stream stream : {Stream::kOutput, Stream::kErrors}) {
    of(rank).lines[static_cast<std::size_t>(stream)].release(
        [&](std::string_view piece) { take(rank, stream, piece); });
    if (shown(rank)) console_.show(stream, rank, "", "");
  }
}

std::vector<std::string> RankOutput::last_lines(Rank rank, std::size_t count) const {
  return ranks_[static_cast<std::size_t>(rank)].tail.last(count);
}

}  // namespace tally::launch
