#include "base/check.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace tally {
namespace {

struct FailedComparison {
  const char* condition = nullptr;
  CheckOperand left;
  const char* comparison = "";
  CheckOperand right;
};

thread_local FailedComparison last_failed_comparison;

std::string text_of(const CheckOperand& operand) {
  switch (operand.kind) {
    case CheckOperand::Kind::kNone:
      return "?";
    case CheckOperand::Kind::kBool:
      return operand.integer != 0 ? "true" : "false";
    case CheckOperand::Kind::kSigned:
      return fmt::format("{}", operand.integer);
    case CheckOperand::Kind::kUnsigned:
      return fmt::format("{}", static_cast<unsigned long long>(operand.integer));
    case CheckOperand::Kind::kReal:
      return fmt::format("{}", operand.real);
    case CheckOperand::Kind::kPointer:
      return operand.pointer == nullptr ? "nullptr" : fmt::format("{}", operand.pointer);
    case CheckOperand::Kind::kText:
      return fmt::format("\"{}\"", operand.text);
  }
  return "?";
}

// The operands of `condition`; empty if it has no comparison that can be printed. The recorded
// comparison may belong to another condition: in `a == b || c`, a == b may fail although the
// condition holds.
std::string operands_of(const char* condition) {
  const FailedComparison& failed = last_failed_comparison;
  if (failed.condition == nullptr || std::strcmp(failed.condition, condition) != 0) return {};
  constexpr auto kNone = CheckOperand::Kind::kNone;
  if (failed.left.kind == kNone && failed.right.kind == kNone) return {};
  return fmt::format(" ({} {} {})", text_of(failed.left), failed.comparison, text_of(failed.right));
}

}  // namespace

void record_failed_comparison(const char* condition, CheckOperand left, const char* comparison,
                              CheckOperand right) {
  last_failed_comparison = {condition, left, comparison, right};
}

void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "tally: check failed: %s%s at %s:%d\n", condition,
               operands_of(condition).c_str(), file, line);
  std::abort();
}

}  // namespace tally
