#include "apps/tally/commands.h"

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "apps/tally/data_fetch.h"
#include "apps/tally/data_survey.h"
#include "apps/tally/read_words.h"
#include "base/errors.h"
#include "base/units.h"
#include "data/csv_survey.h"
#include "data/keyed_open.h"
#include "data/open.h"
#include "process/interrupt.h"
#include "process/progress.h"

namespace tally::app {
namespace {

constexpr const char* kDataFooter = R"(
Examples:
  tally data list
  tally data get fashion-mnist moby-dick
  tally data check fashion-mnist          every sample, with the checksums of the files
  tally data check photos/                class folders of JPEG or PNG images
  tally data check houses.csv --target price
  tally data check clicks.csv --keys --target clicked   as deepfm reads it

Options such as `tally train lenet --data` take these names, or paths. Fetched data is stored in
$XDG_CACHE_HOME/tally/datasets, by default ~/.cache/tally/datasets.

Exit codes: 0 the data is present and correct; 1 it is not, and the reason was printed; 2 wrong
usage; 130 interrupted.)";

struct CheckOptions {
  std::vector<std::string> paths;
  ReadWords read;
  bool keys = false;
};

// Opens a part as the training of a recipe on keys does, or of any other recipe.
Result<std::unique_ptr<data::Dataset>> open_part(const data::Location& location, bool keys,
                                                 const data::OpenOptions& options) {
  if (!keys) return data::open_location(location, options);
  TALLY_TRY(
      std::unique_ptr<data::Dataset> dataset,
      data::open_keyed(location,
                       {.validation = options.read.validation.value_or(data::kDefaultValidation),
                        .train = options.train,
                        .seed = options.seed},
                       options.read));
  return dataset;
}

int complain(const char* command, const Error& error) {
  return fail(fmt::format("tally data {}", command), error);
}

std::uint64_t size_of_files(const data::CatalogEntry& entry) {
  std::uint64_t bytes = 0;
  for (const data::CatalogFile& file : entry.files) bytes += file.bytes;
  return bytes;
}

int list_datasets() {
  const auto cache = data_cache_folder();
  fmt::print("{:<14} {:>8}  {:<5} {:<36} {}\n", "name", "size", "here", "licence", "description");
  for (const data::CatalogEntry& entry : data::catalog()) {
    fmt::print("{:<14} {:>8}  {:<5} {:<36} {}\n", entry.name, format_bytes(size_of_files(entry)),
               folder_of(entry, cache) ? "yes" : "no", entry.licence, entry.what);
  }
  fmt::print("\nstored in {}; `tally data get NAME` fetches missing datasets\n", cache.string());
  return 0;
}

int get_datasets(const std::vector<std::string>& names) {
  std::vector<const data::CatalogEntry*> entries;
  for (const std::string& name : names) {
    entries.push_back(data::find_in_catalog(name));
    if (entries.back() == nullptr) {
      const std::string guess = data::catalog_guess(name);
      return complain("get", invalid("no dataset {}{} `tally data list` has the names", name,
                                     guess.empty() ? ":" : guess));
    }
  }
  const process::InterruptGuard guard;
  for (const data::CatalogEntry* entry : entries) {
    process::Progress progress;
    const auto folder = fetch_dataset(*entry, data_cache_folder(), progress);
    progress.now("");
    if (!folder.has_value())
      return complain("get",
                      {.code = folder.error().code,
                       .message = fmt::format("{}: {}", entry->name, folder.error().message)});
    fmt::print("{} is in {}, {}, sha256 as published\n", entry->name, folder->string(),
               format_bytes(size_of_files(*entry)));
    std::fflush(stdout);  // before the messages about the next dataset
  }
  return 0;
}

// Reads and prints. An error after the summary is about the classes.
Result<void> read_dataset(const std::string& path, data::ReadOptions read, bool keys) {
  const auto cache = data_cache_folder();
  TALLY_TRY(const data::Location location, keys ? data::locate_keyed_parts(path, cache, read)
                                                : data::locate_parts(path, cache, read));
  std::string text = fmt::format("{}: {}\n", path, to_string(location.kind));
  if (location.known != nullptr) {
    const auto folder = folder_of(*location.known, cache);
    TALLY_TRY(verify_files(*location.known, folder.value_or(cache)));
    text += fmt::format("  {:<9} {}, {} file{}, sha256 as published\n", "from",
                        folder.value_or(cache).string(), location.known->files.size(),
                        location.known->files.size() == 1 ? "" : "s");
  }
  // Without a test part all samples are one part, unless a fraction was asked for.
  const bool whole = location.test.empty() && !read.validation;
  if (whole) read.validation = 0.0;
  std::vector<PartSurvey> parts;
  std::unique_ptr<data::Dataset> first;
  for (const bool train : {true, false}) {
    if (train ? location.train.empty() : whole) continue;
    TALLY_TRY(auto dataset, open_part(location, keys, {.train = train, .read = read}));
    if (first != nullptr) TALLY_TRY(data::check_parts(*first, *dataset));
    TALLY_TRY(parts.emplace_back(), survey(*dataset, whole ? "all" : train ? "training" : "test"));
    if (first == nullptr) first = std::move(dataset);
  }
  if (location.kind == data::Kind::kCsv && !keys && !location.train.empty()) {
    TALLY_TRY(const data::CsvFacts facts,
              data::survey_csv(location.train.front(),
                               {.target_column = read.target_column, .target = read.target}));
    text += data::describe(facts);
  }
  fmt::print("{}{}", text, describe(location.kind, parts));
  std::fflush(stdout);  // before a complaint
  auto classes = check_classes(location.kind, parts.front());
  if (!classes) classes.error().message.insert(0, path + ": ");
  return classes;
}

// Checks all datasets. The exit code is that of the last one that is not correct.
int check_datasets(const CheckOptions& options) {
  const auto read = read_options_of(options.read);
  if (!read) return complain("check", read.error());
  const process::InterruptGuard guard;
  int code = 0;
  for (const std::string& path : options.paths) {
    const auto outcome = read_dataset(path, *read, options.keys);
    if (!outcome) code = complain("check", outcome.error());
    if (process::interrupted() != 0) break;
  }
  return code;
}

}  // namespace

void add_data_command(Command top) {
  Command command = top.add_command("data", "List, fetch and check datasets");
  command.footer(kDataFooter);
  command.require_command();
  command.add_command("list", "Datasets that have a name").action([] { return list_datasets(); });

  Command get_command = command.add_command("get", "Fetch datasets into the cache folder");
  const auto names = std::make_shared<std::vector<std::string>>();
  get_command.add("NAME", names.get(), "Names of `tally data list`",
                  {.value = "...", .required = true});
  get_command.action([names] { return get_datasets(*names); });

  Command check_command =
      command.add_command("check", "Read every sample of datasets and summarise them");
  const auto o = std::make_shared<CheckOptions>();
  check_command.add("PATH", &o->paths, "Files, folders, or names of `tally data list`",
                    {.value = "...", .required = true});
  add_read_words(check_command, o->read);
  check_command.add("--keys", &o->keys,
                    "Table: read it as keys, as logistic, widedeep and deepfm do");
  check_command.action([o] { return check_datasets(*o); });
}

}  // namespace tally::app
