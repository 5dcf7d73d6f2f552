// The decomposition of a composite gives the results of PyTorch's own operator: every recorded call is fully decomposed
// and run by the evaluator.
#include "smelt/core/op/decompose.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "smelt/core/base/check.h"
#include "smelt/core/eval/evaluator.h"
#include "smelt/core/ir/text.h"
#include "smelt/core/op/infer.h"
#include "smelt/core/op/op_answers.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/schema.h"
#include "smelt/core/op/verify.h"
#include "smelt/core/tensor/float16.h"

namespace smelt {
namespace {

// Adds an argument as a value of the graph; tensors become inputs.
ValueId Add(Graph& g, const AnswerValue& v, const Type& formal, std::vector<EvalValue>& inputs) {
  const NodeId end = g.block(g.top()).return_node;
  switch (v.kind) {
    case OpArg::Kind::kTensor: {
      inputs.push_back(EvalValue(v.tensor));
      return g.AddInput(
          "", Type::Tensor(*v.ToOpArg().tensor.dtype, *v.ToOpArg().tensor.sizes, *v.ToOpArg().tensor.strides));
    }
    case OpArg::Kind::kTensorList: {
      std::vector<ValueId> elements;
      for (const AnswerValue& x : v.list) elements.push_back(Add(g, x, Type(), inputs));
      return g.node(g.InsertBefore(end, OpName::Get("prim::ListConstruct"), elements, {Type::List(Type::Tensor())}))
          .outputs[0];
    }
    case OpArg::Kind::kInt:
      if (formal.kind() == TypeKind::kFloat) return InsertConstant(g, end, static_cast<double>(v.i));
      return InsertConstant(g, end, v.i);
    case OpArg::Kind::kFloat:
      return InsertConstant(g, end, v.f);
    case OpArg::Kind::kBool:
      return InsertConstant(g, end, v.i != 0);
    case OpArg::Kind::kComplex:
      return InsertConstant(g, end, v.c);
    case OpArg::Kind::kString:
      return InsertConstant(g, end, v.string);
    case OpArg::Kind::kIntList:
      return InsertConstant(g, end, v.ints);
    case OpArg::Kind::kFloatList:
      return InsertConstant(g, end, v.floats);
    case OpArg::Kind::kBoolList:
      return InsertConstant(g, end, v.bools);
    default:
      return InsertConstant(g, end, std::monostate());
  }
}

// The tolerance for all tensors of a composite: it may round more often than PyTorch's kernel, or in another order.
bool Near(const Tensor& have, const Tensor& want) {
  double largest = 1;
  for (int64_t i = 0; i < want.NumElements(); ++i) {
    const double w = std::fabs(ElementAsDouble(want, i));
    if (std::isfinite(w)) largest = std::max(largest, w);
  }
  const DType t = RealOf(want.dtype());
  const double unit = t == DType::kFloat64 ? 1e-9 : t == DType::kFloat32 ? 1e-5 : t == DType::kFloat16 ? 2e-3 : 1.6e-2;
  for (int64_t i = 0; i < want.NumElements(); ++i) {
    const double a = ElementAsDouble(have, i), b = ElementAsDouble(want, i);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    if (!(std::fabs(a - b) <= unit * largest)) return false;
  }
  return true;
}

TEST(DecomposeTest, CompositesGivePyTorchsAnswers) {
  auto loaded = OpAnswers::Load("testdata/op_answers.safetensors");
  SMELT_CHECK_OK(loaded.status());
  const OpAnswers& answers = *loaded;
  std::map<std::string, int> passed;
  std::map<std::string, std::vector<std::string>> failed, skipped;
  for (int i = 0; i < answers.size(); ++i) {
    const Answer a = answers.Get(i);
    const std::string& op = a.op.full();
    if (!HasDecomposition(a.op)) continue;
    const FunctionSchema* schema = FindSchema(a.op);
    Graph g;
    std::vector<EvalValue> inputs;
    std::vector<ValueId> args;
    for (size_t k = 0; k < a.args.size(); ++k) {
      Type formal = schema->arguments[k].type;
      if (formal.kind() == TypeKind::kOptional) formal = formal.element();
      args.push_back(Add(g, a.args[k], formal, inputs));
    }
    std::vector<Type> types;
    for (const AnswerValue& v : a.outputs) {
      types.push_back(v.kind == OpArg::Kind::kTensorList ? Type::List(Type::Tensor()) : Type::Tensor());
    }
    const NodeId n = g.Append(g.top(), a.op, args, types);
    for (ValueId v : g.node(n).outputs) g.AddOutput(v);
    auto changed = Decompose(g, n);
    if (!changed.ok() || !*changed) {
      std::string why = changed.ok() ? "not for these arguments" : std::string(changed.status().message());
      if (!changed.ok() && !absl::IsUnimplemented(changed.status())) {
        failed[op].push_back(absl::StrCat(answers.Describe(i), ": ", why));
      } else {
        skipped[op].push_back(why);
      }
      continue;
    }
    // Decomposes completely.
    std::string error;
    for (int round = 0; round < 10; ++round) {
      bool again = false;
      for (NodeId m : g.Nodes(g.top())) {
        if (!g.IsLive(m)) continue;
        const OpInfo& info = GetOpInfo(g.node(m).op);
        if (info.kind != OpKind::kComposite || !info.decomposes) continue;
        auto deeper = Decompose(g, m);
        if (!deeper.ok()) error = std::string(deeper.status().message());
        again |= deeper.ok() && *deeper;
      }
      if (!again) break;
    }
    if (error.empty()) {
      if (absl::Status s = VerifyGraph(g); !s.ok()) error = std::string(s.message());
    }
    if (!error.empty()) {
      failed[op].push_back(absl::StrCat(answers.Describe(i), ": ", error));
      continue;
    }
    auto r = EvaluateGraph(g, inputs);
    if (!r.ok()) {
      (absl::IsUnimplemented(r.status()) ? skipped : failed)[op].push_back(
          absl::StrCat(answers.Describe(i), ": ", r.status().message()));
      continue;
    }
    auto compare = [&](const EvalValue& have, const AnswerValue& want) -> std::string {
      if (!have.IsTensor()) return "not a tensor";
      std::string what = CompareTensors(have.tensor(), want.tensor, a.compare, true);
      // PyTorch's order of additions is not the evaluator's.
      if (what.substr(0, 7) == "element" && Near(have.tensor(), want.tensor)) what.clear();
      return what;
    };
    for (size_t k = 0; error.empty() && k < a.outputs.size(); ++k) {
      const EvalValue& have = r->outputs[k];
      if (a.outputs[k].kind == OpArg::Kind::kTensorList) {
        if (!have.IsList() || have.elements().size() != a.outputs[k].list.size()) {
          error = "a list of another length";
          continue;
        }
        for (size_t j = 0; error.empty() && j < a.outputs[k].list.size(); ++j)
          error = compare(have.elements()[j], a.outputs[k].list[j]);
      } else if (a.outputs[k].kind == OpArg::Kind::kTensor) {
        error = compare(have, a.outputs[k]);
      }
    }
    if (error.empty()) {
      ++passed[op];
    } else {
      failed[op].push_back(absl::StrCat(answers.Describe(i), ": ", error));
    }
  }
  int n = 0;
  for (auto& [op, count] : passed) n += count;
  std::printf("%d calls of %d operators equal PyTorch's\n", n, static_cast<int>(passed.size()));
  for (auto& [op, lines] : failed)
    std::printf("  DIFFERS %s: %d, %s\n", op.c_str(), static_cast<int>(lines.size()), lines[0].c_str());
  for (auto& [op, lines] : skipped)
    std::printf("  SKIPPED %s: %d, %s\n", op.c_str(), static_cast<int>(lines.size()), lines[0].c_str());
  EXPECT_TRUE(failed.empty());
}

// Bags of equal length are rows of a sum; offsets as data use the general form.
TEST(DecomposeTest, BagsOfOneLengthGiveWhatBagsAtGivenOffsetsDo) {
  for (int mode : {0, 1}) {
    for (int padding : {-1, 2}) {
      auto text = [&](bool range) {
        return absl::StrCat(
            "graph(%w : Float(5, 3, strides=[3, 1]), %i : Long(6, strides=[1]), %o : Long(3, strides=[1])):\n",
            "  %n : NoneType = prim::Constant()\n  %f : bool = prim::Constant[value=0]()\n",
            "  %0 : int = prim::Constant[value=0]()\n  %2 : int = prim::Constant[value=2]()\n",
            "  %6 : int = prim::Constant[value=6]()\n  %m : int = prim::Constant[value=", mode,
            "]()\n  %p : int = prim::Constant[value=", padding, "]()\n",
            "  %r : Long(3, strides=[1]) = aten::arange.start_step(%0, %6, %2, %n, %n, %n, %n)\n",
            "  %y : Float(3, 3, strides=[3, 1]), %a : Tensor, %b : Tensor, %c : Tensor = aten::_embedding_bag(%w, %i, ",
            range ? "%r" : "%o", ", %f, %m, %f, %n, %f, %p)\n  return (%y)\n");
      };
      const Tensor w = Tensor::Empty(DType::kFloat32, {5, 3}), i = Tensor::Empty(DType::kInt64, {6}),
                   o = Tensor::Empty(DType::kInt64, {3});
      for (int k = 0; k < 15; ++k) w.data_as<float>()[k] = static_cast<float>(k * k);
      for (int k = 0; k < 6; ++k) i.data_as<int64_t>()[k] = (k * 3 + 2) % 5;
      for (int k = 0; k < 3; ++k) o.data_as<int64_t>()[k] = 2 * k;
      std::vector<Tensor> answers;
      int sums = 0;  // of how many bags have begun
      for (bool range : {true, false}) {
        auto g = ParseGraph(text(range));
        SMELT_CHECK_OK(g.status());
        for (NodeId n : (*g)->Nodes((*g)->top())) {
          if ((*g)->node(n).op != "aten::_embedding_bag") continue;
          auto done = Decompose(**g, n);
          ASSERT_TRUE(done.ok() && *done) << done.status();
        }
        for (NodeId n : (*g)->Nodes((*g)->top())) sums += (*g)->node(n).op == "aten::cumsum";
        EXPECT_EQ(sums, range ? 0 : 1);
        auto r = EvaluateGraph(**g, {EvalValue(w), EvalValue(i), EvalValue(o)});
        SMELT_CHECK_OK(r.status());
        answers.push_back(r->outputs[0].tensor());
      }
      EXPECT_EQ(CompareTensors(answers[0], answers[1], {}, true), "") << mode << " " << padding;
    }
  }
}

// The form of torch.nn.LSTM where gradients are taken. The expected results are those of PyTorch 2.13.
TEST(DecomposeTest, AnLstmLayerOfOneDnnGivesPyTorchsAnswers) {
  const auto floats = [](std::vector<int64_t> sizes, std::vector<float> v) {
    const Tensor t = Tensor::Empty(DType::kFloat32, sizes);
    std::copy(v.begin(), v.end(), t.data_as<float>());
    return EvalValue(t);
  };
  const std::vector<EvalValue> args = {floats({3, 1, 1}, {.5, -1, 2}),
                                       floats({4, 1}, {.1, -.2, .3, .4}),
                                       floats({4, 1}, {.5, .6, -.7, .8}),
                                       floats({4}, {.01, .02, .03, .04}),
                                       floats({4}, {-.05, .06, -.07, .08}),
                                       floats({1, 1}, {.3}),
                                       floats({1, 1}, {-.2})};
  // The outputs of the steps, then the last state of the cell.
  const std::vector<std::vector<double>> want = {{-0.102085747, -0.0843248069, 0.142639905, 0.206330642},
                                                 {0.00817187969, -0.0527999774, 0.07666336, 0.0143628903}};
  for (int reverse : {0, 1}) {
    auto g = ParseGraph(
        absl::StrCat("graph(%x : Float(3, 1, 1, strides=[1, 1, 1]), %w : Float(4, 1, strides=[1, 1]), ",
                     "%u : Float(4, 1, strides=[1, 1]), %b : Float(4, strides=[1]), %d : Float(4, strides=[1]), ",
                     "%h : Float(1, 1, strides=[1, 1]), %c : Float(1, 1, strides=[1, 1])):\n",
                     "  %r : bool = prim::Constant[value=", reverse, "]()\n  %t : bool = prim::Constant[value=1]()\n",
                     "  %f : bool = prim::Constant[value=0]()\n  %1 : int = prim::Constant[value=1]()\n",
                     "  %2 : int = prim::Constant[value=2]()\n  %e : int[] = prim::Constant[value=[]]()\n",
                     "  %y : Tensor, %hy : Tensor, %cy : Tensor, %space : Tensor = aten::mkldnn_rnn_layer(%x, %w, %u, "
                     "%b, %d, %h, %c, ",
                     "%r, %e, %2, %1, %1, %t, %f, %f, %f)\n  return (%y, %hy, %cy)\n"));
    ASSERT_TRUE(g.ok()) << g.status();
    auto r = EvaluateGraph(**g, args);
    ASSERT_TRUE(r.ok()) << r.status();
    const float* y = r->outputs[0].tensor().data_as<float>();
    for (int k = 0; k < 3; ++k) EXPECT_NEAR(y[k], want[reverse][k], 1e-6) << reverse;
    EXPECT_EQ(*r->outputs[1].tensor().data_as<float>(), y[reverse ? 0 : 2]);
    EXPECT_NEAR(*r->outputs[2].tensor().data_as<float>(), want[reverse][3], 1e-6) << reverse;
  }
}

// Scores of 256 and 257 are the same number in bfloat16, but the second must have the weight e / (1 + e).
TEST(DecomposeTest, ScoresOfHalvesAreNotRoundedToThem) {
  auto g = ParseGraph(R"(graph(%q : BFloat16(1, 2, strides=[2, 1]), %k : BFloat16(2, 2, strides=[2, 1]),
      %v : BFloat16(2, 1, strides=[1, 1])):
  %n : NoneType = prim::Constant()
  %z : float = prim::Constant[value=0.]()
  %s : float = prim::Constant[value=1.]()
  %f : bool = prim::Constant[value=0]()
  %y : BFloat16(1, 1, strides=[1, 1]) = aten::scaled_dot_product_attention(%q, %k, %v, %n, %z, %f, %s, %f)
  return (%y)
)");
  SMELT_CHECK_OK(g.status());
  const auto halves = [](std::vector<int64_t> sizes, const std::vector<float>& v) {
    const Tensor t = Tensor::Empty(DType::kBFloat16, sizes);
    for (size_t i = 0; i < v.size(); ++i) t.data_as<uint16_t>()[i] = FloatToBFloat16(v[i]);
    return EvalValue(t);
  };
  auto r = EvaluateGraph(**g, {halves({1, 2}, {16, 1}), halves({2, 2}, {16, 0, 16, 1}), halves({2, 1}, {0, 1})});
  ASSERT_TRUE(r.ok()) << r.status();
  EXPECT_NEAR(ElementAsDouble(r->outputs[0].tensor(), 0), std::exp(1.) / (1 + std::exp(1.)), .002);
}

// Six pixels to three: windows of pixels 0 to 2, 1 to 4 and 3 to 5, with triangles that are two pixels wide.
TEST(DecomposeTest, AnInfinitePixelIsInTheWindowsAroundItAlone) {
  auto g = ParseGraph(R"(graph(%x : Float(1, 1, 1, 6, strides=[6, 6, 6, 1])):
  %n : NoneType = prim::Constant()
  %s : int[] = prim::Constant[value=[1, 3]]()
  %f : bool = prim::Constant[value=0]()
  %y : Tensor = aten::_upsample_bilinear2d_aa(%x, %s, %f, %n, %n)
  return (%y)
)");
  SMELT_CHECK_OK(g.status());
  const Tensor x = Tensor::Empty(DType::kFloat32, {1, 1, 1, 6});
  const float infinite = std::numeric_limits<float>::infinity();
  const float pixels[] = {infinite, 1, 2, 3, 4, 5};
  std::copy(pixels, pixels + 6, x.data_as<float>());
  auto r = EvaluateGraph(**g, {EvalValue(x)});
  ASSERT_TRUE(r.ok()) << r.status();
  const Tensor y = r->outputs[0].tensor();
  EXPECT_EQ(ElementAsDouble(y, 0), infinite);
  EXPECT_NEAR(ElementAsDouble(y, 1), (.25 * 1 + .75 * 2 + .75 * 3 + .25 * 4) / 2, 1e-6);
  EXPECT_NEAR(ElementAsDouble(y, 2), (.25 * 3 + .75 * 4 + .75 * 5) / 1.75, 1e-6);
}

// Returns the result of a graph's text for tensors of 1, 2, 3, ... of the inputs' types; half of these numbers for
// floats.
std::vector<double> ResultOf(const std::string& text) {
  auto g = ParseGraph(text);
  SMELT_CHECK_OK(g.status());
  std::vector<EvalValue> args;
  for (ValueId v : (*g)->inputs()) {
    const TensorType& type = (*g)->value(v).type.tensor();
    std::vector<int64_t> sizes;
    for (const Expr& size : *type.sizes) sizes.push_back(*size.Constant());
    const Tensor t = Tensor::Empty(*type.dtype, sizes);
    for (int64_t i = 0; i < t.NumElements(); ++i) {
      if (t.dtype() == DType::kFloat32) t.data_as<float>()[i] = static_cast<float>(i + 1) / 2;
      if (t.dtype() == DType::kInt64) t.data_as<int64_t>()[i] = i + 1;
      if (t.dtype() == DType::kInt32) t.data_as<int32_t>()[i] = static_cast<int32_t>(i + 1);
    }
    args.push_back(EvalValue(t));
  }
  auto r = EvaluateGraph(**g, args);
  EXPECT_TRUE(r.ok()) << r.status();
  std::vector<double> out;
  for (int64_t i = 0; r.ok() && i < r->outputs[0].tensor().NumElements(); ++i)
    out.push_back(ElementAsDouble(r->outputs[0].tensor(), i));
  return out;
}

// Groups end at rows 1, 2 and 3 of 4; rows are (.5, 1), (1.5, 2), ..., matrices columns (.5, 1), (1.5, 2), (2.5, 3).
TEST(DecomposeTest, RowsOfAGroupAreMultipliedByItsMatrixAndThoseBehindAllAreZero) {
  for (const char* call : {"aten::_grouped_mm(%x, %w, %o, %n, %n)", "transformers::grouped_mm_fallback(%x, %w, %o)"}) {
    EXPECT_EQ(ResultOf(absl::StrCat("graph(%x : Float(4, 2, strides=[2, 1]), %w : Float(3, 2, 1, strides=[2, 1, 1]), ",
                                    "%o : Int(3, strides=[1])):\n  %n : NoneType = prim::Constant()\n",
                                    "  %y : Tensor = ", call, "\n  return (%y)\n")),
              (std::vector<double>{.5 * .5 + 1 * 1, 1.5 * 1.5 + 2 * 2, 2.5 * 2.5 + 3 * 3, 0}))
        << call;
  }
}

TEST(DecomposeTest, SequencesAreFilledUpToTheLongestOnTheSideAskedFor) {
  const auto padded = [](const char* side, int batch_first) {
    return ResultOf(
        absl::StrCat("graph(%x : Float(3, strides=[1]), %y : Float(1, strides=[1])):\n",
                     "  %l : Tensor[] = prim::ListConstruct(%x, %y)\n  %b : bool = prim::Constant[value=", batch_first,
                     "]()\n  %v : float = prim::Constant[value=-1.]()\n", "  %s : str = prim::Constant[value=\"", side,
                     "\"]()\n", "  %r : Tensor = aten::pad_sequence(%l, %b, %v, %s)\n  return (%r)\n"));
  };
  EXPECT_EQ(padded("right", 1), (std::vector<double>{.5, 1, 1.5, .5, -1, -1}));
  EXPECT_EQ(padded("left", 1), (std::vector<double>{.5, 1, 1.5, -1, -1, .5}));
  EXPECT_EQ(padded("right", 0), (std::vector<double>{.5, .5, 1, -1, 1.5, -1}));
}

// PyTorch multiplies if an einsum has nothing to sum: the factors' dtypes may differ, and the result has the wider one.
TEST(DecomposeTest, AnEinsumWithoutASumPromotesItsFactors) {
  EXPECT_EQ(ResultOf(R"(graph(%x : Long(2, strides=[1]), %y : Float(3, strides=[1])):
  %e : str = prim::Constant[value="i,j->ji"]()
  %l : Tensor[] = prim::ListConstruct(%x, %y)
  %n : NoneType = prim::Constant()
  %r : Tensor = aten::einsum(%e, %l, %n)
  return (%r)
)"),
            (std::vector<double>{.5, 1, 1, 2, 1.5, 3}));
}

// Bytes 37 i^2 + 11 i, 4 by 5, resized to 3 by 6; the expected results are those of PyTorch 2.13.
TEST(DecomposeTest, ImagesOfBytesAreResizedInWholeNumbersAsPyTorchDoes) {
  const std::pair<const char*, std::vector<int>> answers[] = {
      {"upsample_bilinear2d", {35, 54, 117, 141, 115, 107, 219, 192, 129, 138, 185, 131, 73, 159, 149, 141, 191, 251}},
      {"_upsample_bilinear2d_aa",
       {64, 68, 115, 138, 116, 94, 219, 192, 129, 138, 185, 131, 97, 172, 149, 143, 200, 249}},
      {"upsample_bicubic2d", {31, 39, 124, 154, 108, 106, 255, 219, 108, 130, 201, 115, 62, 168, 153, 128, 192, 255}},
      {"_upsample_bicubic2d_aa",
       {53, 50, 118, 146, 106, 86, 234, 204, 115, 131, 194, 124, 84, 182, 151, 133, 204, 255}}};
  const Tensor x = Tensor::Empty(DType::kUInt8, {1, 1, 4, 5});
  for (int i = 0; i < 20; ++i) x.data_as<uint8_t>()[i] = static_cast<uint8_t>(37 * i * i + 11 * i);
  for (const auto& [op, answer] : answers) {
    auto g = ParseGraph(absl::StrCat("graph(%x : Byte(1, 1, 4, 5, strides=[20, 20, 5, 1])):\n",
                                     "  %n : NoneType = prim::Constant()\n  %f : bool = prim::Constant[value=0]()\n",
                                     "  %s : int[] = prim::Constant[value=[3, 6]]()\n  %y : Tensor = aten::", op,
                                     "(%x, %s, %f, %n, %n)\n  return (%y)\n"));
    SMELT_CHECK_OK(g.status());
    auto r = EvaluateGraph(**g, {EvalValue(x)});
    ASSERT_TRUE(r.ok()) << r.status();
    const uint8_t* y = r->outputs[0].tensor().data_as<uint8_t>();
    EXPECT_EQ(std::vector<int>(y, y + 18), answer) << op;
  }
}

TEST(DecomposeTest, AComplexIdentityIsARealOnesNumbers) {
  auto g = ParseGraph(R"(graph():
  %s : int = prim::Constant[value=2]()
  %t : int = prim::Constant[value=9]()
  %n : NoneType = prim::Constant()
  %y : Tensor = aten::eye(%s, %t, %n, %n, %n)
  return (%y)
)");
  SMELT_CHECK_OK(g.status());
  SMELT_CHECK_OK(InferTypes(**g));
  const NodeId eye = (*g)->value((*g)->outputs()[0]).def;
  auto done = Decompose(**g, eye);
  ASSERT_TRUE(done.ok() && *done) << done.status();
  auto r = EvaluateGraph(**g, {});
  ASSERT_TRUE(r.ok()) << r.status();
  const Tensor y = r->outputs[0].tensor();
  ASSERT_EQ(y.dtype(), DType::kComplex64);
  const std::complex<float>* numbers = y.data_as<std::complex<float>>();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(numbers[i], std::complex<float>(i % 3 == 0 ? 1.f : 0.f)) << i;
}

// Under any name, in moves, together with real operands, and in operators that use only their sizes.
TEST(DecomposeTest, OperatorsOnComplexNumbersGiveWhatTheEvaluatorDoes) {
  const std::string x = "%x : ComplexFloat(2, 3, strides=[3, 1])", y = "%y : Float(2, 3, strides=[3, 1])";
  Tensor numbers = Tensor::Empty(DType::kComplex64, std::vector<int64_t>{2, 3});
  Tensor reals = Tensor::Empty(DType::kFloat32, std::vector<int64_t>{2, 3});
  for (int i = 0; i < 6; ++i) {
    numbers.data_as<std::complex<float>>()[i] = {static_cast<float>(i) - 2.5f, 1.f / static_cast<float>(i + 1)};
    reals.data_as<float>()[i] = static_cast<float>(3 * i) - 4;
  }
  for (const std::string call :
       {"aten::true_divide.Tensor(%y, %x)", "aten::divide.Tensor(%x, %x)", "aten::multiply.Tensor(%x, %y)",
        "aten::subtract.Tensor(%y, %x, %two)", "aten::negative(%x)", "aten::absolute(%x)", "aten::repeat(%x, %sizes)",
        "aten::reflection_pad1d(%x, %pad)", "aten::cat(%list, %one)", "aten::cat(%list, %zero)",
        "aten::stack(%list, %zero)", "aten::zeros_like(%x, %real, %n, %n, %n, %n)",
        "aten::ones_like(%x, %real, %n, %n, %n, %n)", "aten::new_ones(%x, %sizes, %real, %n, %n, %n)",
        "aten::full_like(%x, %two, %real, %n, %n, %n, %n)"}) {
    SCOPED_TRACE(call);
    auto g = ParseGraph(absl::StrCat("graph(", x, ", ", y, R"():
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %real : int = prim::Constant[value=7]()
  %sizes : int[] = prim::Constant[value=[2, 3]]()
  %pad : int[] = prim::Constant[value=[1, 2]]()
  %n : NoneType = prim::Constant()
  %list : Tensor[] = prim::ListConstruct(%x, %y)
  %z : Tensor = )",
                                     call, "\n  return (%z)\n"));
    SMELT_CHECK_OK(g.status());
    SMELT_CHECK_OK(InferTypes(**g));
    const std::vector<EvalValue> inputs = {EvalValue(numbers), EvalValue(reals)};
    auto want = EvaluateGraph(**g, inputs);
    SMELT_CHECK_OK(want.status());
    auto done = DecomposeComplex(**g, (*g)->value((*g)->outputs()[0]).def);
    ASSERT_TRUE(done.ok() && *done) << done.status();
    auto have = EvaluateGraph(**g, inputs);
    SMELT_CHECK_OK(have.status());
    const Tensor a = have->outputs[0].tensor(), b = want->outputs[0].tensor();
    ASSERT_EQ(a.dtype(), b.dtype());
    ASSERT_EQ(a.sizes(), b.sizes());
    if (!IsComplex(a.dtype())) {
      EXPECT_TRUE(Near(a, b));
      continue;
    }
    const Tensor dense_a = a.Clone(), dense_b = b.Clone();
    for (int64_t i = 0; i < a.NumElements(); ++i) {
      EXPECT_LE(std::abs(dense_a.data_as<std::complex<float>>()[i] - dense_b.data_as<std::complex<float>>()[i]), 1e-5);
    }
  }
}

TEST(DecomposeTest, WindowsAreTheCosinesThatTheEvaluatorHas) {
  for (const char* name : {"hann", "hamming", "blackman"}) {
    for (int length : {0, 1, 2, 7}) {
      for (int periodic : {0, 1}) {
        auto g = ParseGraph(absl::StrCat("graph():\n  %l : int = prim::Constant[value=", length,
                                         "]()\n  %p : bool = prim::Constant[value=", periodic,
                                         "]()\n  %n : NoneType = prim::Constant()\n  %w : Float(", length,
                                         ", strides=[1]) = aten::", name,
                                         "_window.periodic(%l, %p, %n, %n, %n, %n)\n  return (%w)\n"));
        SMELT_CHECK_OK(g.status());
        auto want = EvaluateGraph(**g, {});
        SMELT_CHECK_OK(want.status());
        const NodeId window = (*g)->value((*g)->outputs()[0]).def;
        auto done = Decompose(**g, window);
        ASSERT_TRUE(done.ok() && *done) << done.status();
        auto have = EvaluateGraph(**g, {});
        SMELT_CHECK_OK(have.status());
        const Tensor a = have->outputs[0].tensor(), b = want->outputs[0].tensor();
        ASSERT_EQ(a.sizes(), b.sizes());
        for (int k = 0; k < length; ++k) {
          EXPECT_NEAR(a.data_as<float>()[k], b.data_as<float>()[k], 1e-6) << name << " " << length << " " << periodic;
        }
      }
    }
  }
}

TEST(DecomposeTest, IsAllTrueAndIsAnyTrueAreAllAndAnyOfBools) {
  auto g = ParseGraph(R"(graph(%x : Bool(2, strides=[1])):
  %all : Bool() = aten::_is_all_true(%x)
  %any : Bool() = aten::_is_any_true(%x)
  return (%all, %any)
)");
  SMELT_CHECK_OK(g.status());
  for (int bits = 0; bits < 4; ++bits) {
    const Tensor x = Tensor::Empty(DType::kBool, {2});
    for (int k = 0; k < 2; ++k) x.data_as<bool>()[k] = (bits >> k & 1) != 0;
    auto r = EvaluateGraph(**g, {EvalValue(x)});
    ASSERT_TRUE(r.ok()) << r.status();
    EXPECT_EQ(ElementAsDouble(r->outputs[0].tensor(), 0), bits == 3);
    EXPECT_EQ(ElementAsDouble(r->outputs[1].tensor(), 0), bits != 0);
  }
}

}  // namespace
}  // namespace smelt
