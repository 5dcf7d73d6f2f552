#include "smelt/runtime/program.h"

#include <algorithm>
#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/runtime/testing/hand_bundle.h"

namespace smelt {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
constexpr int kData = static_cast<int>(fb::MutationKind::Data);
constexpr int kGeometry = static_cast<int>(fb::MutationKind::Geometry);
constexpr int kStorage = static_cast<int>(fb::MutationKind::Storage);
constexpr int kResized = static_cast<int>(fb::MutationKind::Resized);

std::vector<Datum> RunOk(Instance& i, std::vector<Datum> args) {
  auto r = i.Run(args);
  EXPECT_TRUE(r.ok()) << r.status();
  return r.ok() ? *std::move(r) : std::vector<Datum>();
}

// f(x): return x + 1, x of any length
void AddOneModel(HandBundle& b) {
  const int n = b.Symbol("n", fb::SymbolSource::ArgSize, 0, 0);
  b.VectorArg("x", n);
  b.Output("y");
  HandPlan p = b.Plan();
  const int bytes = b.Mul(n, b.Const(4));
  const int x = p.Vector(p.ArgSlot(0), n), y = p.Vector(p.FreshSlot(bytes), n);
  p.Launch(kAddOne, n, x, y);
  p.Output(fb::OutputKind::Fresh, -1, y);
}

TEST(ProgramTest, AKernelRunsAtEverySize) {
  HandBundle b;
  AddOneModel(b);
  auto i = b.Instantiate();
  for (int n : {3, 1, 0, 3, 100000, 3}) {
    std::vector<float> in(n), want(n);
    for (int k = 0; k < n; ++k) in[k] = static_cast<float>(k), want[k] = static_cast<float>(k + 1);
    auto out = RunOk(*i, {VectorOf(in)});
    ASSERT_EQ(out.size(), 1);
    EXPECT_EQ(FloatsOf(out[0].tensor()), want);
    EXPECT_EQ(i->last_call().kernel_launches, n == 0 ? 0 : 1);
  }
}

TEST(ProgramTest, TwoInstancesOfOneProgramRunAtOnce) {
  HandBundle b;
  AddOneModel(b);
  auto program = b.Load();
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      auto i = Instance::Create(program).value();
      for (int round = 0; round < 20; ++round) {
        Tensor x = Tensor::Empty(DType::kFloat32, {50000 + t});
        std::fill_n(x.data_as<float>(), x.NumElements(), static_cast<float>(round));
        auto y = i->Run({x});
        if (!y.ok()) continue;
        const std::vector<float> got = FloatsOf((*y)[0].tensor());
        right += std::count(got.begin(), got.end(), static_cast<float>(round + 1)) == 50000 + t;
      }
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(right, 60);
}

TEST(ProgramTest, AResultTheCallerDroppedIsUsedAgainAndOneThatIsHeldIsNot) {
  HandBundle b;
  AddOneModel(b);
  auto i = b.Instantiate();
  const Tensor x = VectorOf({1, 2});
  const Tensor held = RunOk(*i, {x})[0].tensor();
  const void* dropped = RunOk(*i, {x})[0].tensor().data();
  EXPECT_NE(dropped, held.data());
  EXPECT_EQ(RunOk(*i, {x})[0].tensor().data(), dropped);
  EXPECT_THAT(FloatsOf(held), ElementsAre(2, 3));
}

TEST(ProgramTest, AResultIsComputedInTheCallersMemory) {
  HandBundle b;
  AddOneModel(b);
  auto i = b.Instantiate();
  Tensor y = VectorOf({0, 0, 0});
  std::vector<Datum> outputs = {y};
  ASSERT_TRUE(i->RunInto({VectorOf({1, 2, 3})}, &outputs).ok());
  EXPECT_TRUE(outputs[0].tensor().IsSame(y));
  EXPECT_THAT(FloatsOf(y), ElementsAre(2, 3, 4));
  // Strided memory, and memory that the model reads later, are written by a copy.
  Tensor wide = VectorOf({9, 9, 9, 9, 9, 9});
  outputs = {wide.View({{3}, {2}, 0})};
  ASSERT_TRUE(i->RunInto({VectorOf({1, 2, 3})}, &outputs).ok());
  EXPECT_THAT(FloatsOf(wide), ElementsAre(2, 9, 3, 9, 4, 9));
  Tensor x = VectorOf({1, 2, 3, 4});
  outputs = {x.View({{3}, {1}, 1})};
  ASSERT_TRUE(i->RunInto({x.View({{3}, {1}, 0})}, &outputs).ok());
  EXPECT_THAT(FloatsOf(x), ElementsAre(1, 2, 3, 4));
  outputs = {VectorOf({0, 0})};
  EXPECT_EQ(i->RunInto({VectorOf({1, 2, 3})}, &outputs).code(), absl::StatusCode::kInvalidArgument);
}

TEST(ProgramTest, WhatDoesNotFitTheSignatureIsSaidByName) {
  HandBundle b;
  AddOneModel(b);
  b.raw().symbols[0]->min = 2;
  auto i = b.Instantiate();
  const auto error = [&](std::vector<Datum> args) { return i->Run(args).status(); };
  EXPECT_THAT(error({}).message(), HasSubstr("takes 1 argument, 0 were given"));
  EXPECT_THAT(error({3}).message(), HasSubstr("argument \"x\" is an int, expected a tensor"));
  EXPECT_THAT(error({Tensor::Empty(DType::kInt64, {3})}).message(), HasSubstr("is of int64, expected float32"));
  EXPECT_THAT(error({Tensor::Empty(DType::kFloat32, {3, 1})}).message(),
              HasSubstr("has sizes [3, 1], expected [2 or more]"));
  EXPECT_THAT(error({VectorOf({1})}).message(), HasSubstr("argument \"x\": size 0 is 1, expected at least 2"));
  EXPECT_THAT(error({VectorOf({1, 2}).View({{5}, {1}, 0})}).message(), HasSubstr("reaches outside its storage"));
  EXPECT_THAT(error({VectorOf({1, 2}).View({{INT64_MAX}, {INT64_MAX}, 0})}).message(), HasSubstr("reaches outside"));
  EXPECT_THAT(error({Tensor()}).message(), HasSubstr("expected a tensor"));
  for (const auto& s : {error({}), error({3}), error({VectorOf({1})})}) {
    EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument);
  }
}

// f(x, y): x.relu_(); return x, y + 1; with plans for x, y apart, the same, and the order of the program.
void WriteModel(HandBundle& b) {
  const int n = b.Const(4);
  b.VectorArg("x", n);
  b.VectorArg("y", n);
  b.Output("x");
  b.Output("z");
  for (fb::VariantKind variant : {fb::VariantKind::Distinct, fb::VariantKind::Duplicate, fb::VariantKind::EagerOrder}) {
    HandPlan p = b.Plan(variant);
    const bool same = variant == fb::VariantKind::Duplicate;
    if (same) p.Identify({0, 0});
    const int x = p.Vector(p.ArgSlot(0), n);
    const int y = same ? x : p.Vector(p.ArgSlot(1), n);
    const int z = p.Vector(p.FreshSlot(b.Const(16)), n);
    p.Launch(kRelu, n, x, x);
    p.Launch(kAddOne, n, y, z);
    p.Mutated(0, kData)->written = {x};
    p.Output(fb::OutputKind::IsArg, 0);
    p.Output(fb::OutputKind::Fresh, -1, z);
    p.raw().written_args = same ? std::vector<int>{0, 1} : std::vector<int>{0};
  }
}

TEST(AliasVariantTest, TheCallsPatternChoosesThePlan) {
  HandBundle b;
  WriteModel(b);
  auto i = b.Instantiate();
  Tensor x = VectorOf({-1, 2, -3, 4}), y = VectorOf({-5, 6, -7, 8});
  auto out = RunOk(*i, {x, y});
  EXPECT_EQ(i->last_call().variant, AliasVariant::kDistinct);
  EXPECT_TRUE(out[0].tensor().IsSame(x));
  EXPECT_THAT(FloatsOf(x), ElementsAre(0, 2, 0, 4));
  EXPECT_THAT(FloatsOf(out[1].tensor()), ElementsAre(-4, 7, -6, 9));

  Tensor both = VectorOf({-1, 2, -3, 4});
  out = RunOk(*i, {both, both});
  EXPECT_EQ(i->last_call().variant, AliasVariant::kDuplicate);
  EXPECT_THAT(FloatsOf(out[1].tensor()), ElementsAre(1, 3, 1, 5));

  // To a model that changes no geometry, another tensor over the same memory is the same tensor.
  Tensor twin = VectorOf({-1, 2, -3, 4});
  out = RunOk(*i, {twin, twin.View(twin.geometry())});
  EXPECT_EQ(i->last_call().variant, AliasVariant::kDuplicate);

  Tensor base = VectorOf({-1, -2, -3, -4, -5, -6});
  out = RunOk(*i, {base.View({{4}, {1}, 0}), base.View({{4}, {1}, 2})});
  EXPECT_EQ(i->last_call().variant, AliasVariant::kEagerOrder);
  EXPECT_THAT(FloatsOf(base), ElementsAre(0, 0, 0, 0, -5, -6));
  EXPECT_THAT(FloatsOf(out[1].tensor()), ElementsAre(1, 1, -4, -5));

  Tensor apart = VectorOf({-1, -2, -3, -4, -5, -6, -7, -8});
  out = RunOk(*i, {apart.View({{4}, {1}, 0}), apart.View({{4}, {1}, 4})});
  EXPECT_EQ(i->last_call().variant, AliasVariant::kDistinct);
}

TEST(AliasVariantTest, StoragesOverTheSameMemoryOverlapToo) {
  HandBundle b;
  WriteModel(b);
  auto i = b.Instantiate();
  float memory[6] = {-1, -2, -3, -4, -5, -6};
  Tensor x(Storage::Borrow(memory, 16), DType::kFloat32, Geometry::Contiguous({4}));
  Tensor y(Storage::Borrow(memory + 2, 16), DType::kFloat32, Geometry::Contiguous({4}));
  RunOk(*i, {x, y});
  EXPECT_EQ(i->last_call().variant, AliasVariant::kEagerOrder);
}

TEST(AliasVariantTest, AModelThatWritesNothingTakesAnyPattern) {
  HandBundle b;
  const int n = b.Const(2);
  b.VectorArg("x", n);
  b.VectorArg("y", n);
  b.Output("z");
  HandPlan p = b.Plan();
  const int y = p.Vector(p.ArgSlot(1), n), z = p.Vector(p.FreshSlot(b.Const(8)), n);
  p.Launch(kAddOne, n, y, z);
  p.Output(fb::OutputKind::Fresh, -1, z);
  auto i = b.Instantiate();
  Tensor x = VectorOf({1, 2});
  EXPECT_THAT(FloatsOf(RunOk(*i, {x, x})[0].tensor()), ElementsAre(2, 3));
}

TEST(AliasVariantTest, APatternWithoutAPlanIsRefusedBeforeAnythingIsWritten) {
  HandBundle b;
  WriteModel(b);
  b.raw().plans.resize(1);
  b.raw().refused_patterns = "compiled with --alias-variants=none";
  auto i = b.Instantiate();
  Tensor x = VectorOf({-1, 2, -3, 4});
  const absl::Status s = i->Run({x, x}).status();
  EXPECT_EQ(s.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(s.message(), HasSubstr("\"x\" and \"y\" are the same tensor"));
  EXPECT_THAT(s.message(), HasSubstr("--alias-variants=none"));
  EXPECT_THAT(FloatsOf(x), ElementsAre(-1, 2, -3, 4));
}

TEST(AliasVariantTest, ManyArgumentsAreComparedToo) {
  HandBundle b;
  const int n = b.Const(2);
  for (int k = 0; k < 40; ++k) b.VectorArg(absl::StrCat("x", k), n);
  for (fb::VariantKind v : {fb::VariantKind::Distinct, fb::VariantKind::EagerOrder}) {
    HandPlan p = b.Plan(v);
    for (int k = 0; k < 40; ++k) {
      const int x = p.Vector(p.ArgSlot(k), n);
      p.Launch(kAddOne, n, x, x);
      p.raw().written_args.push_back(k);
    }
  }
  auto i = b.Instantiate();
  Tensor all = VectorOf(std::vector<float>(80, 0));
  std::vector<Datum> args;
  for (int k = 0; k < 40; ++k) args.push_back(all.View({{2}, {1}, 2 * (k * 7 % 40)}));
  RunOk(*i, args);
  EXPECT_EQ(i->last_call().variant, AliasVariant::kDistinct);
  args[31] = all.View({{2}, {1}, 3});
  RunOk(*i, args);
  EXPECT_EQ(i->last_call().variant, AliasVariant::kEagerOrder);
}

TEST(AliasVariantTest, AnArgumentInTheModelsOwnStateIsNoticed) {
  HandBundle b;
  const int n = b.Const(2);
  b.VectorArg("x", n);
  b.State("s", {10, 20}, /*mutated=*/true);
  b.Output("s");
  for (fb::VariantKind v : {fb::VariantKind::Distinct, fb::VariantKind::EagerOrder}) {
    HandPlan p = b.Plan(v);
    const int x = p.Vector(p.ArgSlot(0), n), s = p.Vector(p.StateSlot(0), n);
    p.Launch(kAddOne, n, x, x);
    p.Launch(kAddOne, n, s, s);
    p.raw().written_args = {0};
    p.raw().written_states = {0};
    p.Output(fb::OutputKind::IsState, 0);
  }
  auto i = b.Instantiate();
  auto out = RunOk(*i, {VectorOf({1, 2})});
  EXPECT_EQ(i->last_call().variant, AliasVariant::kDistinct);
  EXPECT_THAT(FloatsOf(out[0].tensor()), ElementsAre(11, 21));
  EXPECT_TRUE(out[0].tensor().IsSame(i->state(0)));
  RunOk(*i, {out[0].tensor()});
  EXPECT_EQ(i->last_call().variant, AliasVariant::kEagerOrder);
  EXPECT_THAT(FloatsOf(i->state(0)), ElementsAre(13, 23));
  ASSERT_TRUE(i->ResetStates().ok());
  EXPECT_THAT(FloatsOf(i->state(0)), ElementsAre(10, 20));
}

TEST(AliasVariantTest, OverlappingArgumentsMayBeAllowedByAPlan) {
  HandBundle b;
  WriteModel(b);
  b.raw().plans.resize(1);
  HandPlan p(&b, b.raw().plans[0].get());
  p.MayOverlap({0, 1}, /*same_storage=*/true);
  auto i = b.Instantiate();
  Tensor base = VectorOf({-1, -2, -3, -4, -5, -6});
  RunOk(*i, {base.View({{4}, {1}, 0}), base.View({{4}, {1}, 2})});
  const absl::Status s = i->Run({VectorOf({1, 2, 3, 4}), VectorOf({1, 2, 3, 4})}).status();
  EXPECT_THAT(s.message(), HasSubstr("are not in one storage"));
}

TEST(ConventionTest, GeometryChangesOnTheCallersTensorAfterTheData) {
  // f(x): x.add_(1); x.t_(); return x[0] (a view)
  HandBundle b;
  b.TensorArg("x", DType::kFloat32, b.Consts({2, 3}), b.Consts({3, 1}));
  b.Output("row");
  HandPlan p = b.Plan();
  const int slot = p.ArgSlot(0);
  const int flat = p.Vector(slot, b.Const(6));
  p.Launch(kAddOne, b.Const(6), flat, flat);
  const int turned = p.View(slot, b.Consts({3, 2}), b.Consts({1, 3}));
  p.Mutated(0, kData | kGeometry, turned);
  p.Output(fb::OutputKind::AliasOfArg, 0, p.View(slot, b.Consts({2}), b.Consts({3}), b.Const(1)));
  p.raw().written_args = {0};
  auto i = b.Instantiate();
  Tensor base = VectorOf({9, 9, 0, 1, 2, 3, 4, 5});
  Tensor x = base.View({{2, 3}, {3, 1}, 2});
  Tensor row = RunOk(*i, {x})[0].tensor();
  EXPECT_EQ(x.geometry(), (Geometry{{3, 2}, {1, 3}, 2}));
  EXPECT_THAT(FloatsOf(base), ElementsAre(9, 9, 1, 2, 3, 4, 5, 6));
  EXPECT_EQ(row.storage(), base.storage());
  EXPECT_EQ(row.geometry(), (Geometry{{2}, {3}, 3}));
}

TEST(ConventionTest, ATensorGivenTwiceWhoseGeometryChangesNeedsItsOwnPlan) {
  HandBundle b;
  b.TensorArg("x", DType::kFloat32, b.Consts({2, 3}), b.Consts({3, 1}));
  b.TensorArg("y", DType::kFloat32, b.Consts({2, 3}), b.Consts({3, 1}));
  HandPlan p = b.Plan();
  p.Mutated(0, kGeometry, p.View(p.ArgSlot(0), b.Consts({3, 2}), b.Consts({1, 3})));
  p.raw().written_args = {0};
  auto i = b.Instantiate();
  Tensor x = VectorOf({1, 2, 3, 4, 5, 6}).View({{2, 3}, {3, 1}, 0});
  EXPECT_EQ(i->Run({x, x}).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(x.rank(), 2);
  // A second tensor over the same memory keeps its own geometry: no conflict.
  Tensor y = x.View(x.geometry());
  RunOk(*i, {x, y});
  EXPECT_EQ(x.sizes()[0], 3);
  EXPECT_EQ(y.sizes()[0], 2);
}

TEST(ConventionTest, AnArgumentIsResizedAndAnotherGetsANewStorage) {
  // f(x, y): x.resize_(4); x[2:] = y + 1; y.set_(y + 1)
  HandBundle b;
  const int two = b.Const(2), four = b.Const(4);
  b.VectorArg("x", two);
  b.VectorArg("y", two);
  HandPlan p = b.Plan();
  const int xs = p.ArgSlot(0), fresh = p.FreshSlot(b.Const(8));
  const int y = p.Vector(p.ArgSlot(1), two), z = p.Vector(fresh, two);
  p.Launch(kAddOne, two, y, z);
  p.Copy(z, p.View(xs, {two}, {b.Const(1)}, two), /*copy_back=*/true);
  p.Mutated(0, kData | kGeometry | kResized, p.Vector(xs, four))->final_bytes = b.Const(16);
  p.Mutated(1, kGeometry | kStorage, z);
  p.raw().written_args = {0, 1};
  auto i = b.Instantiate();
  Tensor xt = VectorOf({1, 2}), yt = VectorOf({3, 4});
  const Tensor old_y = yt.View(yt.geometry());
  RunOk(*i, {xt, yt});
  EXPECT_THAT(FloatsOf(xt), ElementsAre(1, 2, 4, 5));
  EXPECT_THAT(FloatsOf(yt), ElementsAre(4, 5));
  EXPECT_THAT(FloatsOf(old_y), ElementsAre(3, 4));
  EXPECT_EQ(i->last_call().bytes_copied_back, 8);
}

TEST(ConventionTest, TwoViewsOfOneIntermediateShareItsStorage) {
  HandBundle b;
  const int n = b.Const(4);
  b.VectorArg("x", n);
  b.Output("a");
  b.Output("b");
  HandPlan p = b.Plan();
  const int fresh = p.FreshSlot(b.Const(16)), z = p.Vector(fresh, n);
  p.Launch(kAddOne, n, p.Vector(p.ArgSlot(0), n), z);
  p.Output(fb::OutputKind::AliasOfIntermediate, -1, p.View(fresh, b.Consts({2}), b.Consts({2})));
  p.Output(fb::OutputKind::AliasOfIntermediate, -1, p.View(fresh, b.Consts({2, 2}), b.Consts({1, 2})));
  auto i = b.Instantiate();
  auto out = RunOk(*i, {VectorOf({0, 1, 2, 3})});
  EXPECT_EQ(out[0].tensor().storage(), out[1].tensor().storage());
  EXPECT_THAT(FloatsOf(out[0].tensor()), ElementsAre(1, 3));
  EXPECT_THAT(FloatsOf(out[1].tensor()), ElementsAre(1, 3, 2, 4));
}

TEST(ConventionTest, OfTheCallersMemoryAViewOfAnIntermediateWritesItsElementsOnly) {
  // f(x): returns a view of x + 1: all of it, part of it, part of it twice.
  struct View {
    std::vector<int64_t> sizes, strides;
    std::vector<float> want;
  };
  for (const View& v : {View{{3, 2}, {1, 3}, {1, 4, 2, 5, 3, 6}}, View{{6}, {1}, {1, 2, 3, 4, 5, 6}},
                        View{{1, 6, 1}, {9, 1, 9}, {1, 2, 3, 4, 5, 6}}, View{{3}, {2}, {1, 3, 5}},
                        View{{3, 2}, {2, 0}, {1, 1, 3, 3, 5, 5}}}) {
    HandBundle b;
    const int n = b.Const(6);
    b.VectorArg("x", n);
    b.Output("y");
    HandPlan p = b.Plan();
    const int fresh = p.FreshSlot(b.Const(24)), z = p.Vector(fresh, n);
    p.Launch(kAddOne, n, p.Vector(p.ArgSlot(0), n), z);
    p.Output(fb::OutputKind::AliasOfIntermediate, -1, p.View(fresh, b.Consts(v.sizes), b.Consts(v.strides)));
    auto i = b.Instantiate();
    Tensor memory = VectorOf(std::vector<float>(12, 9));
    const Tensor y = memory.View({v.sizes, v.strides, 3});
    std::vector<Datum> outputs = {y};
    ASSERT_TRUE(i->RunInto({VectorOf({0, 1, 2, 3, 4, 5})}, &outputs).ok());
    EXPECT_EQ(FloatsOf(y), v.want);
    int others = 0;
    for (float f : FloatsOf(memory)) others += f == 9;
    EXPECT_EQ(others, 12 - static_cast<int>(std::set<float>(v.want.begin(), v.want.end()).size()));
  }
}

TEST(StepTest, ScalarsGoIntoKernelsAndOut) {
  // f(x, s: float, n: int): return x * s, n, 2 * n
  HandBundle b;
  const int four = b.Const(4);
  b.VectorArg("x", four);
  b.ScalarArg("s", fb::ArgKind::Float);
  b.ScalarArg("n", fb::ArgKind::Int);
  b.Output("y");
  b.Output("n", fb::ArgKind::Int);
  b.Output("m", fb::ArgKind::Int);
  const int n = b.Symbol("n", fb::SymbolSource::ArgInt, 2, 0, INT64_MIN);
  HandPlan p = b.Plan();
  const int y = p.Vector(p.FreshSlot(b.Const(16)), four);
  auto* l = p.Launch(kScale, four, p.Vector(p.ArgSlot(0), four), y);
  l->words.emplace_back(fb::WordKind::ArgScalar, 1, 1, 0);
  p.Output(fb::OutputKind::Fresh, -1, y);
  p.Output(fb::OutputKind::IsArg, 2);
  p.Output(fb::OutputKind::Scalar)->expr = b.Mul(n, b.Const(2));
  auto i = b.Instantiate();
  auto out = RunOk(*i, {VectorOf({1, 2, 3, 4}), 0.5, 21});
  EXPECT_THAT(FloatsOf(out[0].tensor()), ElementsAre(0.5, 1, 1.5, 2));
  EXPECT_EQ(out[1].as_int(), 21);
  EXPECT_EQ(out[2].as_int(), 42);
  out = RunOk(*i, {VectorOf({1, 2, 3, 4}), 2, -3});  // an int where a float is expected
  EXPECT_THAT(FloatsOf(out[0].tensor()), ElementsAre(2, 4, 6, 8));
  EXPECT_EQ(out[2].as_int(), -6);
}

// while x[0] < limit: x = x + 1; in a buffer of the arena. Then if x[0] < 100: y = x + 1 else y = relu(x).
TEST(StepTest, WhileAndIfRunOnDataFromTensors) {
  HandBundle b;
  const int two = b.Const(2), one = b.Const(1);
  b.VectorArg("x", two);
  b.ScalarArg("limit", fb::ArgKind::Int);
  b.Output("y");
  b.Output("trips", fb::ArgKind::Int);
  HandPlan p = b.Plan();
  p.raw().num_registers = 4;
  p.raw().arena_bytes = b.Const(128);
  const int carried = p.Vector(p.ArenaSlot(b.Const(0), b.Const(8)), two);
  const int flag = p.View(p.ArenaSlot(b.Const(64), b.Const(1)), {one}, {one}, -1, DType::kBool);
  const int y = p.Vector(p.FreshSlot(b.Const(8)), two);
  const auto less = [&](fb::Word limit, int block) {
    auto* l = p.Step<fb::LaunchT>(block);
    l->kernel = kLess;
    l->words = {p.Address(carried), limit, p.Address(flag)};
    l->tiles = l->bytes = one;
    l->reads = {carried};
    l->writes = {flag};
    auto* r = p.Step<fb::ReadScalarT>(block);
    r->view = flag;
    r->register_ = 0;
  };
  p.Copy(p.Vector(p.ArgSlot(0), two), carried, false);
  auto* w = p.Step<fb::WhileT>();
  w->predicate = 0;
  w->counter = 1;
  w->cond_block = 1;
  w->body_block = 2;
  less(fb::Word(fb::WordKind::ArgScalar, 1, 0, 0), 1);
  p.Launch(kAddOne, two, carried, carried, 2);
  less(fb::Word(fb::WordKind::IntConst, 0, 0, 100), 0);
  auto* f = p.Step<fb::IfT>();
  f->predicate = 0;
  f->then_block = 3;
  f->else_block = 4;
  p.Launch(kAddOne, two, carried, y, 3);
  p.Launch(kRelu, two, carried, y, 4);
  p.Output(fb::OutputKind::Fresh, -1, y);
  p.Output(fb::OutputKind::Scalar, 1);
  auto i = b.Instantiate();
  auto out = RunOk(*i, {VectorOf({0, -7}), 5});
  EXPECT_THAT(FloatsOf(out[0].tensor()), ElementsAre(6, -1));
  EXPECT_EQ(out[1].as_int(), 5);
  out = RunOk(*i, {VectorOf({0, -200}), 100});
  EXPECT_THAT(FloatsOf(out[0].tensor()), ElementsAre(100, 0));
  out = RunOk(*i, {VectorOf({7, 1}), 3});  // no trip
  EXPECT_THAT(FloatsOf(out[0].tensor()), ElementsAre(8, 2));
  EXPECT_EQ(out[1].as_int(), 0);
}

TEST(StepTest, SizesThatOnlyTheDataTellAreAllocatedWhenTheyAreKnown) {
  // nonzero(x)
  HandBundle b;
  const int n = b.Symbol("n", fb::SymbolSource::ArgSize, 0, 0);
  const int u = b.Symbol("u0", fb::SymbolSource::Data);
  const int one = b.Const(1);
  b.VectorArg("x", n);
  b.Output("where");
  b.Output("count", fb::ArgKind::Int);
  HandPlan p = b.Plan();
  p.raw().num_registers = 1;
  p.raw().arena_bytes = b.Const(64);
  const int x = p.Vector(p.ArgSlot(0), n);
  const int count = p.View(p.ArenaSlot(b.Const(0), b.Const(8)), {}, {}, -1, DType::kInt64);
  const int fresh = p.FreshSlot(b.Mul(u, b.Const(8)));
  const int where = p.View(fresh, {u, one}, {one, one}, -1, DType::kInt64);
  auto* c = p.Step<fb::LibraryCallT>();
  c->op = "count_nonzero";
  c->inputs = {x};
  c->outputs = {count};
  auto* r = p.Step<fb::ReadScalarT>();
  r->view = count;
  r->register_ = 0;
  r->symbol = 1;
  p.Step<fb::AllocT>()->slot = fresh;
  auto* z = p.Step<fb::LibraryCallT>();
  z->op = "nonzero";
  z->inputs = {x};
  z->outputs = {where};
  p.Output(fb::OutputKind::Fresh, -1, where);
  p.Output(fb::OutputKind::Scalar)->expr = u;
  auto i = b.Instantiate();
  for (int round = 0; round < 2; ++round) {
    auto out = RunOk(*i, {VectorOf({0, 5, 0, 7, 8})});
    EXPECT_THAT(out[0].tensor().sizes(), ElementsAre(3, 1));
    const int64_t* w = out[0].tensor().data_as<int64_t>();
    EXPECT_THAT(std::vector<int64_t>(w, w + 3), ElementsAre(1, 3, 4));
    EXPECT_EQ(out[1].as_int(), 3);
    out = RunOk(*i, {VectorOf({0, 0})});
    EXPECT_THAT(out[0].tensor().sizes(), ElementsAre(0, 1));
  }
}

TEST(StepTest, AFailingKernelIsAnErrorWithItsPlaceAndWhatMayBeWritten) {
  HandBundle b;
  const int n = b.Const(2);
  b.VectorArg("x", n);
  HandPlan p = b.Plan();
  const int x = p.Vector(p.ArgSlot(0), n);
  p.Launch(kAddOne, n, x, x);
  p.Launch(kFail, n, x, x);
  p.raw().blocks[0]->steps[1]->source = "model.py:41";
  p.raw().written_args = {0};
  auto i = b.Instantiate();
  const absl::Status s = i->Run({VectorOf({1, 2})}).status();
  EXPECT_EQ(s.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(s.message(), HasSubstr("model.py:41: index out of range"));
  EXPECT_THAT(s.message(), HasSubstr("may have been written: x"));
}

TEST(StepTest, NothingIsToBeSeenOfACallThatItsDataRefuseWhereThePlanSaysThatTheyMay) {
  for (const int n : {2, 100000}) {  // so many elements are not remembered
    HandBundle b;
    const int size = b.Const(n);
    b.VectorArg("x", size);
    HandPlan p = b.Plan();
    const int x = p.Vector(p.ArgSlot(0), size);
    p.Launch(kAddOne, size, x, x);
    p.Launch(kFail, size, x, x);
    p.raw().written_args = {0};
    p.raw().may_refuse_late = true;
    auto i = b.Instantiate();
    const Datum arg = VectorOf(std::vector<float>(n, 1));
    const absl::Status s = i->Run({arg}).status();
    EXPECT_EQ(s.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(arg.tensor().data_as<float>()[1], n == 2 ? 1 : 2);
    EXPECT_EQ(s.message().find("may have been written: x") != std::string::npos, n > 2) << s.message();
  }
}

TEST(StepTest, GeometryIsCheckedBeforeAnythingIsWritten) {
  HandBundle b;
  const int n = b.Symbol("n", fb::SymbolSource::ArgSize, 0, 0), s = b.Symbol("s", fb::SymbolSource::ArgStride, 0, 0);
  b.TensorArg("x", DType::kFloat32, {n}, {s});
  HandPlan p = b.Plan();
  const int slot = p.ArgSlot(0);
  const int x = p.View(slot, {n}, {s});
  const int first = p.Vector(slot, b.Const(1));
  p.Launch(kAddOne, b.Const(1), first, first);
  auto check = std::make_unique<fb::CheckT>();
  check->kind = fb::CheckKind::NoInternalOverlap;
  check->a = x;
  check->message =
      "unsupported operation: more than one element of the written-to tensor refers to a single memory location";
  check->source = "model.py:7";
  p.raw().prologue_checks.push_back(std::move(check));
  p.raw().written_args = {0};
  auto i = b.Instantiate();
  Tensor x0 = VectorOf({1});
  const absl::Status status = i->Run({x0.View({{3}, {0}, 0})}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("model.py:7: unsupported operation"));
  EXPECT_THAT(FloatsOf(x0), ElementsAre(1));
  RunOk(*i, {VectorOf({1, 2}).View({{2}, {1}, 0})});
}

TEST(StepTest, GuardsAndExportedStridesChooseAPlan) {
  // Plan 0 for contiguous x of at least 3 elements, else a refusal with the reason.
  HandBundle b;
  const int n = b.Symbol("n", fb::SymbolSource::ArgSize, 0, 0);
  b.VectorArg("x", n);
  b.Output("y");
  HandPlan p = b.Plan();
  p.raw().needs_exported_strides = true;
  auto g = std::make_unique<fb::GuardT>();
  g->expr = b.Node(fb::ExprOp::Le, b.Const(3), n);
  g->message = "expected at least 3 elements";
  g->source = "model.py:3";
  p.raw().guards.push_back(std::move(g));
  const int y = p.Vector(p.FreshSlot(b.Mul(n, b.Const(4))), n);
  p.Launch(kAddOne, n, p.Vector(p.ArgSlot(0), n), y);
  p.Output(fb::OutputKind::Fresh, -1, y);
  auto i = b.Instantiate();
  RunOk(*i, {VectorOf({1, 2, 3})});
  EXPECT_THAT(i->Run({VectorOf({1, 2})}).status().message(), HasSubstr("model.py:3: expected at least 3 elements"));
  EXPECT_THAT(i->Run({VectorOf({1, 2, 3, 4, 5}).View({{3}, {2}, 0})}).status().message(),
              HasSubstr("has strides [2], expected those of the export: [1]"));
}

TEST(StepTest, RandomDrawsDependOnTheSeedAndTheCallAlone) {
  HandBundle b;
  const int n = b.Const(10000);
  b.Output("u");
  b.Output("g");
  HandPlan p = b.Plan();
  const int u = p.Vector(p.FreshSlot(b.Const(40000)), n), g = p.Vector(p.FreshSlot(b.Const(40000)), n);
  auto* r = p.Step<fb::RandomT>();
  r->kind = fb::RandomKind::Uniform;
  r->out = u;
  r->p0 = 2;
  r->p1 = 4;
  r = p.Step<fb::RandomT>();
  r->kind = fb::RandomKind::Normal;
  r->out = g;
  r->p0 = 1;
  r->p1 = 3;
  p.Output(fb::OutputKind::Fresh, -1, u);
  p.Output(fb::OutputKind::Fresh, -1, g);
  auto i = b.Instantiate();
  i->Seed(7);
  const std::vector<float> first = FloatsOf(RunOk(*i, {})[0].tensor());
  auto second = RunOk(*i, {});
  EXPECT_NE(first, FloatsOf(second[0].tensor()));
  i->Seed(7);
  EXPECT_EQ(first, FloatsOf(RunOk(*i, {})[0].tensor()));
  double mean = 0;
  for (float f : first) {
    EXPECT_TRUE(f >= 2 && f < 4);
    mean += f / 10000;
  }
  EXPECT_NEAR(mean, 3, 0.03);  // 5 sigma
  double sum = 0, squares = 0;
  for (float f : FloatsOf(second[1].tensor())) sum += f, squares += (f - 1.0) * (f - 1.0);
  EXPECT_NEAR(sum / 10000, 1, 0.15);
  EXPECT_NEAR(std::sqrt(squares / 10000), 3, 0.11);
}

TEST(StepTest, ALibraryCallRunsOnAConstantWeight) {
  // x [2, 3] @ w [3, 2]
  HandBundle b;
  b.TensorArg("x", DType::kFloat32, b.Consts({2, 3}), b.Consts({3, 1}));
  b.State("w", {1, 2, 3, 4, 5, 6}, false);
  b.Output("y");
  HandPlan p = b.Plan();
  const int x = p.View(p.ArgSlot(0), b.Consts({2, 3}), b.Consts({3, 1}));
  const int w = p.View(p.StateSlot(0), b.Consts({3, 2}), b.Consts({2, 1}));
  const int y = p.View(p.FreshSlot(b.Const(16)), b.Consts({2, 2}), b.Consts({2, 1}));
  auto* c = p.Step<fb::LibraryCallT>();
  c->op = "matmul";
  c->inputs = {x, w, -1};
  c->outputs = {y};
  p.Output(fb::OutputKind::Fresh, -1, y);
  auto i = b.Instantiate();
  auto out = RunOk(*i, {VectorOf({1, 0, 2, 0, 1, 0}).View({{2, 3}, {3, 1}, 0})});
  EXPECT_THAT(FloatsOf(out[0].tensor()), ElementsAre(11, 14, 3, 4));
  EXPECT_EQ(i->last_call().library_calls, 1);
}

TEST(ProgramTest, AMachineWithoutTheFeaturesIsToldWhatIsMissing) {
  HandBundle b;
  AddOneModel(b);
  b.raw().targets[0]->name = "level-9";
  b.raw().targets[0]->features = {kHandFeature, "avx9999"};
  const absl::Status s = b.TryLoad().status();
  EXPECT_EQ(s.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(s.message(), HasSubstr("hand.smb: level-9 needs avx9999, which this machine lacks"));
}

TEST(ProgramTest, AnUnknownLibraryOperatorIsRefusedAtLoad) {
  HandBundle b;
  AddOneModel(b);
  HandPlan p(&b, b.raw().plans[0].get());
  p.Step<fb::LibraryCallT>()->op = "quantum";
  EXPECT_EQ(b.TryLoad().status().code(), absl::StatusCode::kUnimplemented);
}

TEST(ProgramTest, AnEpilogueWithoutALaunchBehindItIsRefusedAtLoad) {
  HandBundle b;
  AddOneModel(b);
  HandPlan p(&b, b.raw().plans[0].get());
  auto* c = p.Step<fb::LibraryCallT>();
  c->op = "matmul";
  c->epilogue = true;
  const absl::Status s = b.TryLoad().status();
  EXPECT_EQ(s.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(s.message(), HasSubstr("has an epilogue, but no launch follows"));
}

}  // namespace
}  // namespace smelt
