// Untrusted sparse rows: accepted rows have rising indices below the number of features.
#include <span>
#include <string_view>

#include "base/check.h"
#include "data/libsvm.h"
#include "fuzz_entry.h"

namespace {

std::vector<std::uint8_t> seed(std::string_view text) { return {text.begin(), text.end()}; }

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tally::data;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  looks_like_libsvm(text);
  const auto rows = parse_libsvm(std::as_bytes(std::span(data, size)), "rows");
  if (!rows.has_value()) {
    TALLY_CHECK(rows.error().code == tally::ErrorCode::kCorrupt);
    return 0;
  }
  TALLY_CHECK(rows->starts.size() == rows->labels.size() + 1);
  TALLY_CHECK(rows->starts.back() == rows->indices.size() &&
              rows->indices.size() == rows->values.size());
  for (std::size_t row = 0; row < rows->labels.size(); ++row)
    for (std::uint64_t i = rows->starts[row]; i < rows->starts[row + 1]; ++i) {
      TALLY_CHECK(rows->indices[i] < rows->features && rows->features <= kMaxLibsvmFeatures);
      TALLY_CHECK(i == rows->starts[row] || rows->indices[i] > rows->indices[i - 1]);
    }
  return 0;
}

std::vector<std::vector<std::uint8_t>> fuzz_seeds() {
  return {{},
          seed("+1 1:0.5 3:-2e3\n-1 2:1 # end\n\n3\n"),
          seed("1 4194304:1\n"),
          seed("1 4194305:1\n"),
          seed("2 1:1 1:1")};
}
