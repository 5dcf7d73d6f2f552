// Random pure graphs of pointwise operators, views, reductions, concatenations and region writes: the kernels of the
// fused graph, those of the unfused graph and the evaluator give the same bits. All numbers are small integers, so that
// the order of summation does not matter.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "smelt/core/eval/evaluator.h"
#include "smelt/core/ir/text.h"
#include "smelt/core/op/infer.h"
#include "smelt/fuser/expand_composites.h"
#include "smelt/fuser/fuse.h"
#include "smelt/fuser/fuse_testing.h"
#include "smelt/fuser/run_kernels.h"
#include "smelt/fuser/verify_fusion_plan.h"

namespace smelt {
namespace {

int64_t FromEnvironment(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  int64_t value;
  return text && absl::SimpleAtoi(text, &value) ? value : otherwise;
}

class GraphMaker {
 public:
  explicit GraphMaker(uint64_t seed) : rng_(seed) {}

  void Make() {
    const int inputs = 1 + Below(3);
    for (int k = 0; k < inputs; ++k) {
      std::vector<int64_t> sizes(1 + Below(3));
      for (int64_t& s : sizes) s = Pick({1, 2, 3, 4, 5});
      Tensor t = Tensor::Empty(DType::kFloat32, sizes);
      for (int64_t i = 0; i < t.NumElements(); ++i) t.data_as<float>()[i] = static_cast<float>(Below(9)) - 4;
      tensors.push_back(t);
      values_.push_back(
          g.AddInput(absl::StrCat("x", k), Type::Tensor(t.dtype(), Exprs(t.sizes()), Exprs(t.strides()))));
    }
    const int steps = 2 + Below(14);
    for (int k = 0; k < steps; ++k) Step();
    // Only results are observed: the last value, and some others that are not inputs.
    for (size_t k = inputs; k < values_.size(); ++k) {
      if (k + 1 == values_.size() || Below(5) == 0) g.AddOutput(values_[k]);
    }
    if (g.outputs().empty()) g.AddOutput(Clamped(values_[0]));
  }

  Graph g;
  std::vector<Tensor> tensors;

 private:
  int Below(int n) { return static_cast<int>(rng_() % static_cast<uint64_t>(n)); }
  int Pick(std::initializer_list<int> list) { return list.begin()[Below(static_cast<int>(list.size()))]; }
  static std::vector<Expr> Exprs(absl::Span<const int64_t> v) { return std::vector<Expr>(v.begin(), v.end()); }

  template <typename T>
  ValueId Const(T v) {
    return InsertConstant(g, g.block(g.top()).return_node, v);
  }
  ValueId None() { return InsertConstant(g, g.block(g.top()).return_node, std::monostate()); }
  // Returns null if the operator does not accept these operands.
  ValueId Op(const char* op, std::vector<ValueId> args) {
    const NodeId n = g.Append(g.top(), OpName::Get(op), args, {Type::Tensor()});
    if (!InferNode(g, n).ok()) {
      g.Erase(n);
      return ValueId();
    }
    return g.node(n).outputs[0];
  }
  const TensorType& T(ValueId v) const { return g.value(v).type.tensor(); }
  int Rank(ValueId v) const { return static_cast<int>(T(v).sizes->size()); }
  int64_t Size(ValueId v, int d) const { return *(*T(v).sizes)[d].Constant(); }
  ValueId Any() {
    return values_[Below(3) ? values_.size() - 1 - Below(std::min<int>(3, values_.size())) : Below(values_.size())];
  }
  ValueId Clamped(ValueId v) { return Op("aten::clamp", {v, Const(-8.0), Const(8.0)}); }

  void Step() {
    const ValueId a = Any(), b = Any();
    const int rank = Rank(a);
    const int d = rank ? Below(rank) : 0;
    ValueId r;
    switch (Below(17)) {
      case 0:
        r = Op(Below(2) ? "aten::neg" : "aten::abs", {a});
        break;
      case 1:
        r = Op("aten::relu", {a});
        break;
      case 2:
      case 3:
        if (Broadcasts(a, b)) r = Op(Below(2) ? "aten::add.Tensor" : "aten::sub.Tensor", {a, b, Const(int64_t{1})});
        break;
      case 4:
        if (Broadcasts(a, b)) r = Op("aten::mul.Tensor", {a, b});
        break;
      case 5:
        if (Broadcasts(a, b)) r = Op("aten::where.self", {Op("aten::gt.Tensor", {a, b}), a, b});
        break;
      case 6:
        if (rank > 1) r = Op("aten::transpose.int", {a, Const(int64_t{d}), Const(int64_t{Below(rank)})});
        break;
      case 7:
        if (rank) {
          const int64_t start = Below(static_cast<int>(Size(a, d))), step = 1 + Below(2);
          r = Op("aten::slice.Tensor", {a, Const(int64_t{d}), Const(start), Const(Size(a, d)), Const(step)});
        }
        break;
      case 8:
        if (rank)
          r = Op("aten::select.int", {a, Const(int64_t{d}), Const(int64_t{Below(static_cast<int>(Size(a, d)))})});
        break;
      case 9:
        if (rank < 4) r = Op("aten::unsqueeze", {a, Const(int64_t{Below(rank + 1)})});
        break;
      case 10:
        if (rank && T(a).strides) r = Flattened(a);
        break;
      case 11:
        if (rank) {
          const std::vector<int64_t> dims = {d};
          r = Op("aten::sum.dim_IntList", {a, Const(dims), Const(Below(2) != 0), None()});
        }
        break;
      case 12:
        if (rank) {
          const std::vector<int64_t> dims = {d};
          r = Op("aten::amax", {a, Const(dims), Const(Below(2) != 0)});
        }
        break;
      case 13: {
        // The form of a normalization: a reduction broadcast over the reduced elements.
        if (!rank) break;
        const std::vector<int64_t> dims = {d};
        const ValueId m = Op("aten::amax", {a, Const(dims), Const(true)});
        r = Op("aten::sub.Tensor", {a, m, Const(int64_t{1})});
        break;
      }
      case 14:
        if (rank && Rank(b) == rank && SameBut(a, b, d)) {
          const ValueId list =
              g.node(g.Append(g.top(), OpName::Get("prim::ListConstruct"), {a, b}, {Type::List(Type::Tensor())}))
                  .outputs[0];
          r = Op("aten::cat", {list, Const(int64_t{d})});
        }
        break;
      case 15:
        if (rank) {
          // Copies b into a copy of a, if some slice of a has its sizes.
          const int64_t n = 1 + Below(static_cast<int>(Size(a, d)));
          const int64_t start = Below(static_cast<int>(Size(a, d) - n + 1));
          ValueId src =
              Op("aten::slice.Tensor", {b, Const(int64_t{d}), Const(int64_t{0}), Const(n), Const(int64_t{1})});
          if (Rank(b) == rank && src.valid() && SameBut(a, src, d) && Size(src, d) == n) {
            r = Op("aten::slice_scatter",
                   {a, src, Const(int64_t{d}), Const(start), Const(start + n), Const(int64_t{1})});
          }
        }
        break;
      default:
        if (rank) {
          const std::vector<int64_t> dims = {d};
          r = Op("aten::flip", {a, Const(dims)});
        }
        break;
    }
    if (!r.valid()) return;
    if (Elements(r) > 4000 || Rank(r) > 4) return;
    values_.push_back(r);
    values_.push_back(Clamped(r));
  }

  int64_t Elements(ValueId v) const {
    int64_t n = 1;
    for (int d = 0; d < Rank(v); ++d) n *= Size(v, d);
    return n;
  }
  bool Broadcasts(ValueId a, ValueId b) const {
    for (int k = 1; k <= std::min(Rank(a), Rank(b)); ++k) {
      const int64_t x = Size(a, Rank(a) - k), y = Size(b, Rank(b) - k);
      if (x != y && x != 1 && y != 1) return false;
    }
    return true;
  }
  bool SameBut(ValueId a, ValueId b, int dim) const {
    for (int d = 0; d < Rank(a); ++d) {
      if (d != dim && Size(a, d) != Size(b, d)) return false;
    }
    return true;
  }
  // Views the elements in another shape, where they are contiguous.
  ValueId Flattened(ValueId v) {
    int64_t expected = 1;
    for (int d = Rank(v); d-- > 0;) {
      if (Size(v, d) != 1 && *(*T(v).strides)[d].Constant() != expected) return ValueId();
      expected *= Size(v, d);
    }
    std::vector<int64_t> sizes = {expected};
    for (int64_t p : {2, 3, 4}) {
      if (expected % p == 0 && Below(2)) {
        sizes = {p, expected / p};
        break;
      }
    }
    return Op("aten::view", {v, Const(sizes)});
  }

  std::mt19937_64 rng_;
  std::vector<ValueId> values_;
};

std::string Difference(const Tensor& got, const Tensor& want) {
  if (!std::equal(got.sizes().begin(), got.sizes().end(), want.sizes().begin(), want.sizes().end()))
    return "sizes differ";
  const Tensor a = got.Clone(), b = want.Clone();
  for (int64_t i = 0; i < a.NumElements(); ++i) {
    // -0 and 0 count as equal: maximum may return either.
    if (a.data_as<float>()[i] != b.data_as<float>()[i]) {
      return absl::StrCat("element ", i, " is ", a.data_as<float>()[i], ", ", b.data_as<float>()[i], " expected");
    }
  }
  return "";
}

// The row maxima of a square, used along its columns: they need another loop than the rows of the square.
TEST(FuseRandomTest, ReductionUsedAlongTheOtherDimOfASquare) {
  auto g = ParseGraph(R"(graph(%x : Float(2, 2, strides=[2, 1])):
  %rows : int[] = prim::Constant[value=[1]]()
  %columns : int[] = prim::Constant[value=[0]]()
  %no : bool = prim::Constant[value=False]()
  %one : int = prim::Constant[value=1]()
  %a : Float(2, 2, strides=[2, 1]) = aten::relu(%x)
  %m : Float(2, strides=[1]) = aten::amax(%a, %rows, %no)
  %y : Float(2, 2, strides=[2, 1]) = aten::mul.Tensor(%m, %a)
  %z : Float(2, 2, strides=[2, 1]) = aten::add.Tensor(%y, %m, %one)
  %n : Float(2, strides=[1]) = aten::amax(%z, %columns, %no)
  return (%z, %n)
)");
  ASSERT_TRUE(g.ok()) << g.status();
  ASSERT_TRUE(FuseGraph(**g).ok());
  Tensor x = Tensor::Empty(DType::kFloat32, {2, 2});
  for (int i = 0; i < 4; ++i) x.data_as<float>()[i] = static_cast<float>(i + 1);  // maxima 2 and 4
  auto r = RunKernels(**g, {x});
  ASSERT_TRUE(r.ok()) << r.status();
  const float want[] = {1 * 2 + 2, 2 * 4 + 4, 3 * 2 + 2, 4 * 4 + 4};
  for (int i = 0; i < 4; ++i) EXPECT_EQ(r->outputs[0].data_as<float>()[i], want[i]) << i;
  EXPECT_EQ(r->outputs[1].data_as<float>()[0], 8);
  EXPECT_EQ(r->outputs[1].data_as<float>()[1], 20);
}

TEST(FuseRandomTest, FusedEqualsUnfusedEqualsTheEvaluator) {
  const int64_t cases = FromEnvironment("SMELT_RANDOM_CASES", 400);
  const int64_t first = FromEnvironment("SMELT_RANDOM_SEED", 1);
  int groups = 0;
  for (int64_t seed = first; seed < first + cases; ++seed) {
    GraphMaker maker(seed);
    maker.Make();
    SCOPED_TRACE(absl::StrCat("seed ", seed, "\n", PrintGraph(maker.g)));
    std::vector<EvalValue> args;
    for (const Tensor& t : maker.tensors) args.push_back(EvalValue(t.Clone()));
    auto want = EvaluateGraph(maker.g, args);
    ASSERT_TRUE(want.ok()) << want.status();
    ASSERT_EQ(ExpandComposites(maker.g), absl::OkStatus());
    for (const bool fused : {false, true}) {
      if (fused) {
        auto report = FuseGraph(maker.g);
        ASSERT_TRUE(report.ok()) << report.status();
        groups += report->groups;
        ASSERT_EQ(VerifyFusionPlan(maker.g), absl::OkStatus());
      }
      SCOPED_TRACE(absl::StrCat(fused ? "fused\n" : "not fused\n", PrintGraph(maker.g)));
      std::vector<Tensor> inputs;
      for (const Tensor& t : maker.tensors) inputs.push_back(t.Clone());
      auto got = RunKernels(maker.g, inputs);
      ASSERT_TRUE(got.ok()) << got.status();
      ASSERT_EQ(got->outputs.size(), want->outputs.size());
      for (size_t k = 0; k < want->outputs.size(); ++k) {
        ASSERT_EQ(Difference(got->outputs[k], want->outputs[k].tensor()), "") << "output " << k;
      }
    }
  }
  EXPECT_GT(groups, cases / 2);  // fusion took place
}

}  // namespace
}  // namespace smelt
