// Untrusted tables: rows are split without a read beyond them; an accepted table has finite numbers
// and known labels, and an error names the file.
#include <cmath>
#include <cstring>
#include <span>
#include <string_view>

#include "base/check.h"
#include "data/csv.h"
#include "fuzz_entry.h"

namespace {

void check_samples(const tally::data::Dataset& table) {
  using namespace tally::data;
  const SampleShape& shape = table.shape();
  std::vector<std::byte> input(input_bytes(shape));
  std::vector<std::byte> target(target_bytes(shape));
  tally::Rng rng(1);
  for (std::uint64_t i = 0; i < table.size(); ++i) {
    TALLY_CHECK(table.read(i, rng, input, target).has_value());
    for (std::size_t at = 0; at < input.size(); at += sizeof(float)) {
      float value = 0;
      std::memcpy(&value, &input[at], sizeof value);
      TALLY_CHECK(!std::isnan(value));
    }
    if (shape.target_type != tally::DataType::kInt64) continue;
    std::int64_t label = 0;
    std::memcpy(&label, target.data(), sizeof label);
    TALLY_CHECK(label >= 0 && label < static_cast<std::int64_t>(table.classes().size()));
  }
}

std::vector<std::uint8_t> seed(std::string_view text) { return {text.begin(), text.end()}; }

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tally::data;
  const NamedBytes file{std::as_bytes(std::span(data, size)), "table"};
  for (const CsvTarget target : {CsvTarget::kAuto, CsvTarget::kClass}) {
    const auto table = make_csv(
        file, nullptr, {.split = {.validation = 0.2}, .target = target, .standardise = false});
    if (table.has_value()) {
      check_samples(**table);
    } else {
      TALLY_CHECK(table.error().message.rfind("table: ", 0) == 0);
    }
  }
  return 0;
}

std::vector<std::vector<std::uint8_t>> fuzz_seeds() {
  return {{},
          seed("a,b,y\n1,2,3\n4,,6\n7,NA,9\n"),
          seed("a;kind\r\n1;\"x;\"\"y\"\"\"\r\n2;z\r\n"),
          seed("1\t2\n3\t4"),
          seed("\xEF\xBB\xBFname,\n\"a\nb\",1\n"),
          seed("1e308,1\n-1e308,2\n1e39,3\n")};
}
