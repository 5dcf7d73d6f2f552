#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "smelt/core/eval/evaluator.h"
#include "smelt/core/ir/text.h"
#include "smelt/core/op/schema.h"
#include "smelt/functionalize/functionalize.h"
#include "smelt/functionalize/open_composites.h"

namespace smelt {
namespace {

// Returns the results of the pass and of the evaluator for `op` with x, of 3 by 4, as an operand and as out=.
std::pair<absl::Status, absl::Status> IntoItsOperand(const std::string& body) {
  ParseOptions options;
  options.resolve_overload = ResolveOverload;
  auto g = ParseGraph(
      "graph(%x : Float(3, 4, strides=[4, 1]), %i : Long(0, strides=[1])):\n" + body + "  return (%x)\n", options);
  EXPECT_TRUE(g.ok()) << g.status();
  if (!g.ok()) return {};
  const Tensor x = Tensor::Empty(DType::kFloat32, {3, 4});
  std::fill_n(x.data_as<float>(), 12, 1.0f);
  const std::vector<EvalValue> args = {EvalValue(x), EvalValue(Tensor::Empty(DType::kInt64, {0}))};
  absl::Status evaluated = EvaluateGraph(**g, args, EvalOptions()).status();
  EXPECT_TRUE(OpenComposites(**g).ok());
  return {Functionalize(**g, {}).status(), evaluated};
}

// PyTorch returns [[1, 0], [3, 2], [5, 4]] for numbers from 0 up: x has two columns when the kernel reads it.
TEST(WriteOperators, AnOperandThatTheResultResizesIsRefused) {
  const auto [functionalized, evaluated] = IntoItsOperand(R"(
  %k : int = prim::Constant[value=2]()
  %d : int = prim::Constant[value=1]()
  %yes : bool = prim::Constant[value=1]()
  %v : Float(3, 2, strides=[2, 1]), %w : Long(3, 2, strides=[2, 1]) = aten::topk.values(%x, %k, %d, %yes, %yes, %x, %i)
)");
  EXPECT_EQ(functionalized.code(), absl::StatusCode::kUnimplemented) << functionalized;
  EXPECT_EQ(evaluated.code(), absl::StatusCode::kUnimplemented) << evaluated;
}

TEST(WriteOperators, AnOperandThatAnElementwiseResultResizesIsAnError) {
  const auto [functionalized, evaluated] = IntoItsOperand(R"(
  %sizes : int[] = prim::Constant[value=[2, 3, 4]]()
  %none : NoneType = prim::Constant()
  %one : int = prim::Constant[value=1]()
  %y : Float(2, 3, 4, strides=[12, 4, 1]) = aten::ones(%sizes, %none, %none, %none, %none)
  %z : Float(2, 3, 4, strides=[12, 4, 1]) = aten::add.out(%x, %y, %one, %x)
)");
  EXPECT_EQ(functionalized.code(), absl::StatusCode::kFailedPrecondition) << functionalized;
  EXPECT_EQ(evaluated.code(), absl::StatusCode::kInvalidArgument) << evaluated;
}

// diag computes its result, then writes it.
TEST(WriteOperators, AnOperandThatIsReadBeforeItIsResizedIsTaken) {
  const auto [functionalized, evaluated] = IntoItsOperand(R"(
  %zero : int = prim::Constant[value=0]()
  %z : Float(3, strides=[1]) = aten::diag.out(%x, %zero, %x)
)");
  EXPECT_TRUE(functionalized.ok()) << functionalized;
  EXPECT_TRUE(evaluated.ok()) << evaluated;
}

}  // namespace
}  // namespace smelt
