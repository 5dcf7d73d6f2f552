#include "smelt/fuser/lower_group.h"

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

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
// The spec of the graph's only kernel.
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
