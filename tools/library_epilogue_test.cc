// Elementwise or row-wise operators after a product or a convolution become the call's epilogue: bias, activation,
// residual, a norm. The expected values are the evaluator's.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "smelt/core/eval/evaluator.h"
#include "smelt/pipeline/compile.h"
#include "smelt/runtime/program.h"
#include "smelt/schema/bundle.h"
#include "smelt/schema/container.h"
#include "smelt/tools/e2e_testing.h"

namespace smelt {
namespace {

Tensor Numbers(const TensorType& type) {
  std::vector<int64_t> sizes, strides;
  for (const Expr& e : *type.sizes) sizes.push_back(*e.Constant());
  for (const Expr& e : *type.strides) strides.push_back(*e.Constant());
  Tensor t = Tensor::EmptyStrided(*type.dtype, sizes, strides);
  float* at = t.data_as<float>();
  const int64_t n = t.storage()->bytes() / 4;
  for (int64_t i = 0; i < n; ++i) at[i] = static_cast<float>(i * 37 % 101 - 50) / 64;
  return t;
}

// Compiles and runs the graph, whose inputs are tensors, on one and on three threads. Returns the number of calls that
// have an epilogue.
int Epilogues(const std::string& text) {
  auto g = ParseModel(text);
  EXPECT_TRUE(g.ok()) << g.status();
  if (!g.ok()) return -1;
  std::vector<Datum> args;
  std::vector<EvalValue> values;
  for (ValueId v : (*g)->inputs()) {
    args.push_back(Datum(Numbers((*g)->value(v).type.tensor())));
    values.push_back(EvalValue(Numbers((*g)->value(v).type.tensor())));
  }
  auto want = EvaluateGraph(**g, values, EvalOptions());
  EXPECT_TRUE(want.ok()) << want.status();
  const std::string path = Scratch("library_epilogue.smb");
  auto compiled = CompileToFile(**g, path, CompileOptions());
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  if (!want.ok() || !compiled.ok()) return -1;
  std::vector<float> first;
  for (int threads : {1, 3}) {
    ProgramOptions load;
    load.threads = threads;
    auto program = Program::Load(path, load);
    EXPECT_TRUE(program.ok()) << program.status();
    if (!program.ok()) return -1;
    InstanceOptions run;
    run.threads = threads;
    auto instance = Instance::Create(*program, run);
    EXPECT_TRUE(instance.ok()) << instance.status();
    auto out = (*instance)->Run(args);
    EXPECT_TRUE(out.ok()) << out.status();
    if (!out.ok()) return -1;
    const Tensor got = (*out)[0].tensor().Clone(), expected = want->outputs[0].tensor().Clone();
    const float *x = got.data_as<float>(), *y = expected.data_as<float>();
    for (int64_t i = 0; i < got.NumElements(); ++i) {
      if (std::abs(x[i] - y[i]) <= 1e-4f * (1 + std::abs(y[i]))) continue;
      ADD_FAILURE() << "element " << i << " is " << x[i] << ", expected " << y[i];
      break;
    }
    if (threads == 1) first.assign(x, x + got.NumElements());
    EXPECT_TRUE(std::equal(first.begin(), first.end(), x)) << "other bits on three threads";
  }
  auto file = Container::Open(path, ContentKind::kBundle);
  auto bundle = file.ok() ? LoadBundle(**file) : file.status();
  EXPECT_TRUE(bundle.ok()) << bundle.status();
  int n = 0;
  for (const auto& step : (*bundle)->plans[0]->blocks[0]->steps) {
    if (const fb::LibraryCallT* call = step->step.AsLibraryCall()) n += call->epilogue;
  }
  return n;
}

constexpr char kTypes[] =
    "graph(%x : Float(700, 64, strides=[64, 1]), %w : Float(64, 96, strides=[96, 1]), %b : Float(96, strides=[1]), "
    "%r : Float(700, 96, strides=[96, 1])):\n"
    "  %one : int = prim::Constant[value=1]()\n"
    "  %n : NoneType = prim::Constant()\n";

TEST(LibraryEpilogueTest, AnActivationAndAResidual) {
  EXPECT_EQ(Epilogues(absl::StrCat(kTypes, R"(  %y : Tensor = aten::addmm(%b, %x, %w, %one, %one)
  %a : Tensor = aten::relu(%y)
  %z : Tensor = aten::add.Tensor(%a, %r, %one)
  return (%z)
)")),
            1);
}

TEST(LibraryEpilogueTest, ABroadcastScaleWhoseTilesAreRows) {
  EXPECT_EQ(Epilogues(absl::StrCat(kTypes, R"(  %y : Tensor = aten::mm(%x, %w)
  %z : Tensor = aten::mul.Tensor(%y, %b)
  return (%z)
)")),
            1);
}

TEST(LibraryEpilogueTest, ASoftmaxOfEachRow) {
  EXPECT_EQ(Epilogues(absl::StrCat(kTypes, R"(  %no : bool = prim::Constant[value=0]()
  %y : Tensor = aten::mm(%x, %w)
  %z : Tensor = aten::_softmax(%y, %one, %no)
  return (%z)
)")),
            1);
}

TEST(LibraryEpilogueTest, NotASumOverTheRows) {
  EXPECT_EQ(Epilogues(absl::StrCat(kTypes, R"(  %d : int[] = prim::Constant[value=[0]]()
  %no : bool = prim::Constant[value=0]()
  %y : Tensor = aten::mm(%x, %w)
  %z : Tensor = aten::sum.dim_IntList(%y, %d, %no, %n)
  return (%z)
)")),
            0);
}

TEST(LibraryEpilogueTest, NotWhatReadsTheResultTransposed) {
  EXPECT_EQ(Epilogues(R"(graph(%x : Float(96, 64, strides=[64, 1]), %w : Float(64, 96, strides=[96, 1])):
  %one : int = prim::Constant[value=1]()
  %y : Tensor = aten::mm(%x, %w)
  %t : Tensor = aten::t(%y)
  %z : Tensor = aten::add.Tensor(%y, %t, %one)
  return (%z)
)"),
            0);
}

// The residual is an operand of the product and is not used later: the kernel overwrites it.
TEST(LibraryEpilogueTest, NotWhatWritesOverAnOperandOfTheProduct) {
  EXPECT_EQ(Epilogues(R"(graph(%x : Float(700, 64, strides=[64, 1]), %w : Float(64, 64, strides=[64, 1])):
  %one : int = prim::Constant[value=1]()
  %a : Tensor = aten::tanh(%x)
  %y : Tensor = aten::mm(%a, %w)
  %z : Tensor = aten::sub.Tensor(%a, %y, %one)
  %v : Tensor = aten::mm(%z, %w)
  %u : Tensor = aten::relu(%v)
  return (%u)
)"),
            1);
}

TEST(LibraryEpilogueTest, TheActivationOfAConvolution) {
  EXPECT_EQ(
      Epilogues(
          R"(graph(%x : Float(8, 16, 30, 30, strides=[14400, 900, 30, 1]), %w : Float(32, 16, 3, 3, strides=[144, 9, 3, 1]), %b : Float(32, strides=[1])):
  %ones : int[] = prim::Constant[value=[1, 1]]()
  %zeros : int[] = prim::Constant[value=[0, 0]]()
  %no : bool = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %y : Tensor = aten::convolution(%x, %w, %b, %ones, %ones, %ones, %no, %zeros, %one)
  %z : Tensor = aten::relu(%y)
  return (%z)
)"),
      1);
}

}  // namespace
}  // namespace smelt
