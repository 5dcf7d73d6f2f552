// Tests where PyTorch's kernels round intermediate values of half types: after each step, numbers next to tensors, or
// neither. The elements are chosen so that another rounding gives another result; expected are the results of PyTorch
// 2.13.
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "smelt/core/eval/evaluator.h"
#include "smelt/core/ir/text.h"
#include "smelt/core/op/scalar_memory.h"
#include "smelt/core/op/schema.h"

namespace smelt {
namespace {

struct Rounding {
  std::string name;
  DType dtype;
  std::string call;  // of x, y; a, p, xy: |y|, sigmoid(y), both joined; c: 0.3
  std::vector<double> x, y, want;
};

const Rounding kRoundings[] = {
    {"AddsANumberBFloat16",
     DType::kBFloat16,
     "aten::add.Scalar(%x, %c, %one)",
     {-1.5234375, -0.100097656, -0.251953125, -1.609375},
     {-1.9296875, -0.494140625, -1.7265625, 1.3984375},
     {-1.21875, 0.201171875, 0.048828125, -1.3125}},
    {"SubtractsFromANumberBFloat16",
     DType::kBFloat16,
     "aten::rsub.Scalar(%x, %c, %one)",
     {-1.5234375, -0.7109375, 0.3046875, -1.609375},
     {-1.9296875, 0.188476562, 0.68359375, 1.3984375},
     {1.828125, 1.015625, -0.00390625, 1.90625}},
    {"AddsScaledBFloat16",
     DType::kBFloat16,
     "aten::add.Tensor(%x, %y, %c)",
     {-0.100097656, -0.7109375, 0.3046875, -1.609375},
     {-0.494140625, 0.188476562, 0.68359375, 1.3984375},
     {-0.249023438, -0.65234375, 0.51171875, -1.1875}},
    {"MultipliesByANumberBFloat16",
     DType::kBFloat16,
     "aten::mul.Scalar(%x, %c)",
     {-1.5234375, -0.75, -0.65234375, -1.609375},
     {-1.9296875, -0.2265625, -0.0177001953, 1.3984375},
     {-0.45703125, -0.224609375, -0.1953125, -0.482421875}},
    {"MultipliesInPlaceByARoundedNumberBFloat16",
     DType::kBFloat16,
     "aten::mul_.Scalar(%x, %c)",
     {-0.43359375, 0.84765625, 0.69140625, -0.31640625},
     {0, 0, 0, 0},
     {-0.130859375, 0.255859375, 0.208007812, -0.0952148438}},
    {"MultipliesInPlaceByARoundedNumberHalf",
     DType::kFloat16,
     "aten::mul_.Scalar(%x, %c)",
     {-0.494140625, 0.33984375, -0.69921875, -0.806152344},
     {0, 0, 0, 0},
     {-0.14831543, 0.101989746, -0.209838867, -0.241943359}},
    {"CubesBFloat16",
     DType::kBFloat16,
     "aten::pow.Tensor_Scalar(%x, %three)",
     {-1.5234375, -1.609375, -1.609375, -0.7109375},
     {-1.9296875, -2.5625, 1.3984375, 0.188476562},
     {-3.546875, -4.1875, -4.1875, -0.357421875}},
    {"LogitBFloat16",
     DType::kBFloat16,
     "aten::logit(%p, %none)",
     {-0.75, -0.65234375, -0.100097656, -1.609375},
     {-0.2265625, -0.0177001953, -0.494140625, 1.3984375},
     {-0.221679688, -0.0157470703, -0.49609375, 1.390625}},
    {"XLogYBFloat16",
     DType::kBFloat16,
     "aten::xlogy.Tensor(%x, %a)",
     {-0.75, -0.100097656, 0.3046875, -1.609375},
     {-0.2265625, -0.494140625, 0.68359375, 1.3984375},
     {1.109375, 0.0703125, -0.116210938, -0.5390625}},
    {"HardShrinkBFloat16",
     DType::kBFloat16,
     "aten::hardshrink(%x, %c)",
     {0.30078125, 0.30078125, -0.30078125, -1.609375},
     {0.43359375, -0.52734375, -0.18359375, 1.3984375},
     {0.0, 0.0, 0.0, -1.609375}},
    {"FloorDividesByANumberBFloat16",
     DType::kBFloat16,
     "aten::floor_divide.Scalar(%x, %c)",
     {-2.40625, -2.40625, -2.703125, -1.609375},
     {-0.2890625, -1.53125, 0.33203125, 1.3984375},
     {-9.0, -9.0, -10.0, -6.0}},
    {"FloorDividesBFloat16",
     DType::kBFloat16,
     "aten::floor_divide(%x, %y)",
     {1.640625, 1.5703125, -1.2734375, -1.609375},
     {0.00436401367, 0.00454711914, 0.0123291016, 1.3984375},
     {374.0, 346.0, -105.0, -2.0}},
    {"SmoothL1BFloat16",
     DType::kBFloat16,
     "aten::smooth_l1_loss(%x, %y, %zero, %c)",
     {-0.65234375, -1.609375, -0.6953125, -0.7109375},
     {-0.0177001953, 1.3984375, 0.225585938, 0.188476562},
     {0.484375, 2.859375, 0.76953125, 0.75}},
    {"HuberBFloat16",
     DType::kBFloat16,
     "aten::huber_loss(%x, %y, %zero, %c)",
     {-1.5234375, -0.75, -1.609375, -1.609375},
     {-1.9296875, -0.2265625, -2.5625, 1.3984375},
     {0.0771484375, 0.112304688, 0.2421875, 0.85546875}},
    {"GluBFloat16",
     DType::kBFloat16,
     "aten::glu(%xy, %zero)",
     {-1.609375, -0.609375, -0.98046875, -1.609375},
     {-2.5625, -1.640625, -0.178710938, 1.3984375},
     {-0.115234375, -0.0991210938, -0.447265625, -1.2890625}},
    {"AddsANumberHalf",
     DType::kFloat16,
     "aten::add.Scalar(%x, %c, %one)",
     {-0.389892578, -0.380371094, -0.408447266, 0.956542969},
     {-0.301025391, -1.35839844, -1.31933594, 1.22949219},
     {-0.08984375, -0.0803222656, -0.108398438, 1.25683594}},
    {"SubtractsFromANumberHalf",
     DType::kFloat16,
     "aten::rsub.Scalar(%x, %c, %one)",
     {0.239624023, 0.2578125, -0.380371094, 0.956542969},
     {-0.333007812, 0.853515625, -1.35839844, 1.22949219},
     {0.0604248047, 0.0422363281, 0.680664062, -0.65625}},
    {"AddsScaledHalf",
     DType::kFloat16,
     "aten::add.Tensor(%x, %y, %c)",
     {0.239624023, -0.931640625, 0.525390625, 0.956542969},
     {-0.333007812, 1.13183594, -1.97070312, 1.22949219},
     {0.139648438, -0.591796875, -0.0659179688, 1.32519531}},
    {"MultipliesByANumberHalf",
     DType::kFloat16,
     "aten::mul.Scalar(%x, %c)",
     {-1.82519531, -0.389892578, -0.623535156, 0.956542969},
     {0.893554688, -0.301025391, 1.18457031, 1.22949219},
     {-0.547363281, -0.116943359, -0.187011719, 0.286865234}},
    {"CubesHalf",
     DType::kFloat16,
     "aten::pow.Tensor_Scalar(%x, %three)",
     {0.956542969, -0.931640625, 1.39746094, -0.408447266},
     {1.22949219, 1.13183594, -0.462890625, -1.31933594},
     {0.875, -0.80859375, 2.72851562, -0.0681152344}},
    {"LogitHalf",
     DType::kFloat16,
     "aten::logit(%p, %none)",
     {-1.82519531, 0.2578125, -0.389892578, 0.956542969},
     {0.893554688, 0.853515625, -0.301025391, 1.22949219},
     {0.892578125, 0.852539062, -0.30078125, 1.23046875}},
    {"XLogYHalf",
     DType::kFloat16,
     "aten::xlogy.Tensor(%x, %a)",
     {0.2578125, -0.623535156, 0.956542969, -0.931640625},
     {0.853515625, 1.18457031, 1.22949219, 1.13183594},
     {-0.0408630371, -0.105651855, 0.197509766, -0.115356445}},
    {"HardShrinkHalf",
     DType::kFloat16,
     "aten::hardshrink(%x, %c)",
     {0.300048828, 0.956542969, -0.931640625, 1.39746094},
     {1.48339844, 1.22949219, 1.13183594, -0.462890625},
     {0.0, 0.956542969, -0.931640625, 1.39746094}},
    {"FloorDividesByANumberHalf",
     DType::kFloat16,
     "aten::floor_divide.Scalar(%x, %c)",
     {-1.20019531, -1.20019531, 0.956542969, -0.931640625},
     {-0.8125, 1.38671875, 1.22949219, 1.13183594},
     {-5.0, -5.0, 3.0, -4.0}},
    {"FloorDividesHalf",
     DType::kFloat16,
     "aten::floor_divide(%x, %y)",
     {0.956542969, -0.931640625, 1.39746094, -0.408447266},
     {1.22949219, 1.13183594, -0.462890625, -1.31933594},
     {0.0, -1.0, -4.0, 0.0}},
    {"SmoothL1Half",
     DType::kFloat16,
     "aten::smooth_l1_loss(%x, %y, %zero, %c)",
     {0.239624023, 0.956542969, -0.931640625, 1.39746094},
     {-0.333007812, 1.22949219, 1.13183594, -0.462890625},
     {0.422851562, 0.124206543, 1.91210938, 1.70996094}},
    {"HuberHalf",
     DType::kFloat16,
     "aten::huber_loss(%x, %y, %zero, %c)",
     {-0.623535156, -0.931640625, -0.408447266, 0.956542969},
     {1.18457031, 1.13183594, -1.31933594, 1.22949219},
     {0.497314453, 0.57421875, 0.228271484, 0.0372619629}},
    {"GluHalf",
     DType::kFloat16,
     "aten::glu(%xy, %zero)",
     {0.448242188, -0.623535156, 1.39746094, 0.956542969},
     {0.69140625, 1.18457031, -0.462890625, 1.22949219},
     {0.298583984, -0.477539062, 0.540039062, 0.740234375}},
};

ScalarValue Number(double v) {
  ScalarValue s;
  s.f = v;
  return s;
}

class HalfRoundingTest : public ::testing::TestWithParam<Rounding> {};

TEST_P(HalfRoundingTest, IsThatOfPyTorchsKernel) {
  const Rounding& r = GetParam();
  const std::string type = absl::StrCat(r.dtype == DType::kBFloat16 ? "BFloat16" : "Half", "(4, strides=[1])");
  ParseOptions options;
  options.resolve_overload = ResolveOverload;
  auto g = ParseGraph(absl::StrCat("graph(%x : ", type, ", %y : ", type, R"():
  %c : float = prim::Constant[value=0.3]()
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %three : int = prim::Constant[value=3]()
  %none : NoneType = prim::Constant()
  %a : Tensor = aten::abs(%y)
  %p : Tensor = aten::sigmoid(%y)
  %l : Tensor[] = prim::ListConstruct(%x, %y)
  %xy : Tensor = aten::cat(%l, %zero)
  %r : Tensor = )",
                                   r.call, "\n  return (%r)\n"),
                      options);
  ASSERT_TRUE(g.ok()) << g.status();
  std::vector<EvalValue> args;
  for (const auto* numbers : {&r.x, &r.y}) {
    const Tensor t = Tensor::Empty(r.dtype, {4});
    for (int i = 0; i < 4; ++i) StoreScalar(r.dtype, Number((*numbers)[i]), static_cast<char*>(t.data()) + 2 * i);
    args.push_back(EvalValue(t));
  }
  auto got = EvaluateGraph(**g, args, EvalOptions());
  ASSERT_TRUE(got.ok()) << got.status();
  const Tensor t = got->outputs[0].tensor();
  for (int i = 0; i < 4; ++i) {
    const double want = r.want[i], value = LoadScalar(r.dtype, static_cast<char*>(t.data()) + 2 * i).f;
    EXPECT_NEAR(value, want, 1e-7 * std::abs(want)) << "x " << r.x[i] << ", y " << r.y[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, HalfRoundingTest, ::testing::ValuesIn(kRoundings),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace smelt
