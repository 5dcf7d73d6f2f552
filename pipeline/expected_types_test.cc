#include "smelt/pipeline/expected_types.h"

#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/core/ir/text.h"
#include "smelt/core/op/infer.h"

namespace smelt {
namespace {

// The rows of a list that a loop may change, about which TorchScript knows nothing.
constexpr char kChangingList[] = R"(graph(%x : Float(3, 4, strides=[4, 1]), %n : int):
  %zero : int = prim::Constant[value=0]()
  %yes : bool = prim::Constant[value=1]()
  %row : Tensor = aten::select.int(%x, %zero, %zero)
  %l : Tensor[] = prim::ListConstruct(%row)
  %y : Tensor = prim::Loop(%n, %yes, %x)
    block0(%i : int, %c : Tensor):
      %v : Tensor = aten::pop.t(%l, %zero)
      -> (%yes, %v)
  return (%y)
)";

ValueId Find(const Graph& g, absl::string_view name) {
  for (NodeId n : g.AllNodes()) {
    for (ValueId v : g.node(n).outputs) {
      if (g.value(v).name == name) return v;
    }
  }
  return ValueId();
}

std::unique_ptr<Graph> Parse(const char* text) {
  auto g = ParseGraph(text);
  EXPECT_TRUE(g.ok()) << g.status();
  EXPECT_EQ(InferTypes(**g), absl::OkStatus());
  return *std::move(g);
}

TEST(ExpectedTypesTest, AnElementIsExpectedToBeLikeWhatTheListWasMadeOf) {
  const std::unique_ptr<Graph> g = Parse(kChangingList);
  EXPECT_TRUE(ExpectTypes(*g));
  const TensorType& v = g->value(Find(*g, "v")).type.tensor();
  EXPECT_EQ(v.dtype, DType::kFloat32);
  EXPECT_FALSE(v.sizes.has_value());  // rows of any dims may be put there
  EXPECT_THAT(PrintGraph(*g), ::testing::HasSubstr("smelt::assert_type[dtype="));
}

TEST(ExpectedTypesTest, DimsAreGuessedWhereThatIsAskedFor) {
  const std::unique_ptr<Graph> g = Parse(kChangingList);
  ExpectTypes(*g, ExpectedDims::kLikeOperands);
  EXPECT_EQ(g->value(Find(*g, "v")).type.tensor().rank(), 1);
}

TEST(ExpectedTypesTest, WhereEveryTypeIsKnownNothingChanges) {
  const std::unique_ptr<Graph> g = Parse(R"(graph(%x : Float(3, strides=[1])):
  %y : Float(3, strides=[1]) = aten::relu(%x)
  return (%y)
)");
  const std::string before = PrintGraph(*g);
  EXPECT_FALSE(ExpectTypes(*g));
  EXPECT_EQ(PrintGraph(*g), before);
}

}  // namespace
}  // namespace smelt
