#include "smelt/functionalize/convention_builder.h"

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "smelt/core/ir/text.h"

namespace smelt {
namespace {

using Kind = OutputInfo::Kind;

// A program at the end of the walk: %x is an argument, %a and %b were computed.
struct Walked {
  std::unique_ptr<Graph> g = *ParseGraph(R"(graph(%x : Float(4, strides=[1])):
  %a : Float(4, strides=[1]) = aten::relu(%x)
  %b : Float(4, strides=[1]) = aten::neg(%x)
  return ())");
  ValueId x = g->inputs()[0], a = g->FindValue("a"), b = g->FindValue("b");
  MemoryTable memories;
  PossibleSharing sharing;
  std::vector<TensorState> tensors;
  IdMap<ValueId, TensorId> tensor_of;
  ProgramInputs inputs;
  FunctionalizeResult result;

  Walked() {
    OverlapsLayer& overlaps = result.convention.overlaps;
    overlaps.num_memories = overlaps.num_argument_memories = 1;
    overlaps.memory_of = {MemoryIndex(0)};
    MemoryState argument = Memory(x);
    argument.origin = MemoryState::Origin::kArgument;
    argument.index = 0;
    const TensorId t = Bind(x, memories.Add(argument));
    inputs.arguments.push_back({.caller = 0, .tensor = t, .memory = 0, .initial = tensors[t].geometry, .name = "x"});
  }

  MemoryState Memory(ValueId v) const {
    MemoryState m;
    m.version = m.initial = v;
    m.nominal = GeometryOf(g->value(v).type.tensor());
    return m;
  }
  TensorId Bind(ValueId v, MemoryId m) {
    tensors.push_back({m, -1, GeometryOf(g->value(v).type.tensor())});
    return tensor_of[v] = static_cast<TensorId>(tensors.size()) - 1;
  }
  TensorId BindFresh(ValueId v) { return Bind(v, memories.Add(Memory(v))); }

  absl::Status Build(const std::vector<ValueId>& outputs) {
    for (ValueId v : outputs) g->AddOutput(v);
    const auto read = [&](TensorId t) { return memories[tensors[t].memory].version; };
    return ConventionBuilder({*g, memories, sharing, tensors, tensor_of, inputs}, read, result).Build();
  }
  const OutputInfo& Output(size_t k) const { return result.convention.outputs.outputs[k]; }
};

TEST(ConventionBuilderTest, AResultInMemoryOfItsOwnIsFresh) {
  Walked w;
  w.BindFresh(w.a);
  ASSERT_TRUE(w.Build({w.a}).ok());
  EXPECT_EQ(w.Output(0).kind, Kind::kFresh);
  EXPECT_EQ(w.Output(0).contents, GraphOutputIndex(0));
  EXPECT_EQ(w.g->outputs()[0], w.a);
}

TEST(ConventionBuilderTest, TwoResultsInOneMemoryAreViewsOfOneOutput) {
  Walked w;
  w.BindFresh(w.a);
  w.Bind(w.b, w.tensors[*w.tensor_of.Find(w.a)].memory);
  ASSERT_TRUE(w.Build({w.a, w.b}).ok());
  EXPECT_EQ(w.Output(0).kind, Kind::kAliasOfIntermediate);
  EXPECT_EQ(w.Output(1).kind, Kind::kAliasOfIntermediate);
  EXPECT_EQ(w.Output(0).memory, w.Output(1).memory);
  EXPECT_EQ(w.g->outputs().size(), 1u);
}

TEST(ConventionBuilderTest, AnArgumentThatIsReturnedIsTheCallersTensor) {
  Walked w;
  ASSERT_TRUE(w.Build({w.x}).ok());
  EXPECT_EQ(w.Output(0).kind, Kind::kIsArgument);
  EXPECT_EQ(w.Output(0).argument, CallerIndex(0));
  EXPECT_TRUE(w.g->outputs().empty()) << "its contents have not changed";
}

TEST(ConventionBuilderTest, ContentsThatReplaceAnArgumentsAreAnOutput) {
  Walked w;
  w.memories.Edit(0).version = w.b;
  ASSERT_TRUE(w.Build({}).ok());
  ASSERT_EQ(w.result.convention.mutations.memories.size(), 1u);
  EXPECT_EQ(w.result.convention.mutations.memories[0].memory, MemoryIndex(0));
  EXPECT_EQ(w.g->outputs()[w.result.convention.mutations.memories[0].contents.value()], w.b);
  EXPECT_TRUE(w.result.convention.mutations.inputs.empty()) << "its geometry is what it was";
}

TEST(ConventionBuilderTest, AnArgumentWithAnotherGeometryIsAMutatedInput) {
  Walked w;
  w.tensors[0].geometry = {DType::kFloat32, {2, 2}, {2, 1}, 0};
  ASSERT_TRUE(w.Build({}).ok());
  ASSERT_EQ(w.result.convention.mutations.inputs.size(), 1u);
  EXPECT_FALSE(w.result.convention.mutations.inputs[0].storage);
  EXPECT_EQ(w.result.convention.mutations.inputs[0].final_geometry.sizes, (std::vector<Expr>{2, 2}));
}

TEST(ConventionBuilderTest, AResultThatMayBeAnArgumentIsRefused) {
  Walked w;
  const MemoryId copy = w.tensors[w.BindFresh(w.a)].memory;
  w.sharing.Join({{copy, {w.sharing.SetOf(0)}}}, w.sharing.Now(w.memories.size()));
  EXPECT_TRUE(absl::IsUnimplemented(w.Build({w.a})));
}

TEST(ConventionBuilderTest, AConjugatedResultThatMayBeAnArgumentIsRefused) {
  Walked w;
  const TensorId t = w.BindFresh(w.a);
  w.tensors[t].negated = true;
  w.sharing.Join({{w.tensors[t].memory, {w.sharing.SetOf(0)}}}, w.sharing.Now(w.memories.size()));
  EXPECT_TRUE(absl::IsUnimplemented(w.Build({w.a})));
}

TEST(ConventionBuilderTest, ContentsThatCallsWithASizeOfOneChangeAreNoted) {
  Walked w;
  w.memories.Edit(0).stale_at_one = {"s0"};
  ASSERT_TRUE(w.Build({}).ok());
  EXPECT_EQ(w.result.at_least_two, std::set<std::string>{"s0"});
}

}  // namespace
}  // namespace smelt
