#include "exchange/device/device_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tally::exchange {
namespace {

using testing::HasSubstr;

struct Row {
  const char* plan;
  int workers;
  bool scales_loss;
  const char* reason;  // a part of it; empty: it fits
};

TEST(DeviceFit, GivesTheReasonOfPlansThatDevicesCannotRun) {
  const std::vector<Row> rows = {
      {"", 4, true, ""},
      {"codec=bf16", 4, true, ""},
      {"codec=fp16:warmup=9", 1, false, ""},
      {"codec=int8", 4, true, ""},
      {"codec=fp8:e5m2", 4, false, ""},
      {"codec=sign", 4, false, ""},
      {"codec=onebit:column", 4, false, ""},
      {"codec=topk:0.01", 4, false, ""},
      {"codec=threshold:0.01", 4, false, ""},
      {"codec=powersgd:2", 4, true, ""},
      {"codec=powersgd:4,warmup=9,all", 1, false, ""},
      {"codec=auto", 1, false, ""},
      {"codec=auto", 2, false, "codec=auto tries its codecs on the CPU"},
      {"codec=topk:0.01", 4, true, "with loss scaling"},
      {"codec=topk:0.01,momentum=late", 4, true, ""},
      {"codec=qsgd:4", 4, false, "codec=qsgd has no GPU kernels"},
      {"codec=qsgd:8", 4, false, "codec=qsgd:8 has no GPU kernels"},
      {"codec=onebit-adam", 4, false, "has no GPU kernels"},
      {"codec=dgc", 4, false, "has no GPU kernels"},
      {"codec=randk", 4, false, "has no GPU kernels"},
      {"codec=natural", 4, false, "has no GPU kernels"},
      {"codec=ternary", 4, false, "has no GPU kernels"},
      {"codec=int8+rans", 4, false, "codec=int8+rans: entropy stages run on the CPU"},
      {"codec=sign:vote", 4, false, "votes are counted on the CPU"},
      {"update=subset:2", 4, false, "update=subset:2 makes its updates in host memory"},
      {"update=backup:1", 4, false, "update=backup:1 makes its updates in host memory"},
      {"home=server", 4, false, "home=server"},
      {"home=server update=asp", 4, false, "home=server"},
  };
  for (const Row& row : rows) {
    const auto plan = plan::parse_plan(row.plan);
    ASSERT_TRUE(plan.has_value()) << row.plan << ": " << to_string(plan.error());
    const DeviceFit fit = device_fit({.plan = *plan,
                                      .codec = plan->codec,
                                      .workers = row.workers,
                                      .discards_nonfinite = row.scales_loss});
    EXPECT_EQ(fit.fits, *row.reason == '\0') << row.plan << ": " << fit.reason;
    EXPECT_EQ(fit.fits, fit.reason.empty()) << row.plan;
    EXPECT_THAT(fit.reason, HasSubstr(row.reason)) << row.plan;
  }
}

}  // namespace
}  // namespace tally::exchange
