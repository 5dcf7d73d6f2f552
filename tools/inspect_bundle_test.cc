// Tests the printed form of bundles with harmful but valid metadata.
#include "smelt/tools/inspect_bundle.h"

#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/runtime/json_text.h"
#include "smelt/runtime/testing/hand_bundle.h"
#include "smelt/tools/cc_header.h"
#include "smelt/tools/inspect_html.h"

namespace smelt {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

absl::StatusOr<nlohmann::ordered_json> Describe(HandBundle& b) {
  const std::string bytes = b.Pack();
  auto file = Container::FromMemory(
      absl::Span<const uint8_t>(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()), ContentKind::kBundle);
  SMELT_CHECK_OK(file.status());
  auto bundle = LoadBundle(**file);
  SMELT_CHECK_OK(bundle.status());
  return DescribeBundle(**bundle, **file);
}

// One argument, one launch that reads it `reads` times.
void AddPlan(HandBundle& b, int size, int reads) {
  const int arg = b.VectorArg("x", size);
  HandPlan p = b.Plan();
  const int x = p.Vector(p.ArgSlot(arg), size);
  p.Launch(kAddOne, size, x, x)->reads.assign(reads, x);
}

TEST(InspectBundleTest, AnExpressionThatDoublesWithEachStepIsCutOff) {
  // Printed in full it would have 2^60 terms.
  HandBundle b;
  int e = b.Symbol("n", fb::SymbolSource::ArgSize);
  for (int i = 0; i < 60; ++i) e = b.Node(fb::ExprOp::Add, e, e);
  AddPlan(b, e, 1);
  auto description = Describe(b);
  ASSERT_TRUE(description.ok()) << description.status();
  const std::string size = (*description)["signature"]["inputs"][0]["sizes"][0].get<std::string>();
  EXPECT_LT(size.size(), 10'000u);
  EXPECT_THAT(size, HasSubstr("…"));
}

TEST(InspectBundleTest, AnExpressionOfAMillionStepsIsCutOff) {
  HandBundle b;
  int e = b.Symbol("n", fb::SymbolSource::ArgSize);
  for (int i = 0; i < 1'000'000; ++i) e = b.Node(fb::ExprOp::Not, e);
  AddPlan(b, e, 1);
  auto description = Describe(b);
  ASSERT_TRUE(description.ok()) << description.status();
  EXPECT_THAT(JsonText(*description), HasSubstr("not not not"));
}

TEST(InspectBundleTest, OrdinaryExpressionsAreWrittenOut) {
  HandBundle b;
  const int n = b.Symbol("n", fb::SymbolSource::ArgSize), two = b.Const(2);
  const int e = b.Node(fb::ExprOp::Select, b.Node(fb::ExprOp::Lt, n, two), b.Node(fb::ExprOp::FloorDiv, n, two),
                       b.Node(fb::ExprOp::Not, n));
  AddPlan(b, e, 1);
  auto description = Describe(b);
  ASSERT_TRUE(description.ok()) << description.status();
  EXPECT_EQ((*description)["signature"]["inputs"][0]["sizes"][0], "select((n < 2), floordiv(n, 2), not n)");
}

TEST(InspectBundleTest, ADescriptionOutOfProportionToTheFileIsRefused) {
  HandBundle b;
  int e = b.Symbol("n", fb::SymbolSource::ArgSize);
  for (int i = 0; i < 60; ++i) e = b.Node(fb::ExprOp::Add, e, e);
  AddPlan(b, e, 100'000);
  EXPECT_EQ(Describe(b).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(InspectBundleTest, NamesCannotSteerATerminalOrAPage) {
  HandBundle b;
  b.raw().model_name = "<b>\x1b[2J";
  b.raw().targets[0]->name = "t\n";
  b.raw().kernels[0]->spec = "</pre><script>";
  b.Output("</title>\x07", fb::ArgKind::Int);
  AddPlan(b, b.Const(4), 1);
  b.raw().plans[0]->blocks[0]->steps[0]->source = "\"><script>";
  b.raw().plans[0]->num_registers = 1;
  auto out = std::make_unique<fb::OutputRefT>();
  out->kind = fb::OutputKind::Scalar;
  out->index = 0;
  b.raw().plans[0]->convention->outputs->outputs.push_back(std::move(out));
  auto description = Describe(b);
  ASSERT_TRUE(description.ok()) << description.status();
  const std::string text = DescriptionText(*description);
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, Not(HasSubstr("\x07")));
  EXPECT_THAT(text, HasSubstr("\\x1b[2J"));
  const std::string page = BundlePage(*description);
  EXPECT_THAT(page, Not(HasSubstr("<script>")));
  EXPECT_THAT(page, HasSubstr("<title>&lt;b&gt;"));
}

TEST(InspectBundleTest, APlanForOneTensorPassedTwiceNamesTheArguments) {
  const nlohmann::ordered_json arguments = {{{"name", "x"}}, {{"name", "y"}}, {{"name", "d_k"}, {"path", "d.k"}}};
  nlohmann::ordered_json plan = {{"variant", "duplicate"}, {"convention", {{"duplicates", {0, 1, 0}}}}};
  EXPECT_EQ(CallsOfPlan(arguments, plan), "one tensor as x and d.k");
  plan["variant"] = "distinct";
  EXPECT_EQ(CallsOfPlan(arguments, plan), "distinct arguments");
}

TEST(InspectBundleTest, AResultIsDescribedByItsMemory) {
  const nlohmann::ordered_json arguments = {{{"name", "x"}}, {{"name", "y"}}};
  const nlohmann::ordered_json states = {{{"name", "cache"}}};
  EXPECT_EQ(MemoryOfResult(arguments, states, {{"place", "in-argument"}, {"index", 1}}), "a view of the argument y");
  EXPECT_EQ(MemoryOfResult(arguments, states, {{"place", "is-state"}, {"index", 0}}), "the state cache itself");
  EXPECT_EQ(MemoryOfResult(arguments, states, {{"place", "fresh"}}), "");
}

absl::StatusOr<CcFiles> MakeCcOf(const fb::BundleT& bundle) {
  CcOptions options;
  options.cc_namespace = "m";
  options.header = "m.h";
  options.embed = false;
  return MakeCc(bundle, std::string(96, '\0'), options);
}

TEST(CcHeaderTest, NamesOfTheModelEndNoComment) {
  HandBundle b;
  AddPlan(b, b.Const(4), 1);
  b.raw().args[0]->name = "x\n#include \"/etc/passwd\"\n\\";
  b.Output("y");
  auto out = std::make_unique<fb::OutputRefT>();
  out->kind = fb::OutputKind::IsArg;
  out->index = 0;
  b.raw().plans[0]->convention->outputs->outputs.push_back(std::move(out));
  auto files = MakeCcOf(b.raw());
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_THAT(files->header, Not(HasSubstr("\n#include \"/etc")));
  EXPECT_THAT(files->header, Not(HasSubstr("\\\n")));
  EXPECT_THAT(files->header, HasSubstr("itself\n"));
}

TEST(CcHeaderTest, ConstantsThatCppHasNoPlainNumberForAreWrittenAsItHasThem) {
  HandBundle b;
  AddPlan(b, b.Const(4), 1);
  const auto add = [&](fb::ArgKind kind) -> fb::ArgDefT& {
    auto arg = std::make_unique<fb::ArgDefT>();
    arg->kind = kind;
    arg->has_constant = true;
    b.raw().args.push_back(std::move(arg));
    return *b.raw().args.back();
  };
  for (const double x : {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
                         std::numeric_limits<double>::quiet_NaN()})
    add(fb::ArgKind::Float).float_value = x;
  add(fb::ArgKind::Int).int_value = INT64_MIN;
  add(fb::ArgKind::String).string_value = std::string("a\0\"b", 4);
  auto files = MakeCcOf(b.raw());
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_THAT(files->source, HasSubstr("smelt::Datum(std::numeric_limits<double>::infinity()), "
                                       "smelt::Datum(-std::numeric_limits<double>::infinity()), "
                                       "smelt::Datum(std::numeric_limits<double>::quiet_NaN()), "
                                       "smelt::Datum(std::numeric_limits<int64_t>::min()), "
                                       "smelt::Datum(std::string(\"a\\x00\\\"b\", 4))"));
}

TEST(CcHeaderTest, EqualNamesBecomeDifferentMembersInLinearTime) {
  HandBundle b;
  const int four = b.Const(4);
  AddPlan(b, four, 1);
  for (int i = 1; i < 50'000; ++i) b.VectorArg(i == 7 ? "x_3" : "x", four);
  auto files = MakeCcOf(b.raw());
  ASSERT_TRUE(files.ok()) << files.status();
  for (absl::string_view member : {"> x;", "> x_2;", "> x_3;", "> x_4;", "> x_3_2;", "> x_49999;"}) {
    EXPECT_THAT(files->header, HasSubstr(member));
  }
}

}  // namespace
}  // namespace smelt
