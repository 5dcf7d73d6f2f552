// Calls whose arguments share memory in ways that the export did not foresee, and the bytes that the plans for them
// move.
#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "smelt/core/base/file.h"
#include "smelt/core/ir/text.h"
#include "smelt/pipeline/compile.h"
#include "smelt/runtime/program.h"
#include "smelt/schema/bundle.h"
#include "smelt/schema/container.h"
#include "smelt/tools/e2e_testing.h"

namespace smelt {
namespace {

std::unique_ptr<Graph> Parse(const std::string& text) {
  auto g = ParseModel(text);
  EXPECT_TRUE(g.ok()) << g.status();
  return *std::move(g);
}

absl::Status CompileTo(const std::string& text, const std::string& path, CompileOptions options = {}) {
  options.targets = {kHostTarget};
  return CompileToFile(*Parse(text), path, options).status();
}

struct Loaded {
  std::shared_ptr<const Program> program;
  std::unique_ptr<Instance> instance;
};
Loaded CompileAndLoad(const std::string& text, const std::string& name, const CompileOptions& options = {}) {
  const std::string path = Scratch(name + ".smb");
  EXPECT_TRUE(CompileTo(text, path, options).ok());
  auto program = Program::Load(path);
  EXPECT_TRUE(program.ok()) << program.status();
  auto instance = Instance::Create(*program);
  EXPECT_TRUE(instance.ok()) << instance.status();
  return {*program, *std::move(instance)};
}

Tensor Counting(int64_t n) {
  Tensor t = Tensor::Empty(DType::kFloat32, {n});
  for (int64_t i = 0; i < n; ++i) t.data_as<float>()[i] = static_cast<float>(i % 1000);
  return t;
}
Tensor Slice(const Tensor& base, int64_t start, int64_t length) { return base.View({{length}, {1}, start}); }

constexpr char kTwoSlices[] = R"(
graph(%a : Float(9, strides=[1]), %b : Float(9, strides=[1])):
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %x : Tensor = aten::add_(%a, %one, %one)
  %y : Tensor = aten::mul_(%b, %two)
  %z : Tensor = aten::add(%x, %y, %one)
  return (%z)
)";

TEST(WrittenAtTheEndTest, ArgumentsThatShareMemoryAreRefusedAndOthersAreNot) {
  const std::unique_ptr<Graph> g = Parse(kTwoSlices);
  g->written_at_the_end = true;
  CompileOptions options;
  options.targets = {kHostTarget};
  const std::string path = Scratch("written_at_the_end.smb");
  ASSERT_TRUE(CompileToFile(*g, path, options).ok());
  auto program = Program::Load(path);
  ASSERT_TRUE(program.ok()) << program.status();
  auto instance = Instance::Create(*program);
  ASSERT_TRUE(instance.ok()) << instance.status();
  const Tensor base = Counting(40);
  EXPECT_TRUE((*instance)->Run({Slice(base, 0, 9), Slice(base, 9, 9)}).ok());
  EXPECT_TRUE((*instance)->Run({base.View({{9}, {2}, 0}), base.View({{9}, {2}, 1})}).ok());
  for (const auto& [a, b] : {std::make_pair(0, 4), std::make_pair(20, 20)}) {
    const Tensor before = base.Clone();
    auto refused = (*instance)->Run({Slice(base, a, 9), Slice(base, b, 9)});
    EXPECT_TRUE(absl::IsFailedPrecondition(refused.status()));
    EXPECT_TRUE(absl::StrContains(refused.status().message(), "run_decompositions")) << refused.status();
    for (int k = 0; k < 40; ++k) EXPECT_EQ(base.data_as<float>()[k], before.data_as<float>()[k]);
  }
}

TEST(RefusedCastTest, AFloatIsNotAddedToIntegersInPlace) {
  // PyTorch: result type Float can't be cast to the desired output type Long. In a branch it fails only if the branch
  // is taken.
  for (const char* text : {R"(
graph(%a : Long(3, strides=[1]), %b : Float(3, strides=[1]), %p : bool):
  %one : int = prim::Constant[value=1]()
  %x : Tensor = aten::add_(%a, %b, %one)
  return (%x)
)",
                           R"(
graph(%a : Long(3, strides=[1]), %b : Float(3, strides=[1]), %p : bool):
  %one : int = prim::Constant[value=1]()
  %y : Tensor = prim::If(%p)
    block0():
      %x : Tensor = aten::add_(%a, %b, %one)
      -> (%x)
    block1():
      -> (%a)
  return (%y)
)"}) {
    const bool branches = absl::StrContains(text, "prim::If");
    Loaded m = CompileAndLoad(text, branches ? "cast_in_a_branch" : "cast");
    const Tensor a = Tensor::Empty(DType::kInt64, {3});
    std::memset(a.data(), 0, 24);
    auto refused = m.instance->Run({a, Counting(3), true});
    EXPECT_TRUE(absl::StrContains(refused.status().message(), "can't be cast")) << refused.status();
    EXPECT_EQ(a.data_as<int64_t>()[2], 0);
    EXPECT_EQ(m.instance->Run({a, Counting(3), false}).ok(), branches);
  }
}

// A program whose first input is a state of zeros.
Loaded CompileWithState(const std::string& text, const std::string& name) {
  const std::unique_ptr<Graph> g = Parse(text);
  const TensorType& type = g->value(g->inputs()[0]).type.tensor();
  const Tensor zeros = Tensor::Empty(*type.dtype, {*(*type.sizes)[0].Constant()});
  std::memset(zeros.data(), 0, zeros.storage()->bytes());
  g->weight_storages = {zeros.storage()};
  g->weights = {Weight{"h", Weight::Kind::kBuffer, 0, *type.dtype, zeros.geometry()}};
  g->input_infos.resize(g->inputs().size());
  g->input_infos[0].kind = InputInfo::Kind::kWeight;
  g->input_infos[0].weight = 0;
  CompileOptions options;
  options.targets = {kHostTarget};
  const std::string path = Scratch(name + ".smb");
  EXPECT_TRUE(CompileToFile(*g, path, options).ok());
  auto program = Program::Load(path);
  EXPECT_TRUE(program.ok()) << program.status();
  auto instance = Instance::Create(*program);
  EXPECT_TRUE(instance.ok()) << instance.status();
  return {*program, *std::move(instance)};
}

TEST(ReplacedStateTest, OneThatAnEarlierCallMovedIsReadWhereItLiesNow) {
  Loaded m = CompileWithState(R"(
graph(%h : Float(3, strides=[1]), %x : Float(6, strides=[1])):
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %six : int = prim::Constant[value=6]()
  %sum : Tensor = aten::add(%h, %one, %one)
  %y : Tensor = aten::mul(%x, %two)
  %part : Tensor = aten::slice(%y, %zero, %zero, %six, %two)
  %s : Tensor = aten::set_(%h, %part)
  return (%sum)
)",
                              "moved_state");
  const Tensor x = Counting(6);
  for (int call = 0; call < 3; ++call) {
    auto out = m.instance->Run({x});
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_EQ(m.instance->last_call().variant, AliasVariant::kDistinct);
    for (int k = 0; k < 3; ++k) {
      EXPECT_EQ((*out)[0].tensor().data_as<float>()[k], call == 0 ? 1 : 1 + 4 * k) << "2 * x[::2] + 1";
    }
  }
}

TEST(ReplacedStateTest, OneInAnArgumentFollowsTheCallersWritesUnlessItsMemoryIsBorrowed) {
  const std::string text = R"(
graph(%h : Float(2, strides=[1]), %x : Float(4, strides=[1])):
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %four : int = prim::Constant[value=4]()
  %sum : Tensor = aten::add(%h, %one, %one)
  %part : Tensor = aten::slice(%x, %zero, %two, %four, %one)
  %s : Tensor = aten::set_(%h, %part)
  return (%sum)
)";
  for (const bool borrowed : {false, true}) {
    Loaded m = CompileWithState(text, "state_in_argument");
    {
      std::vector<float> memory = {0, 1, 2, 3};
      const Tensor x = borrowed ? Tensor(Storage::Borrow(memory.data(), 16), DType::kFloat32, Geometry::Contiguous({4}))
                                : Counting(4);
      ASSERT_TRUE(m.instance->Run({x}).ok());
      EXPECT_EQ(m.instance->state(0).storage() == x.storage(), !borrowed);
      x.data_as<float>()[2] = 20;
    }  // what was borrowed is gone
    auto out = m.instance->Run({Counting(4)});
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_EQ(m.instance->last_call().variant, AliasVariant::kDistinct);
    EXPECT_EQ((*out)[0].tensor().data_as<float>()[0], borrowed ? 3 : 21);
    EXPECT_EQ((*out)[0].tensor().data_as<float>()[1], 4);
  }
}

TEST(ReplacedStateTest, OneThatAnEarlierCallCastIsRefused) {
  Loaded m = CompileWithState(R"(
graph(%h : Float(3, strides=[1])):
  %double : int = prim::Constant[value=7]()
  %no : bool = prim::Constant[value=0]()
  %none : NoneType = prim::Constant()
  %y : Tensor = aten::to(%h, %double, %no, %no, %none)
  %s : Tensor = aten::set_(%h, %y)
  return (%y)
)",
                              "cast_state");
  EXPECT_TRUE(m.instance->Run({}).ok());
  auto again = m.instance->Run({});
  EXPECT_TRUE(absl::IsFailedPrecondition(again.status()));
  EXPECT_TRUE(absl::StrContains(again.status().message(), "another dtype than it had at export: float64"))
      << again.status();
}

TEST(RegionalCopyBackTest, TwoNineElementSlicesOfAMillionMoveAtMostEighteenElements) {
  Loaded m = CompileAndLoad(kTwoSlices, "two_slices");
  const auto expect = [&](int64_t a, int64_t b, AliasVariant variant) {
    const Tensor base = Counting(1000000);
    ASSERT_TRUE(m.instance->Run({Slice(base, a, 9), Slice(base, b, 9)}).ok());
    EXPECT_EQ(m.instance->last_call().variant, variant);
    EXPECT_LE(m.instance->last_call().bytes_copied_back, 18 * 4);
    EXPECT_LE(m.instance->last_call().arena_bytes, 4096);
    for (int64_t i = 0; i < 1000000; ++i) {
      float want = static_cast<float>(i % 1000);
      if (i >= a && i < a + 9) want += 1;
      if (i >= b && i < b + 9) want *= 2;
      ASSERT_EQ(base.data_as<float>()[i], want) << i;
    }
  };
  expect(100, 500, AliasVariant::kDistinct);
  expect(999991, 4, AliasVariant::kDistinct);
}

TEST(RegionalCopyBackTest, TheBundleNamesTheRegionsThatAreWritten) {
  const std::string path = Scratch("regions.smb");
  ASSERT_TRUE(CompileTo(kTwoSlices, path).ok());
  auto container = Container::Open(path, ContentKind::kBundle);
  ASSERT_TRUE(container.ok());
  auto bundle = LoadBundle(**container);
  ASSERT_TRUE(bundle.ok());
  const fb::PlanT& plan = *(*bundle)->plans[0];
  int64_t elements = 0;
  for (const auto& in : plan.convention->mutated->inputs) {
    for (int v : in->written) {
      int64_t n = 1;
      for (int e : plan.views[v]->sizes) n *= (*bundle)->exprs[e].constant();
      elements += n;
    }
  }
  EXPECT_EQ(elements, 18);
}

// --- patterns behind the compiled ones ---

// The reshape is a view or a copy, depending on the argument's strides, so that only the eager-order plan fits other
// strides.
constexpr char kFlattened[] = R"(
graph(%a : Float(2, 3, strides=[3, 1]), %b : Float(2, 3, strides=[3, 1])):
  %one : int = prim::Constant[value=1]()
  %sizes : int[] = prim::Constant[value=[6]]()
  %flat : Tensor = aten::reshape(%a, %sizes)
  %x : Tensor = aten::add_(%flat, %one, %one)
  %y : Tensor = aten::add_(%b, %one, %one)
  return (%x)
)";

TEST(EagerOrderTest, ReshapeIsAViewOrACopyAsTheCallsStridesSay) {
  Loaded m = CompileAndLoad(kFlattened, "flattened");
  Tensor a = Counting(6).View({{2, 3}, {3, 1}, 0}), b = Counting(6).View({{2, 3}, {3, 1}, 0});
  ASSERT_TRUE(m.instance->Run({a, b}).ok());
  EXPECT_EQ(m.instance->last_call().variant, AliasVariant::kDistinct);
  EXPECT_EQ(a.data_as<float>()[5], 6);  // a view: written

  // Two boxes of one tensor whose rows are not adjacent: the reshape copies, and a is not written through it.
  const Tensor base = Counting(24);
  a = base.View({{2, 3}, {12, 1}, 0});
  b = base.View({{2, 3}, {12, 1}, 2});
  auto out = m.instance->Run({a, b});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(m.instance->last_call().variant, AliasVariant::kEagerOrder);
  const std::vector<float> want = {0, 1, 3, 4, 5, 5, 6, 7};  // b: elements 2, 3, 4
  EXPECT_EQ(std::vector<float>(base.data_as<float>(), base.data_as<float>() + 8), want);
  EXPECT_EQ((*out)[0].tensor().data_as<float>()[2], 3);
}

TEST(EagerOrderTest, ARefusalLeavesEverythingAsItWas) {
  // c.add_(b) overlaps partially: PyTorch refuses, after it has written a.
  Loaded m = CompileAndLoad(R"(
graph(%a : Float(2, 3, strides=[3, 1]), %b : Float(8, strides=[1]), %c : Float(8, strides=[1])):
  %one : int = prim::Constant[value=1]()
  %sizes : int[] = prim::Constant[value=[6]]()
  %flat : Tensor = aten::reshape(%a, %sizes)
  %x : Tensor = aten::add_(%a, %one, %one)
  %y : Tensor = aten::add_(%c, %b, %one)
  return (%flat)
)",
                            "refused");
  const Tensor base = Counting(40);
  const Tensor a = base.View({{2, 3}, {12, 1}, 0});
  auto out = m.instance->Run({a, Slice(base, 20, 8), Slice(base, 24, 8)});
  EXPECT_EQ(out.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(absl::StrContains(out.status().message(), "some elements of the input tensor and the written-to tensor"))
      << out.status();
  for (int64_t i = 0; i < 40; ++i) EXPECT_EQ(base.data_as<float>()[i], static_cast<float>(i)) << i;
}

// Adds 1 to row %n of %x, or to the rows from there on, in the form of an archive, where the number of the row is known
// as the symbol u0.
Loaded AddsToRows(absl::string_view row, const std::string& name) {
  auto g = ParseGraph(absl::StrCat(R"(
graph(%x : Float(6, 3, strides=[3, 1]), %n : Long()):
  symbol u0 in [0, 4]
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %k : int(u0) = aten::item(%n)
  %ok : bool = aten::ge.int(%k, %zero)
  %said : str = prim::Constant[value="a row that there is"]()
   = aten::_assert_scalar(%ok, %said)
  )",
                                   row, R"(
  %y : Float() = aten::add_.Scalar(%row, %one, %one)
  return (%x)
)"));
  EXPECT_TRUE(g.ok()) << g.status();
  (*g)->SetType((*g)->FindValue("y"), (*g)->value((*g)->FindValue("row")).type);
  CompileOptions options;
  options.targets = {kHostTarget};
  const std::string path = Scratch(name + ".smb");
  EXPECT_TRUE(CompileToFile(**g, path, options).ok());
  auto program = Program::Load(path);
  EXPECT_TRUE(program.ok()) << program.status();
  auto instance = Instance::Create(*program);
  EXPECT_TRUE(instance.ok()) << instance.status();
  return {*program, *std::move(instance)};
}

TEST(DataPlaceTest, ARowThatTheDataChooseIsWrittenInAnArgumentOfOtherStrides) {
  Loaded m = AddsToRows("%row : Float(3, strides=[1]) = aten::select.int(%x, %zero, %k)", "chosen_row");
  Tensor n = Tensor::Empty(DType::kInt64, {});
  n.data_as<int64_t>()[0] = 2;
  const Tensor base = Counting(40);
  auto out = m.instance->Run({base.View({{6, 3}, {6, 2}, 1}), n});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(m.instance->last_call().variant, AliasVariant::kOverlap);
  for (int k = 0; k < 40; ++k) EXPECT_EQ(base.data_as<float>()[k], k + (k == 13 || k == 15 || k == 17)) << k;

  // PyTorch refuses: the elements of the row have the same address.
  const Tensor column = Counting(6);
  out = m.instance->Run({column.View({{6, 3}, {1, 0}, 0}), n});
  EXPECT_EQ(out.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(absl::StrContains(out.status().message(), "more than one element of the written-to tensor"))
      << out.status();
  for (int k = 0; k < 6; ++k) EXPECT_EQ(column.data_as<float>()[k], k) << k;
}

TEST(DataPlaceTest, RowsThatOverlapAreWrittenInEagerOrder) {
  Loaded m = AddsToRows("%row : Float(2, 3, strides=[3, 1]) = aten::narrow(%x, %zero, %k, %two)", "chosen_windows");
  Tensor n = Tensor::Empty(DType::kInt64, {});
  n.data_as<int64_t>()[0] = 1;
  const Tensor base = Counting(8);
  auto out = m.instance->Run({base.View({{6, 3}, {1, 1}, 0}), n});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(m.instance->last_call().variant, AliasVariant::kEagerOrder);
  const std::vector<float> want = {0, 2, 4, 5, 5, 5, 6, 7};  // PyTorch's
  EXPECT_EQ(std::vector<float>(base.data_as<float>(), base.data_as<float>() + 8), want);
}

// Expected are PyTorch's strides.
TEST(EagerOrderTest, WhatIsPickedFromAStridedArgumentLiesAsPyTorchLaysIt) {
  CompileOptions options;
  options.variants = AliasVariants::kAll;
  Loaded m = CompileAndLoad(R"(
graph(%x : Float(2, 3, 4, strides=[12, 4, 1]), %i : Long(2, strides=[1]), %j : Long(2, 2, strides=[2, 1]), %m : Bool(3, strides=[1])):
  %none : NoneType = prim::Constant()
  %rows : Tensor?[] = prim::ListConstruct(%i)
  %columns : Tensor?[] = prim::ListConstruct(%none, %i)
  %apart : Tensor?[] = prim::ListConstruct(%i, %none, %i)
  %masked : Tensor?[] = prim::ListConstruct(%none, %m)
  %table : Tensor?[] = prim::ListConstruct(%none, %j)
  %a : Tensor = aten::index(%x, %rows)
  %b : Tensor = aten::index(%x, %columns)
  %c : Tensor = aten::index(%x, %apart)
  %d : Tensor = aten::index(%x, %masked)
  %e : Tensor = aten::index(%x, %table)
  return (%a, %b, %c, %d, %e)
)",
                            "picked", options);
  const Tensor x = Counting(24).View({{2, 3, 4}, {1, 2, 6}, 0});
  const Tensor i = Tensor::Empty(DType::kInt64, {2}), j = Tensor::Empty(DType::kInt64, {4});
  for (int k = 0; k < 4; ++k) j.data_as<int64_t>()[k] = (k + 1) % 2;
  for (int k = 0; k < 2; ++k) i.data_as<int64_t>()[k] = 1 - k;
  const Tensor mask = Tensor::Empty(DType::kBool, {3});
  for (int k = 0; k < 3; ++k) mask.data_as<bool>()[k] = k != 1;
  auto out = m.instance->Run({x, i, j.View({{2, 2}, {1, 2}, 0}), mask});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(m.instance->last_call().variant, AliasVariant::kEagerOrder);
  using Strides = std::vector<int64_t>;
  const std::vector<Strides> want = {{12, 1, 3}, {1, 2, 4}, {3, 1}, {1, 2, 4}, {1, 2, 4, 8}};
  for (size_t k = 0; k < want.size(); ++k) EXPECT_EQ((*out)[k].tensor().strides(), want[k]) << k;
  const Tensor d = (*out)[3].tensor();
  for (int k = 0; k < 16; ++k) EXPECT_EQ(d.data_as<float>()[k], k % 2 + 4 * (k / 2 % 2) + 6 * (k / 4)) << k;
}

TEST(EagerOrderTest, StackedImagesKeepTheirFormatWhereAllHaveIt) {
  CompileOptions options;
  options.variants = AliasVariants::kAll;
  Loaded m = CompileAndLoad(R"(
graph(%x : Float(2, 3, 2, 2, strides=[12, 4, 2, 1]), %y : Float(2, 3, 2, 2, strides=[12, 4, 2, 1]), %n : Float(1)):
  %one : int = prim::Constant[value=1]()
  %w : Tensor = aten::add_(%n, %one, %one)
  %last : int = prim::Constant[value=-1]()
  %both : Tensor[] = prim::ListConstruct(%x, %y)
  %a : Tensor = aten::stack(%both, %one)
  %b : Tensor = aten::stack(%both, %last)
  return (%a, %b)
)",
                            "stacked", options);
  const Tensor x = Counting(24).View({{2, 3, 2, 2}, {12, 1, 6, 3}, 0});
  const Tensor y = Counting(24).View({{2, 3, 2, 2}, {12, 4, 2, 1}, 0});
  using Strides = std::vector<int64_t>;
  for (const auto& [other, first] : {std::pair{x, Strides{24, 3, 1, 12, 6}}, std::pair{y, Strides{24, 12, 4, 2, 1}}}) {
    auto out = m.instance->Run({x, other, Counting(1)});
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_EQ(m.instance->last_call().variant, AliasVariant::kDistinct);
    EXPECT_EQ((*out)[0].tensor().strides(), first);
    EXPECT_EQ((*out)[1].tensor().strides(), (Strides{24, 8, 4, 2, 1}));
    const Tensor dense = (*out)[0].tensor().Clone();
    EXPECT_EQ(dense.data_as<float>()[2], 6);  // x[0, 0, 1, 0]
  }
}

// Expected are PyTorch's strides.
TEST(OtherStridesTest, APureModelTakesArgumentsThatLieInAnyWay) {
  Loaded m = CompileAndLoad(R"(
graph(%x : Float(3, 4, strides=[4, 1]), %y : Float(3, 4, strides=[4, 1])):
  %one : int = prim::Constant[value=1]()
  %a : Tensor = aten::neg(%x)
  %b : Tensor = aten::add(%y, %x, %one)
  %t : Tensor = aten::t(%y)
  %c : Tensor = aten::mm(%x, %t)
  return (%a, %b, %c)
)",
                            "any_layout");
  const Tensor memory = Counting(30);
  const Tensor rows = memory.View({{3, 4}, {4, 1}, 0}), columns = memory.View({{3, 4}, {1, 3}, 0});
  const Tensor gaps = memory.View({{3, 4}, {8, 2}, 1}), wide = memory.View({{3, 4}, {0, 1}, 2});
  using Strides = std::vector<int64_t>;
  struct Call {
    Tensor x, y;
    Strides a, b;
  };
  for (const Call& call : {Call{columns, columns, {1, 3}, {1, 3}}, Call{columns, rows, {1, 3}, {4, 1}},
                           Call{rows, columns, {4, 1}, {1, 3}}, Call{gaps, columns, {4, 1}, {1, 3}},
                           Call{wide, rows, {4, 1}, {4, 1}}, Call{columns, wide, {1, 3}, {1, 3}}}) {
    auto out = m.instance->Run({call.x, call.y});
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_EQ(m.instance->last_call().variant, AliasVariant::kDistinct);
    EXPECT_EQ((*out)[0].tensor().strides(), call.a) << call.x.geometry().ToString();
    EXPECT_EQ((*out)[1].tensor().strides(), call.b) << call.x.geometry().ToString();
    EXPECT_EQ((*out)[2].tensor().strides(), (Strides{3, 1}));
    const Tensor x = call.x.Clone(), y = call.y.Clone(), a = (*out)[0].tensor().Clone(), b = (*out)[1].tensor().Clone();
    for (int k = 0; k < 12; ++k) {
      EXPECT_EQ(a.data_as<float>()[k], -x.data_as<float>()[k]);
      EXPECT_EQ(b.data_as<float>()[k], x.data_as<float>()[k] + y.data_as<float>()[k]);
    }
  }
}

TEST(OtherStridesTest, AResultThatMayBeTheArgumentItselfIsMadeInEagerOrder) {
  // For a contiguous x it is a copy; for the transpose of contiguous memory it is that memory.
  Loaded m = CompileAndLoad(R"(
graph(%x : Float(3, 4, strides=[4, 1])):
  %t : Tensor = aten::t(%x)
  %zero : int = prim::Constant[value=0]()
  %c : Tensor = aten::contiguous(%t, %zero)
  return (%c)
)",
                            "perhaps_itself");
  const Tensor memory = Counting(12);
  auto copy = m.instance->Run({memory.View({{3, 4}, {4, 1}, 0})});
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_NE((*copy)[0].tensor().storage(), memory.storage());
  auto itself = m.instance->Run({memory.View({{3, 4}, {1, 3}, 0})});
  ASSERT_TRUE(itself.ok()) << itself.status();
  EXPECT_EQ((*itself)[0].tensor().storage(), memory.storage());
  EXPECT_EQ(m.instance->last_call().variant, AliasVariant::kEagerOrder);
}

TEST(EagerOrderTest, NoneRefusesWhatIsNotCompiled) {
  CompileOptions options;
  options.variants = AliasVariants::kNone;
  Loaded m = CompileAndLoad(kTwoSlices, "none", options);
  const Tensor base = Counting(20);
  EXPECT_EQ(m.instance->Run({Slice(base, 0, 9), Slice(base, 4, 9)}).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(base.data_as<float>()[4], 4);
}

TEST(EagerOrderTest, ALoopThatCannotBeMadePureRuns) {
  // After an odd number of iterations the caller's arguments are swapped: each was written under either name.
  Loaded m = CompileAndLoad(R"(
graph(%a : Float(3, strides=[1]), %b : Float(3, strides=[1]), %n : int):
  %true : bool = prim::Constant[value=1]()
  %one : int = prim::Constant[value=1]()
  %x : Tensor, %y : Tensor = prim::Loop(%n, %true, %a, %b)
    block0(%i : int, %p : Tensor, %q : Tensor):
      %w : Tensor = aten::add_(%p, %i, %one)
      -> (%true, %q, %p)
  return (%x, %y)
)",
                            "rotation");
  const Tensor a = Counting(3), b = Counting(3);
  auto out = m.instance->Run({a, b, int64_t{3}});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_TRUE((*out)[0].tensor().IsSame(b));
  EXPECT_TRUE((*out)[1].tensor().IsSame(a));
  EXPECT_EQ(a.data_as<float>()[0], 0 + 2);
  EXPECT_EQ(b.data_as<float>()[0], 1);
}

// --- loops ---

// Returns the number of elements that each copy in a loop moves in every iteration.
std::vector<int64_t> CopiesInBody(const std::string& path) {
  auto container = Container::Open(path, ContentKind::kBundle);
  SMELT_CHECK_OK(container.status());
  auto bundle = LoadBundle(**container);
  SMELT_CHECK_OK(bundle.status());
  const fb::PlanT& plan = *(*bundle)->plans[0];
  int body = -1;
  for (const auto& step : plan.blocks[0]->steps) {
    if (const auto* w = step->step.AsWhile()) body = w->body_block;
  }
  SMELT_CHECK(body >= 0);
  std::vector<int64_t> copies;
  for (const auto& step : plan.blocks[body]->steps) {
    const auto* c = step->step.AsCopy();
    if (c == nullptr) continue;
    int64_t elements = 1;
    for (int e : plan.views[c->src]->sizes) elements *= (*bundle)->exprs[e].constant();
    copies.push_back(elements);
  }
  return copies;
}

std::vector<Datum> RunBundle(const std::string& path, const std::vector<Datum>& args) {
  auto program = Program::Load(path);
  SMELT_CHECK_OK(program.status());
  auto instance = Instance::Create(*program);
  SMELT_CHECK_OK(instance.status());
  auto out = (*instance)->Run(args);
  SMELT_CHECK_OK(out.status());
  return *std::move(out);
}

Tensor Trips(int64_t n) {
  Tensor t = Tensor::Empty(DType::kInt64, {});
  *t.data_as<int64_t>() = n;
  return t;
}

TEST(CarriedTensorTest, ALoopThatWritesARowOfWhatItCarriesCopiesNothing) {
  const std::string path = Scratch("carried.smb");
  ASSERT_TRUE(CompileTo(R"(
graph(%x : Float(64, 32, strides=[32, 1]), %n : Long(strides=[])):
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %none : NoneType = prim::Constant()
  %two : float = prim::Constant[value=2.]()
  %m : Tensor = aten::mul(%x, %two)
  %i0 : Tensor = aten::sub(%n, %n, %one)
  %i : Tensor, %y : Tensor = smelt::while_loop(%i0, %m, %n)
    block0(%ci : Tensor, %cm : Tensor, %cn : Tensor):
      %more : Tensor = aten::lt(%ci, %cn)
      -> (%more)
    block1(%bi : Tensor, %bm : Tensor, %bn : Tensor):
      %next : Tensor = aten::add(%bi, %one, %one)
      %copy : Tensor = aten::clone(%bm, %none)
      %row : Tensor = aten::select(%copy, %zero, %one)
      %w : Tensor = aten::add_(%row, %one, %one)
      -> (%next, %copy)
  return (%y)
)",
                        path)
                  .ok());
  // A copy of the 64 x 32 tensor in an iteration would move 2,048 elements.
  for (int64_t elements : CopiesInBody(path)) EXPECT_LE(elements, 32);
  const Tensor x = Counting(64 * 32).View({{64, 32}, {32, 1}, 0});
  const Tensor y = RunBundle(path, {x, Trips(5)})[0].tensor();
  for (int i = 0; i < 64 * 32; ++i) {
    const float want = static_cast<float>(i % 1000) * 2 + (i / 32 == 1 ? 5 : 0);
    ASSERT_EQ(y.data_as<float>()[i], want) << i;
  }
}

TEST(CarriedTensorTest, ALoopThatMakesWhatItCarriesAnewPutsItInItsPlace) {
  const std::string path = Scratch("anew.smb");
  // Adds one, then multiplies by a matrix, which must not overwrite its operand; and a kernel that may. (A matrix of at
  // most 4 by 4 would be multiplied in the kernel that adds one.)
  ASSERT_TRUE(CompileTo(R"(
graph(%x : Float(2, 5, strides=[5, 1]), %w : Float(5, 5, strides=[5, 1]), %n : Long(strides=[])):
  %one : int = prim::Constant[value=1]()
  %two : float = prim::Constant[value=2.]()
  %m : Tensor = aten::mul(%x, %two)
  %k : Tensor = aten::add(%x, %two, %one)
  %i0 : Tensor = aten::sub(%n, %n, %one)
  %i : Tensor, %y : Tensor, %z : Tensor = smelt::while_loop(%i0, %m, %k, %n, %w)
    block0(%ci : Tensor, %cm : Tensor, %ck : Tensor, %cn : Tensor, %cw : Tensor):
      %more : Tensor = aten::lt(%ci, %cn)
      -> (%more)
    block1(%bi : Tensor, %bm : Tensor, %bk : Tensor, %bn : Tensor, %bw : Tensor):
      %next : Tensor = aten::add(%bi, %one, %one)
      %a : Tensor = aten::add(%bm, %one, %one)
      %p : Tensor = aten::mm(%a, %bw)
      %q : Tensor = aten::mul(%bk, %two)
      -> (%next, %p, %q)
  return (%y, %z)
)",
                        path)
                  .ok());
  EXPECT_TRUE(CopiesInBody(path).empty());
  const Tensor x = Counting(10).View({{2, 5}, {5, 1}, 0});
  const Tensor w = Counting(25).View({{5, 5}, {5, 1}, 0});
  const float* f = w.data_as<float>();
  for (int trips : {0, 1, 3}) {
    float want[10], last[10];
    for (int i = 0; i < 10; ++i) {
      want[i] = x.data_as<float>()[i] * 2;
      last[i] = x.data_as<float>()[i] + 2;
    }
    for (int t = 0; t < trips; ++t) {
      float a[10];
      for (int i = 0; i < 10; ++i) a[i] = want[i] + 1;
      for (int i = 0; i < 10; ++i) {
        want[i] = 0;
        for (int k = 0; k < 5; ++k) want[i] += a[i / 5 * 5 + k] * f[k * 5 + i % 5];
        last[i] *= 2;
      }
    }
    const std::vector<Datum> out = RunBundle(path, {x, w, Trips(trips)});
    for (int i = 0; i < 10; ++i) {
      EXPECT_EQ(out[0].tensor().data_as<float>()[i], want[i]) << trips << " trips, element " << i;
      EXPECT_EQ(out[1].tensor().data_as<float>()[i], last[i]) << trips << " trips, element " << i;
    }
  }
}

TEST(CarriedTensorTest, ACarriedTensorThatBecomesAnotherIsCopiedOnce) {
  const std::string path = Scratch("becomes.smb");
  ASSERT_TRUE(CompileTo(R"(
graph(%x : Float(8, strides=[1]), %n : Long(strides=[])):
  %one : int = prim::Constant[value=1]()
  %none : NoneType = prim::Constant()
  %a : Tensor = aten::add(%x, %one, %one)
  %b : Tensor = aten::add(%x, %one, %one)
  %i0 : Tensor = aten::sub(%n, %n, %one)
  %i : Tensor, %p : Tensor, %q : Tensor = smelt::while_loop(%i0, %a, %b, %n)
    block0(%ci : Tensor, %ca : Tensor, %cb : Tensor, %cn : Tensor):
      %more : Tensor = aten::lt(%ci, %cn)
      -> (%more)
    block1(%bi : Tensor, %ba : Tensor, %bb : Tensor, %bn : Tensor):
      %next : Tensor = aten::add(%bi, %one, %one)
      %was : Tensor = aten::clone(%bb, %none)
      %sum : Tensor = aten::add(%ba, %bb, %one)
      -> (%next, %was, %sum)
  return (%p, %q)
)",
                        path)
                  .ok());
  EXPECT_LE(CopiesInBody(path).size(), 2u);
  const Tensor x = Counting(8);
  const std::vector<Datum> out = RunBundle(path, {x, Trips(6)});  // 1 1 2 3 5 8 13 21
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(out[0].tensor().data_as<float>()[i], 13 * (x.data_as<float>()[i] + 1)) << i;
    EXPECT_EQ(out[1].tensor().data_as<float>()[i], 21 * (x.data_as<float>()[i] + 1)) << i;
  }
}

// --- verification ---

// Turns the first subtraction into an addition, as a faulty pass might.
bool Break(Graph& g) {
  for (NodeId n : g.AllNodes()) {
    if (g.node(n).op.full() == "aten::sub.Tensor") {
      g.SetOp(n, OpName::Get("aten::add.Tensor"));
      return true;
    }
    if (const Attribute* a = g.node(n).FindAttribute("Subgraph")) {
      if (Break(**std::get_if<std::shared_ptr<Graph>>(a))) return true;
    }
  }
  return false;
}

TEST(VerifyTest, NamesThePassThatChangedTheMeaning) {
  for (const std::string pass : {"functionalize", "expand-composites", "fuse"}) {
    CompileOptions options;
    options.verify = true;
    bool broken = false;
    options.on_pass = [&](absl::string_view name, const Graph& g) {
      if (name == pass && !broken) broken = Break(const_cast<Graph&>(g));
    };
    const absl::Status s = CompileTo(R"(
graph(%a : Float(4, strides=[1]), %b : Float(4, strides=[1])):
  %one : int = prim::Constant[value=1]()
  %x : Tensor = aten::mul_(%a, %b)
  %y : Tensor = aten::sub(%x, %b, %one)
  %z : Tensor = aten::relu(%y)
  return (%z)
)",
                                     Scratch("broken.smb"), options);
    EXPECT_TRUE(broken) << pass;
    EXPECT_EQ(s.code(), absl::StatusCode::kInternal) << pass;
    EXPECT_TRUE(absl::StrContains(s.message(), absl::StrCat("pass ", pass, " changed the meaning"))) << s;
  }
}

}  // namespace
}  // namespace smelt
