#include "apps/tally/read_words.h"

#include "base/errors.h"
#include "data/number.h"

namespace tally::app {

std::string to_string(const ReadWords& words) {
  std::string text;
  if (!words.target.empty()) text += " --target " + words.target;
  if (words.classes) text += " --classes";
  if (words.bytes) text += " --bytes";
  if (!words.validation.empty()) text += " --validation " + words.validation;
  return text.empty() ? " none of --target, --classes, --bytes and --validation" : text;
}

void add_read_words(Command& command, ReadWords& words) {
  command.add("--target", &words.target,
              "Table: the column to predict, by name or number; default: the last",
              {.value = "COLUMN"});
  command.add("--classes", &words.classes, "Table: numbers in the target column are classes");
  command.add("--bytes", &words.bytes, "Text: read bytes, not UTF-8 characters");
  command.add(
      "--validation", &words.validation,
      "Test with this fraction of the training samples, as in 0.2, or with a file or folder "
      "of the same form; default: the test part of the data, or else 0.1",
      {.value = "FRACTION|PATH"});
}

Result<data::ReadOptions> read_options_of(const ReadWords& words) {
  data::ReadOptions read{.target_column = words.target};
  if (words.bytes) read.level = data::TextLevel::kByte;
  if (words.classes) read.target = data::CsvTarget::kClass;
  if (words.validation.empty()) return read;
  const auto fraction = data::number_in(words.validation);
  if (!fraction) {
    read.test = words.validation;
    return read;
  }
  if (*fraction <= 0 || *fraction >= 1)
    return invalid(
        "--validation {0}: a fraction between 0 and 1, such as 0.1, or a path, such as "
        "./{0}",
        words.validation);
  read.validation = *fraction;
  return read;
}

}  // namespace tally::app
