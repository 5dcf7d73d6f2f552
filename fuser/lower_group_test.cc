#include "smelt/fuser/lower_group.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/substitute.h"
#include "gtest/gtest.h"
#include "smelt/core/ir/text.h"
#include "smelt/fuser/run_kernels.h"

namespace smelt {
namespace {

std::unique_ptr<Graph> Parse(const std::string& text) {
  auto g = ParseGraph(text);
  if (!g.ok()) {
    ADD_FAILURE() << g.status();
    return std::make_unique<Graph>();
  }
  return *std::move(g);
}

Tensor Floats(std::vector<int64_t> sizes, std::vector<float> v) {
  Tensor t = Tensor::Empty(DType::kFloat32, sizes);
  EXPECT_EQ(t.NumElements(), static_cast<int64_t>(v.size()));
  std::memcpy(t.data(), v.data(), v.size() * sizeof(float));
  return t;
}
Tensor Longs(std::vector<int64_t> sizes, std::vector<int64_t> v) {
  Tensor t = Tensor::Empty(DType::kInt64, sizes);
  std::memcpy(t.data(), v.data(), v.size() * sizeof(int64_t));
  return t;
}
Tensor Iota(std::vector<int64_t> sizes) {
  Tensor t = Tensor::Empty(DType::kFloat32, sizes);
  for (int64_t i = 0; i < t.NumElements(); ++i) t.data_as<float>()[i] = static_cast<float>(i);
  return t;
}
template <typename T = float>
std::vector<T> Elements(const Tensor& t) {
  std::vector<T> out;
  Tensor dense = t.Clone();
  for (int64_t i = 0; i < dense.NumElements(); ++i) out.push_back(dense.data_as<T>()[i]);
  return out;
}
std::vector<Tensor> RunText(const std::string& text, const std::vector<Tensor>& inputs) {
  auto g = Parse(text);
  auto r = RunKernels(*g, inputs);
  if (!r.ok()) {
    ADD_FAILURE() << r.status();
    return std::vector<Tensor>(8, Tensor::Empty(DType::kFloat32, std::vector<int64_t>{0}));
  }
  return r->outputs;
}
int Count(const std::string& text, const std::string& part) {
  int n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}
// Returns the spec of the graph's only kernel.
std::string Spec(const std::string& text) {
  auto g = Parse(text);
  for (NodeId n : g->Nodes(g->top())) {
    if (!IsKernelNode(*g, n)) continue;
    auto k = LowerGroup(*g, n, [&](ValueId v) { return DefaultLayout(*g, v); });
    if (!k.ok()) {
      ADD_FAILURE() << k.status();
      return "";
    }
    return k->spec.ToString();
  }
  ADD_FAILURE() << "no kernel";
  return "";
}

TEST(LowerGroup, AddBroadcastsARow) {
  auto r = RunText(R"(graph(%x : Float(2, 3, strides=[3, 1]), %y : Float(3, strides=[1])):
  %a : int = prim::Constant[value=1]()
  %z : Float(2, 3, strides=[3, 1]) = aten::add.Tensor(%x, %y, %a)
  return (%z)
)",
                   {Iota({2, 3}), Floats({3}, {10, 20, 30})});
  EXPECT_EQ(Elements(r[0]), (std::vector<float>{10, 21, 32, 13, 24, 35}));
}

TEST(LowerGroup, ATransposedOperandIsReadInPlace) {
  auto r = RunText(R"(graph(%x : Float(2, 3, strides=[3, 1]), %y : Float(3, 2, strides=[2, 1])):
  %t : Float(2, 3, strides=[1, 2]) = smelt::view[sizes=[2, 3], strides=[1, 2], offset=0, dtype=6](%y)
  %z : Float(2, 3, strides=[3, 1]) = aten::mul.Tensor(%x, %t)
  return (%z)
)",
                   {Iota({2, 3}), Iota({3, 2})});
  EXPECT_EQ(Elements(r[0]), (std::vector<float>{0, 2, 8, 3, 12, 25}));
}

TEST(LowerGroup, ASumOverTheFirstDimIsVectorizedAlongTheSecond) {
  const std::string text = R"(graph(%x : Float(2, 3, strides=[3, 1])):
  %d : int[] = prim::Constant[value=[0]]()
  %k : bool = prim::Constant[value=0]()
  %n : NoneType = prim::Constant()
  %z : Float(3, strides=[1]) = aten::sum.dim_IntList(%x, %d, %k, %n)
  return (%z)
)";
  EXPECT_EQ(Elements(RunText(text, {Iota({2, 3})})[0]), (std::vector<float>{3, 5, 7}));
  EXPECT_NE(Spec(text).find("kernel parallel=1 reduction=1 vector=0"), std::string::npos) << Spec(text);
}

TEST(LowerGroup, ASumOverEverythingIsOneReductionDim) {
  const std::string text = R"(graph(%x : Float(2, 3, strides=[3, 1])):
  %n : NoneType = prim::Constant()
  %z : Float() = aten::sum(%x, %n)
  return (%z)
)";
  EXPECT_EQ(Elements(RunText(text, {Iota({2, 3})})[0]), (std::vector<float>{15}));
  EXPECT_NE(Spec(text).find("kernel parallel=0 reduction=1 vector=0"), std::string::npos) << Spec(text);
}

TEST(LowerGroup, ArgmaxGivesTheFirstOfEquals) {
  auto r = RunText(R"(graph(%x : Float(2, 4, strides=[4, 1])):
  %d : int = prim::Constant[value=1]()
  %k : bool = prim::Constant[value=0]()
  %z : Long(2, strides=[1]) = aten::argmax(%x, %d, %k)
  return (%z)
)",
                   {Floats({2, 4}, {1, 5, 5, 2, NAN, 1, NAN, 3})});
  EXPECT_EQ(Elements<int64_t>(r[0]), (std::vector<int64_t>{1, 0}));
}

TEST(LowerGroup, CumsumRunsAlongItsDim) {
  auto r = RunText(R"(graph(%x : Float(2, 3, strides=[3, 1])):
  %d : int = prim::Constant[value=0]()
  %n : NoneType = prim::Constant()
  %z : Float(2, 3, strides=[3, 1]) = aten::cumsum(%x, %d, %n)
  return (%z)
)",
                   {Iota({2, 3})});
  EXPECT_EQ(Elements(r[0]), (std::vector<float>{0, 1, 2, 3, 5, 7}));
}

TEST(LowerGroup, AWrittenRegionLeavesTheRestOfItsBase) {
  auto r = RunText(R"(graph(%x : Float(2, 3, strides=[3, 1]), %y : Float(2, strides=[1])):
  %z : Float(2, 3, strides=[3, 1]) = smelt::write_region[sizes=[2], strides=[3], offset=1, dtype=6](%x, %y)
  return (%z)
)",
                   {Iota({2, 3}), Floats({2}, {-1, -2})});
  EXPECT_EQ(Elements(r[0]), (std::vector<float>{0, -1, 2, 3, -2, 5}));
}

TEST(LowerGroup, IndexSelectRefusesAnIndexOutOfRange) {
  const std::string text = R"(graph(%x : Float(3, 2, strides=[2, 1]), %i : Long(2, strides=[1])):
  %d : int = prim::Constant[value=0]()
  %z : Float(2, 2, strides=[2, 1]) = aten::index_select(%x, %d, %i)
  return (%z)
)";
  EXPECT_EQ(Elements(RunText(text, {Iota({3, 2}), Longs({2}, {2, 0})})[0]), (std::vector<float>{4, 5, 0, 1}));
  auto g = Parse(text);
  EXPECT_FALSE(RunKernels(*g, {Iota({3, 2}), Longs({2}, {3, 0})}).ok());
  EXPECT_FALSE(RunKernels(*g, {Iota({3, 2}), Longs({2}, {-1, 0})}).ok());
}

TEST(LowerGroup, ScatterAddAccumulatesDuplicates) {
  auto r = RunText(R"(graph(%x : Float(3, strides=[1]), %i : Long(4, strides=[1]), %s : Float(4, strides=[1])):
  %d : int = prim::Constant[value=0]()
  %z : Float(3, strides=[1]) = smelt::inplace_scatter_add(%x, %d, %i, %s)
  return (%z)
)",
                   {Iota({3}), Longs({4}, {0, 2, 0, 0}), Floats({4}, {1, 10, 100, 1000})});
  EXPECT_EQ(Elements(r[0]), (std::vector<float>{1101, 1, 12}));
}

// Without iterations nothing is written to the common position, and its index is not checked.
TEST(LowerGroup, NoIndicesWriteNothing) {
  auto r = RunText(R"(graph(%x : Float(3, 2, strides=[2, 1])):
  %d : int = prim::Constant[value=0]()
  %v : float = prim::Constant[value=9.]()
  %n : int[] = prim::Constant[value=[0]]()
  %far : int = prim::Constant[value=7]()
  %l : int = prim::Constant[value=4]()
  %no : NoneType = prim::Constant()
  %i : Long(0, strides=[1]) = aten::full(%n, %far, %l, %no, %no, %no)
  %z : Float(3, 2, strides=[2, 1]) = smelt::inplace_index_fill.int_Scalar(%x, %d, %i, %v)
  return (%z)
)",
                   {Iota({3, 2})});
  EXPECT_EQ(Elements(r[0]), (std::vector<float>{0, 1, 2, 3, 4, 5}));
}

TEST(LowerGroup, PaddingReadsNothingOutside) {
  auto r = RunText(R"(graph(%x : Float(2, 2, strides=[2, 1])):
  %p : int[] = prim::Constant[value=[1, 0, 0, 1]]()
  %v : float = prim::Constant[value=9.]()
  %z : Float(3, 3, strides=[3, 1]) = aten::constant_pad_nd(%x, %p, %v)
  return (%z)
)",
                   {Iota({2, 2})});
  EXPECT_EQ(Elements(r[0]), (std::vector<float>{9, 0, 1, 9, 2, 3, 9, 9, 9}));
}

// For one element of padding the position next to the operand is known, and it is outside the operand.
TEST(LowerGroup, AnElementOfThePaddingAloneReadsNothingOutside) {
  auto g = Parse(R"(graph(%x : Float(5, strides=[1])):
  %z : Float(1, strides=[1]) = smelt::FusionGroup_0(%x)
  return (%z)
with smelt::FusionGroup_0 = graph(%x : Float(5, strides=[1])):
  %p : int[] = prim::Constant[value=[4, 0]]()
  %v : float = prim::Constant[value=9.]()
  %y : Float(9, strides=[1]) = aten::constant_pad_nd(%x, %p, %v)
  %s : Float(1, strides=[1]) = smelt::view[sizes=[1], strides=[1], offset=0, dtype=6](%y)
  %z : Float(1, strides=[1]) = aten::neg(%s)
  return (%z)
)");
  auto k = LowerGroup(*g, g->Nodes(g->top())[0], [&](ValueId v) { return DefaultLayout(*g, v); });
  ASSERT_TRUE(k.ok()) << k.status();
  for (const KernelInstr& in : k->spec.instrs) {
    if (in.op != KernelOp::kLoad) continue;
    const std::optional<int64_t> place = k->params[in.param].offset.Constant();
    EXPECT_TRUE(in.has_guard || (place && *place >= 0 && *place < 5)) << k->spec.ToString();
  }
}

// Addresses are sums of loop indices: there is no division.
void ExpectNoDivision(const std::string& spec) {
  EXPECT_EQ(spec.find("div"), std::string::npos) << spec;
  EXPECT_EQ(spec.find("rem"), std::string::npos) << spec;
}

TEST(LowerGroup, ARepeatRunsOverItsOperandAgain) {
  const std::string text = R"(graph(%x : Float(2, 4, strides=[4, 1])):
  %r : int[] = prim::Constant[value=[1, 3]]()
  %z : Float(2, 12, strides=[12, 1]) = aten::repeat(%x, %r)
  return (%z)
)";
  std::vector<float> want;
  for (int row : {0, 4}) {
    for (int i = 0; i < 12; ++i) want.push_back(static_cast<float>(row + i % 4));
  }
  EXPECT_EQ(Elements(RunText(text, {Iota({2, 4})})[0]), want);
  ExpectNoDivision(Spec(text));
}

TEST(LowerGroup, AViewThatFlattensAValueOfTheGroupRunsOverTheDimsItFlattens) {
  const std::string text = R"(graph(%x : Float(2, 3, 4, 8, strides=[96, 8, 24, 1])):
  %z : Float(2, 3, 32, strides=[96, 32, 1]) = smelt::FusionGroup_0(%x)
  return (%z)
with smelt::FusionGroup_0 = graph(%0 : Float(2, 3, 4, 8, strides=[96, 8, 24, 1])):
  %1 : Float(2, 3, 4, 8, strides=[96, 32, 8, 1]) = smelt::materialize[strides=exprs(96, 32, 8, 1)](%0)
  %2 : Float(2, 3, 32, strides=[96, 32, 1]) = smelt::view[dtype=6, offset=expr(0), sizes=exprs(2, 3, 32), strides=exprs(96, 32, 1)](%1)
  %3 : Float(2, 3, 32, strides=[96, 32, 1]) = aten::neg(%2)
  return (%3)
)";
  const Tensor x = Iota({2, 4, 3, 8}).View({{2, 3, 4, 8}, {96, 8, 24, 1}, 0});
  std::vector<float> want;
  for (float v : Elements(x)) want.push_back(-v);
  EXPECT_EQ(Elements(RunText(text, {x})[0]), want);
  ExpectNoDivision(Spec(text));
}

TEST(LowerGroup, ARollReadsTwoRuns) {
  const std::string text = R"(graph(%x : Float(3, 5, strides=[5, 1])):
  %s : int[] = prim::Constant[value=[-1, 7]]()
  %d : int[] = prim::Constant[value=[0, 1]]()
  %z : Float(3, 5, strides=[5, 1]) = aten::roll(%x, %s, %d)
  return (%z)
)";
  std::vector<float> want;
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 5; ++j) want.push_back(static_cast<float>((i + 1) % 3 * 5 + (j + 5 - 2) % 5));
  }
  EXPECT_EQ(Elements(RunText(text, {Iota({3, 5})})[0]), want);
  ExpectNoDivision(Spec(text));
}

TEST(LowerGroup, TheLastDimMayBeRolledTwice) {
  auto r = RunText(R"(graph(%x : Float(5, strides=[1])):
  %s : int[] = prim::Constant[value=[1, 3]]()
  %d : int[] = prim::Constant[value=[0, -1]]()
  %z : Float(5, strides=[1]) = aten::roll(%x, %s, %d)
  return (%z)
)",
                   {Iota({5})});
  EXPECT_EQ(Elements(r[0]), (std::vector<float>{1, 2, 3, 4, 0}));
}

TEST(LowerGroup, EdgesAreReflectedAndRepeated) {
  auto text = [](const std::string& op) {
    return R"(graph(%x : Float(2, 4, strides=[4, 1])):
  %p : int[] = prim::Constant[value=[2, 1]]()
  %z : Float(2, 7, strides=[7, 1]) = aten::)" +
           op + "(%x, %p)\n  return (%z)\n";
  };
  EXPECT_EQ(Elements(RunText(text("reflection_pad1d"), {Iota({2, 4})})[0]),
            (std::vector<float>{2, 1, 0, 1, 2, 3, 2, 6, 5, 4, 5, 6, 7, 6}));
  EXPECT_EQ(Elements(RunText(text("replication_pad1d"), {Iota({2, 4})})[0]),
            (std::vector<float>{0, 0, 0, 1, 2, 3, 3, 4, 4, 4, 5, 6, 7, 7}));
}

TEST(LowerGroup, ACircularPaddingTakesTheOtherEnd) {
  const std::string text = R"(graph(%x : Float(1, 2, 4, strides=[8, 4, 1])):
  %p : int[] = prim::Constant[value=[2, 1]]()
  %z : Float(1, 2, 7, strides=[14, 7, 1]) = aten::_pad_circular(%x, %p)
  return (%z)
)";
  EXPECT_EQ(Elements(RunText(text, {Iota({1, 2, 4})})[0]),
            (std::vector<float>{2, 3, 0, 1, 2, 3, 0, 6, 7, 4, 5, 6, 7, 4}));
}

TEST(LowerGroup, APaddingWiderThanWhatItRepeatsIsAnErrorOfTheCall) {
  auto run = [](const char* op, int64_t size) {
    auto g = Parse(absl::Substitute(R"(graph(%x : Float(1, s0, strides=[s0, 1])):
  symbol s0 in [0, 64] hint 8
  %p : int[] = prim::Constant[value=[2, 1]]()
  %z : Float(1, s0 + 3, strides=[s0 + 3, 1]) = aten::$0(%x, %p)
  return (%z)
)",
                                    op));
    return RunKernels(*g, {Iota({1, size})}, {.symbols = {{"s0", size}}});
  };
  for (auto [op, least] :
       {std::pair("reflection_pad1d", 3), std::pair("_pad_circular", 2), std::pair("replication_pad1d", 1)}) {
    EXPECT_TRUE(run(op, least).ok()) << op << ": " << run(op, least).status();
    EXPECT_FALSE(run(op, least - 1).ok()) << op;
  }
  EXPECT_EQ(Elements(run("reflection_pad1d", 3)->outputs[0]), (std::vector<float>{2, 1, 0, 1, 2, 1}));
}

TEST(LowerGroup, ElementsRepeatedInPlaceAreReadOnceAVector) {
  const std::string text = R"(graph(%x : Float(2, 16, strides=[16, 1])):
  %n : int = prim::Constant[value=2]()
  %d : int = prim::Constant[value=1]()
  %o : NoneType = prim::Constant()
  %z : Float(2, 32, strides=[32, 1]) = aten::repeat_interleave.self_int(%x, %n, %d, %o)
  return (%z)
)";
  std::vector<float> want;
  for (int i = 0; i < 64; ++i) want.push_back(static_cast<float>(i / 2));
  EXPECT_EQ(Elements(RunText(text, {Iota({2, 16})})[0]), want);
  // One point of the loops stores an element at both of its positions.
  EXPECT_EQ(Count(Spec(text), "load."), 1) << Spec(text);
  EXPECT_EQ(Count(Spec(text), "param float32 w [two]"), 2) << Spec(text);
}

TEST(LowerGroup, AWindowsIndexIsThatOfItsFirstMaximumOrOfItsLastNan) {
  const std::string text = R"(graph(%x : Float(1, 1, 2, 6, strides=[12, 12, 6, 1])):
  %k : int[] = prim::Constant[value=[2, 2]]()
  %p : int[] = prim::Constant[value=[0, 0]]()
  %d : int[] = prim::Constant[value=[1, 1]]()
  %c : bool = prim::Constant[value=0]()
  %z : Float(1, 1, 1, 3, strides=[3, 3, 3, 1]), %i : Long(1, 1, 1, 3, strides=[3, 3, 3, 1]) = aten::max_pool2d_with_indices(%x, %k, %k, %p, %d, %c)
  return (%z, %i)
)";
  const float nan = std::nanf("");
  // Expected are PyTorch's results.
  const auto r = RunText(text, {Floats({1, 1, 2, 6}, {7, 7, nan, 1, 2, nan, 7, 3, nan, 2, nan, 9})});
  EXPECT_EQ(Elements<int64_t>(r[1]), (std::vector<int64_t>{0, 8, 10}));
  EXPECT_EQ(Elements(r[0])[0], 7);
  EXPECT_TRUE(std::isnan(Elements(r[0])[1]) && std::isnan(Elements(r[0])[2]));
}

TEST(LowerGroup, OfRowsOfAFewNumbersAPointOfTheLoopsIsOneRow) {
  // Boxes: corners from centers and sizes, shifted by one box. It is known which part of the list a number belongs to.
  auto text = [](int boxes, int numbers) {
    return absl::Substitute(
        R"(graph(%c : Float($0, $1, strides=[$1, 1]), %s : Float($0, $1, strides=[$1, 1]), %m : Float($2, strides=[1])):
  %z : Float($0, $2, strides=[$2, 1]) = smelt::FusionGroup_0(%c, %s, %m)
  return (%z)
with smelt::FusionGroup_0 = graph(%c : Float($0, $1, strides=[$1, 1]), %s : Float($0, $1, strides=[$1, 1]), %m : Float($2, strides=[1])):
  %a : int = prim::Constant[value=1]()
  %l : Float($0, $1, strides=[$1, 1]) = aten::sub.Tensor(%c, %s, %a)
  %h : Float($0, $1, strides=[$1, 1]) = aten::add.Tensor(%c, %s, %a)
  %p : Tensor[] = prim::ListConstruct(%l, %h)
  %y : Float($0, $2, strides=[$2, 1]) = aten::cat(%p, %a)
  %z : Float($0, $2, strides=[$2, 1]) = aten::add.Tensor(%y, %m, %a)
  return (%z)
)",
        boxes, numbers, 2 * numbers);
  };
  for (int numbers : {1, 2, 3}) {
    std::vector<float> want, move;
    for (int k = 0; k < 2 * numbers; ++k) move.push_back(static_cast<float>(100 * k));
    for (int b = 0; b < 20; ++b) {
      for (int k = 0; k < 2 * numbers; ++k) {
        const int at = b * numbers + k % numbers;
        want.push_back(static_cast<float>(at + (k < numbers ? -2 * at : 2 * at) + 100 * k));
      }
    }
    Tensor size = Iota({20, numbers});
    for (int i = 0; i < 20 * numbers; ++i) size.data_as<float>()[i] *= 2;
    const std::vector<Tensor> args = {Iota({20, numbers}), size, Floats({2 * numbers}, move)};
    EXPECT_EQ(Elements(RunText(text(20, numbers), args)[0]), want) << numbers;
  }
  EXPECT_EQ(Count(Spec(text(20, 2)), "store."), 4) << Spec(text(20, 2));
  EXPECT_EQ(Count(Spec(text(20, 2)), "guard"), 0) << Spec(text(20, 2));
  EXPECT_EQ(Count(Spec(text(20, 2)), "kernel parallel=1"), 1) << Spec(text(20, 2));
  // Six numbers form their own row; and few boxes fill no vectors.
  EXPECT_EQ(Count(Spec(text(20, 3)), "store."), 1) << Spec(text(20, 3));
  EXPECT_EQ(Count(Spec(text(5, 2)), "store."), 1) << Spec(text(5, 2));
}

TEST(LowerGroup, DimsThatCouldBeOneLoopAreOneBesideATransposedOperand) {
  // Rows and columns of an image whose channels are innermost, and are the tiles' rows.
  const std::string text = R"(graph(%x : Float(2, 8, 3, 5, strides=[120, 1, 40, 8])):
  %z : Float(2, 8, 3, 5, strides=[120, 15, 5, 1]) = smelt::materialize[strides=[120, 15, 5, 1]](%x)
  return (%z)
)";
  EXPECT_NE(Spec(text).find("kernel parallel=3 reduction=0 vector=2"), std::string::npos) << Spec(text);
  EXPECT_NE(Spec(text).find("r [any,unit,any]"), std::string::npos) << Spec(text);
}

TEST(LowerGroup, AFewNumbersOfATransposedOperandAreReadByTilesUnlessTheyAreNarrow) {
  const auto spec = [](const std::string& type) {
    return Spec(absl::Substitute(R"(graph(%x : $0(100, 7, strides=[1, 100])):
  %z : $0(100, 7, strides=[7, 1]) = smelt::materialize[strides=[7, 1]](%x)
  return (%z)
)",
                                 type));
  };
  EXPECT_NE(spec("Float").find("w [any,unit]"), std::string::npos) << spec("Float");
  EXPECT_NE(spec("BFloat16").find("w [unit,any]"), std::string::npos) << spec("BFloat16");
}

TEST(LowerGroup, AFewNumbersAtDatasPlacesAreNot) {
  const std::string text =
      R"(graph(%x : Float(5, 100, 8, strides=[800, 1, 100]), %i : Long(6, strides=[1])):
  %d : int = prim::Constant[value=0]()
  %z : Float(6, 100, 8, strides=[800, 8, 1]) = aten::index_select(%x, %d, %i)
  return (%z)
)";
  EXPECT_NE(Spec(text).find("w [any,unit,any]"), std::string::npos) << Spec(text);
}

TEST(LowerGroup, AWindowThatSlidesIsVectorizedAlongItsWay) {
  const std::string text = R"(graph(%x : Float(1, 1, 4, 6, strides=[24, 24, 6, 1])):
  %k : int[] = prim::Constant[value=[2, 2]]()
  %p : int[] = prim::Constant[value=[0, 0]]()
  %d : int[] = prim::Constant[value=[1, 1]]()
  %c : bool = prim::Constant[value=0]()
  %z : Float(1, 1, 2, 3, strides=[6, 6, 3, 1]) = aten::max_pool2d(%x, %k, %k, %p, %d, %c)
  return (%z)
)";
  EXPECT_EQ(Elements(RunText(text, {Iota({1, 1, 4, 6})})[0]), (std::vector<float>{7, 9, 11, 19, 21, 23}));
  EXPECT_NE(Spec(text).find("kernel parallel=2 reduction=2 vector=1"), std::string::npos) << Spec(text);
}

TEST(LowerGroup, AWindowOfMoreElementsThanItsRowHasWindowsIsReadAlongItself) {
  const std::string text = R"(graph(%x : Float(1, 1, 2, 6, strides=[12, 12, 6, 1])):
  %k : int[] = prim::Constant[value=[2, 3]]()
  %p : int[] = prim::Constant[value=[0, 0]]()
  %d : int[] = prim::Constant[value=[1, 1]]()
  %c : bool = prim::Constant[value=0]()
  %z : Float(1, 1, 1, 2, strides=[2, 2, 2, 1]) = aten::max_pool2d(%x, %k, %k, %p, %d, %c)
  return (%z)
)";
  EXPECT_EQ(Elements(RunText(text, {Iota({1, 1, 2, 6})})[0]), (std::vector<float>{8, 11}));
  EXPECT_NE(Spec(text).find("kernel parallel=1 reduction=2 vector=2"), std::string::npos) << Spec(text);
}

TEST(LowerGroup, AWeightedSumOfPlanesIsVectorizedAlongThePlanes) {
  const std::string text = R"(graph(%x : Float(3, 4, strides=[4, 1]), %w : Float(3, 1, strides=[1, 1])):
  %z : Float(4, strides=[1]) = smelt::FusionGroup_0(%x, %w)
  return (%z)
with smelt::FusionGroup_0 = graph(%0 : Float(3, 4, strides=[4, 1]), %1 : Float(3, 1, strides=[1, 1])):
  %2 : Float(3, 4, strides=[4, 1]) = aten::mul.Tensor(%0, %1)
  %3 : int[] = prim::Constant[value=[0]]()
  %4 : bool = prim::Constant[value=0]()
  %5 : NoneType = prim::Constant()
  %6 : Float(4, strides=[1]) = aten::sum.dim_IntList(%2, %3, %4, %5)
  return (%6)
)";
  EXPECT_EQ(Elements(RunText(text, {Iota({3, 4}), Floats({3, 1}, {1, 10, 100})})[0]),
            (std::vector<float>{840, 951, 1062, 1173}));
  EXPECT_NE(Spec(text).find("kernel parallel=1 reduction=1 vector=0"), std::string::npos) << Spec(text);
}

TEST(LowerGroup, ASumOfRowsThatDataChoosesIsVectorizedAlongTheRows) {
  const std::string text = R"(graph(%x : Float(4, 3, strides=[3, 1]), %i : Long(2, strides=[1])):
  %z : Float(3, strides=[1]) = smelt::FusionGroup_0(%x, %i)
  return (%z)
with smelt::FusionGroup_0 = graph(%0 : Float(4, 3, strides=[3, 1]), %1 : Long(2, strides=[1])):
  %2 : int = prim::Constant[value=0]()
  %3 : Float(2, 3, strides=[3, 1]) = aten::index_select(%0, %2, %1)
  %4 : int[] = prim::Constant[value=[0]]()
  %5 : bool = prim::Constant[value=0]()
  %6 : NoneType = prim::Constant()
  %7 : Float(3, strides=[1]) = aten::sum.dim_IntList(%3, %4, %5, %6)
  return (%7)
)";
  EXPECT_EQ(Elements(RunText(text, {Iota({4, 3}), Longs({2}, {3, 1})})[0]), (std::vector<float>{12, 14, 16}));
  EXPECT_NE(Spec(text).find("kernel parallel=1 reduction=1 vector=0"), std::string::npos) << Spec(text);
}

TEST(LowerGroup, ShortRowsAreReducedSideBySide) {
  auto text = [](int64_t rows, int64_t apart) {
    return absl::Substitute(R"(graph(%x : Float($0, 3, strides=[$1, 1])):
  %d : int[] = prim::Constant[value=[1]]()
  %k : bool = prim::Constant[value=0]()
  %n : NoneType = prim::Constant()
  %z : Float($0, strides=[1]) = aten::sum.dim_IntList(%x, %d, %k, %n)
  return (%z)
)",
                            rows, apart);
  };
  auto is_side_by_side = [&](int64_t rows, int64_t apart) {
    const std::string spec = Spec(text(rows, apart));
    EXPECT_NE(spec.find("kernel parallel=1 reduction=1 vector="), std::string::npos) << spec;
    return spec.find("vector=0") != std::string::npos;
  };
  std::vector<float> want;
  for (int i = 0; i < 32; ++i) want.push_back(static_cast<float>(9 * i + 3));
  EXPECT_EQ(Elements(RunText(text(32, 3), {Iota({32, 3})})[0]), want);
  EXPECT_TRUE(is_side_by_side(32, 3));
  EXPECT_TRUE(is_side_by_side(150, 512));
  // Four of them do not fill a vector; rows of a vector at a distance of a power of two evict each other from the
  // cache.
  EXPECT_FALSE(is_side_by_side(20, 3));
  EXPECT_FALSE(is_side_by_side(32, 1024));
}

TEST(LowerGroup, OfRowsWhoseNumberHangsOnTheCallThereAreMany) {
  const auto text = [](const std::string& size) {
    return absl::Substitute(R"(graph(%x : Float($0, 5, strides=[5, 1])):
  symbol s0 in [2, inf] hint 4
  %d : int[] = prim::Constant[value=[1]]()
  %k : bool = prim::Constant[value=0]()
  %n : NoneType = prim::Constant()
  %z : Float($0, strides=[1]) = aten::sum.dim_IntList(%x, %d, %k, %n)
  return (%z)
)",
                            size);
  };
  EXPECT_EQ(Spec(text("s0")), Spec(text("1024")));
  EXPECT_NE(Spec(text("s0")), Spec(text("4")));
}

TEST(LowerGroup, PlacesThatDataChooseForAllRowsAreReadOnceAVectorOfRows) {
  const std::string text = R"(graph(%x : Float(32, 10, strides=[10, 1]), %i : Long(2, strides=[1])):
  %d : int = prim::Constant[value=1]()
  %z : Float(32, 2, strides=[2, 1]) = aten::index_select(%x, %d, %i)
  return (%z)
)";
  std::vector<float> want;
  for (int i = 0; i < 32; ++i) {
    want.push_back(static_cast<float>(10 * i + 7));
    want.push_back(static_cast<float>(10 * i + 2));
  }
  EXPECT_EQ(Elements(RunText(text, {Iota({32, 10}), Longs({2}, {7, 2})})[0]), want);
  // The rows are those of the vector, along which neither index changes.
  EXPECT_EQ(Count(Spec(text), "param int64 r [zero]"), 2) << Spec(text);
}

TEST(LowerGroup, ChannelsThatLieTogetherAreTheVectorWhereDataChoosePlaces) {
  // Two images of 3 positions with 8 channels each; two positions of each are selected, channels first, and added.
  const std::string text =
      R"(graph(%x : Float(2, 8, 3, strides=[24, 1, 8]), %i : Long(2, 8, 2, strides=[2, 0, 1]), %j : Long(2, 8, 2, strides=[2, 0, 1])):
  %z : Float(2, 8, 2, strides=[16, 2, 1]) = smelt::FusionGroup_0(%x, %i, %j)
  return (%z)
with smelt::FusionGroup_0 = graph(%0 : Float(2, 8, 3, strides=[24, 1, 8]), %1 : Long(2, 8, 2, strides=[2, 0, 1]), %2 : Long(2, 8, 2, strides=[2, 0, 1])):
  %3 : int = prim::Constant[value=2]()
  %4 : bool = prim::Constant[value=0]()
  %5 : int = prim::Constant[value=1]()
  %6 : Float(2, 8, 2, strides=[16, 2, 1]) = aten::gather(%0, %3, %1, %4)
  %7 : Float(2, 8, 2, strides=[16, 2, 1]) = aten::gather(%0, %3, %2, %4)
  %8 : Float(2, 8, 2, strides=[16, 2, 1]) = aten::add.Tensor(%6, %7, %5)
  return (%8)
)";
  const Tensor images = Iota({2, 8, 3}).View({{2, 8, 3}, {24, 1, 8}, 0});
  std::vector<float> want;
  for (int n = 0; n < 2; ++n) {
    for (int c = 0; c < 8; ++c) {
      for (int sum : {2 + 1, 0 + 2}) want.push_back(static_cast<float>(2 * (24 * n + c) + 8 * sum));
    }
  }
  const Geometry of_all_channels = {{2, 8, 2}, {2, 0, 1}, 0};
  const Tensor i = Longs({2, 1, 2}, {2, 0, 2, 0}).View(of_all_channels);
  const Tensor j = Longs({2, 1, 2}, {1, 2, 1, 2}).View(of_all_channels);
  EXPECT_EQ(Elements(RunText(text, {images, i, j})[0]), want);
  EXPECT_NE(Spec(text).find("param float32 r [any,unit]"), std::string::npos) << Spec(text);
}

TEST(LowerGroup, ADimThatRunsOverTwoOfItsBaseIsTakenApart) {
  // [2, 12, 4] as [8, 3, 4]: indices in the last dim come from data, so dividing them would break up a vector.
  const std::string text = R"(graph(%x : Float(2, 12, 4, strides=[48, 4, 1]), %i : Long(8, 3, 1, strides=[3, 1, 1])):
  %z : Float(8, 3, 1, strides=[3, 1, 1]) = smelt::FusionGroup_0(%x, %i)
  return (%z)
with smelt::FusionGroup_0 = graph(%0 : Float(2, 12, 4, strides=[48, 4, 1]), %1 : Long(8, 3, 1, strides=[3, 1, 1])):
  %2 : Float(2, 12, 4, strides=[48, 4, 1]) = aten::neg(%0)
  %3 : Float(8, 3, 4, strides=[12, 4, 1]) = smelt::view[dtype=6, offset=expr(0), sizes=exprs(8, 3, 4), strides=exprs(12, 4, 1)](%2)
  %4 : int = prim::Constant[value=2]()
  %5 : bool = prim::Constant[value=0]()
  %6 : Float(8, 3, 1, strides=[3, 1, 1]) = aten::gather(%3, %4, %1, %5)
  return (%6)
)";
  std::vector<int64_t> places;
  std::vector<float> want;
  for (int k = 0; k < 24; ++k) {
    places.push_back(k % 4);
    want.push_back(-static_cast<float>(4 * k + k % 4));
  }
  EXPECT_EQ(Elements(RunText(text, {Iota({2, 12, 4}), Longs({8, 3, 1}, places)})[0]), want);
  EXPECT_EQ(Spec(text).find("div"), std::string::npos) << Spec(text);
}

TEST(LowerGroup, APlaceOfAFoldSumsTheElementsThatReachIt) {
  // Windows of 3 at every second position: x[k][b] = 2 * k + b is element k of window b.
  const std::string text = R"(graph(%x : Float(1, 3, 2, strides=[6, 2, 1])):
  %o : int[] = prim::Constant[value=[1, 5]]()
  %k : int[] = prim::Constant[value=[1, 3]]()
  %d : int[] = prim::Constant[value=[1, 1]]()
  %p : int[] = prim::Constant[value=[0, 0]]()
  %s : int[] = prim::Constant[value=[1, 2]]()
  %z : Float(1, 1, 1, 5, strides=[5, 5, 5, 1]) = aten::col2im(%x, %o, %k, %d, %p, %s)
  return (%z)
)";
  EXPECT_EQ(Elements(RunText(text, {Iota({1, 3, 2})})[0]), (std::vector<float>{0, 2, 4 + 1, 3, 5}));
}

TEST(LowerGroup, WindowsOfOtherLengthsAreReadAlongThemselves) {
  // 10 elements in 3 windows: [0, 4), [3, 7), [6, 10). The start of each is computed by a division.
  const std::string text = R"(graph(%x : Float(2, 1, 10, strides=[10, 10, 1])):
  %o : int[] = prim::Constant[value=[3]]()
  %z : Float(2, 1, 3, strides=[3, 3, 1]) = aten::adaptive_avg_pool1d(%x, %o)
  return (%z)
)";
  EXPECT_EQ(Elements(RunText(text, {Iota({2, 1, 10})})[0]), (std::vector<float>{1.5, 4.5, 7.5, 11.5, 14.5, 17.5}));
  EXPECT_NE(Spec(text).find("parallel=2 reduction=1 vector=2"), std::string::npos) << Spec(text);
}

TEST(LowerGroup, ScansThatKeepAnIndexTakeManyShortRowsAtATime) {
  const std::string text = R"(graph(%x : Float(16, 3, strides=[3, 1])):
  %d : int = prim::Constant[value=1]()
  %v : Float(16, 3, strides=[3, 1]), %i : Long(16, 3, strides=[3, 1]) = aten::cummax(%x, %d)
  return (%v, %i)
)";
  Tensor x = Tensor::Empty(DType::kFloat32, {16, 3});
  std::vector<float> values;
  std::vector<int64_t> indices;
  for (int row = 0; row < 16; ++row) {
    const float from = static_cast<float>(row);
    const float rows[2][3] = {{from, from - 1, from + 1}, {from, from + 1, from}};
    std::copy_n(rows[row % 2], 3, x.data_as<float>() + 3 * row);
    for (float v : {from, row % 2 ? from + 1 : from, from + 1}) values.push_back(v);
    for (int64_t i : {0, row % 2 ? 1 : 0, row % 2 ? 1 : 2}) indices.push_back(i);
  }
  const std::vector<Tensor> have = RunText(text, {x});
  EXPECT_EQ(Elements(have[0]), values);
  EXPECT_EQ(Elements<int64_t>(have[1]), indices);
  EXPECT_NE(Spec(text).find("kernel parallel=1 reduction=1 vector=0"), std::string::npos) << Spec(text);
}

TEST(LowerGroup, ScansThatCompareRunInVectorsAlongLongRowsAndSumsInOrder) {
  const std::string x = "Float(16, 64, strides=[64, 1])";
  auto spec = [&](const std::string& scan) {
    return Spec("graph(%x : " + x +
                "):\n  %d : int = prim::Constant[value=1]()\n  %n : NoneType = prim::Constant()\n  %v : " + x + scan +
                "\n  return (%v)\n");
  };
  EXPECT_NE(spec(", %i : Long(16, 64, strides=[64, 1]) = aten::cummax(%x, %d)").find("reduction=1 vector=1 "),
            std::string::npos);
  EXPECT_NE(spec(" = aten::cumsum(%x, %d, %n)").find("reduction=1 vector=-1 "), std::string::npos);
}

TEST(LowerGroup, OneKernelForOtherSizesAndConstants) {
  auto text = [](const std::string& n, const std::string& c) {
    return "graph(%x : Float(" + n + ", 4, strides=[4, 1])):\n  %c : float = prim::Constant[value=" + c +
           "]()\n  %a : int = prim::Constant[value=1]()\n  %z : Float(" + n +
           ", 4, strides=[4, 1]) = aten::add.Scalar(%x, %c, %a)\n  return (%z)\n";
  };
  EXPECT_EQ(Spec(text("3", "2.5")), Spec(text("7", "1.")));
}

TEST(LowerGroup, CommutedOperandsGiveOneKernel) {
  auto text = [](const std::string& args) {
    return "graph(%x : Float(3, 4, strides=[4, 1]), %y : Float(4, strides=[1])):\n  %z : Float(3, 4, strides=[4, 1]) = "
           "aten::mul.Tensor(" +
           args + ")\n  return (%z)\n";
  };
  EXPECT_EQ(Spec(text("%x, %y")), Spec(text("%y, %x")));
}

}  // namespace
}  // namespace smelt
