#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "server/snapshot/snapshot.h"

namespace tally::server {

inline constexpr const char* kSnapshotManifest = "manifest";
inline constexpr std::size_t kMaxSnapshotFiles = 4096;
inline constexpr std::size_t kMaxSnapshotManifestBytes = std::size_t{1} << 20;

// What a server's file begins with.
inline constexpr std::string_view kSnapshotMagic = "TLYSNAP1";
// What stands before each part, and after the last.
inline constexpr std::uint32_t kSnapshotPartMark = 0x54524150;
inline constexpr std::uint32_t kSnapshotEndMark = 0x21444E45;
// Of a part's description and of one of its pieces.
inline constexpr std::uint32_t kMaxSnapshotHeadBytes = 8192;
inline constexpr std::uint32_t kMaxSnapshotPieceBytes = std::uint32_t{64} << 20;

// server-3.tally
std::string snapshot_file_name(NodeId server);

// Text lines: the format, the checksum of all lines that follow, then name, bytes and checksum of
// each file.
std::string to_text(std::span<const SnapshotFile> files);
// kCorrupt unless to_text() can have written it.
Result<std::vector<SnapshotFile>> snapshot_files_from_text(std::string_view text);

}  // namespace tally::server
