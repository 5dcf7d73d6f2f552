#include "smelt/core/ir/graph.h"

#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace smelt {

// Uses private members to break invariants that no edit breaks.
class GraphTestPeer {
 public:
  static Node& node(Graph& g, NodeId n) { return g.nodes_.Get(n); }
  static Value& value(Graph& g, ValueId v) { return g.values_.Get(v); }
};

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Type kFloat4 = Type::Tensor(DType::kFloat32, {4});
OpName Op(absl::string_view name) { return OpName::Get(name); }

NodeId Relu(Graph& g, ValueId x) { return g.Append(g.top(), Op("aten::relu"), {x}, {kFloat4}); }
ValueId Out(const Graph& g, NodeId n) { return g.node(n).outputs[0]; }

TEST(GraphTest, BuildsTheSnippetInTheHeader) {
  Graph g;
  ValueId x = g.AddInput("x", kFloat4);
  NodeId n = Relu(g, x);
  g.AddOutput(Out(g, n), "y");
  EXPECT_EQ(g.num_nodes(), 1);
  EXPECT_THAT(g.inputs(), ElementsAre(x));
  EXPECT_THAT(g.outputs(), ElementsAre(Out(g, n)));
  EXPECT_THAT(g.output_names, ElementsAre("y"));
  EXPECT_EQ(g.FindValue("x"), x);
  EXPECT_EQ(g.value(x).uses.size(), 1);
  EXPECT_EQ(VerifyGraph(g), absl::OkStatus());
}

TEST(GraphTest, AStaleIdIsDetectedAfterItsSlotIsUsedAgain) {
  Graph g;
  ValueId x = g.AddInput("x", kFloat4);
  NodeId n = Relu(g, x);
  ValueId y = Out(g, n);
  g.Erase(n);
  EXPECT_FALSE(g.IsLive(n));
  EXPECT_FALSE(g.IsLive(y));
  NodeId m = Relu(g, x);
  EXPECT_EQ(m.index, n.index);
  EXPECT_NE(m, n);
  EXPECT_TRUE(g.IsLive(m));
  EXPECT_FALSE(g.IsLive(n));
  EXPECT_DEATH(g.node(n), "stale or invalid id");
  EXPECT_FALSE(g.IsLive(NodeId()));
}

TEST(GraphTest, ErasingANodeWhoseOutputIsUsedIsABugThatIsCaught) {
  Graph g;
  NodeId n = Relu(g, g.AddInput("x", kFloat4));
  Relu(g, Out(g, n));
  EXPECT_DEATH(g.Erase(n), "still has 1 uses");
}

TEST(GraphTest, UsesFollowEveryEditOfInputs) {
  Graph g;
  ValueId x = g.AddInput("x", kFloat4), y = g.AddInput("y", kFloat4);
  NodeId n = g.Append(g.top(), Op("aten::cat"), {x, x, y, x}, {kFloat4});
  EXPECT_EQ(g.value(x).uses.size(), 3);
  g.RemoveInput(n, 1);
  EXPECT_THAT(g.node(n).inputs, ElementsAre(x, y, x));
  EXPECT_EQ(VerifyGraph(g), absl::OkStatus());
  g.SetInput(n, 0, y);
  EXPECT_EQ(g.value(x).uses.size(), 1);
  EXPECT_EQ(g.value(x).uses[0].index, 2u);
  g.ReplaceAllUses(y, x);
  EXPECT_THAT(g.node(n).inputs, ElementsAre(x, x, x));
  EXPECT_THAT(g.value(y).uses, IsEmpty());
  g.AddNodeInput(n, y);
  EXPECT_EQ(VerifyGraph(g), absl::OkStatus());
}

TEST(GraphTest, NamesAreUniqueAndTheNumbersOfUnnamedValuesAvoidGivenOnes) {
  Graph g;
  ValueId a = g.AddInput("x", kFloat4), b = g.AddInput("x", kFloat4), c = g.AddInput("x.1", kFloat4);
  EXPECT_EQ(g.value(a).name, "x");
  EXPECT_EQ(g.value(b).name, "x.1");
  EXPECT_EQ(g.value(c).name, "x.2");
  ValueId zero = g.AddInput("0", kFloat4);
  EXPECT_EQ(g.value(zero).name, "0");
  ValueId unnamed = Out(g, Relu(g, a));
  EXPECT_EQ(g.value(unnamed).name, "1");
  ValueId huge = g.AddInput("999999999", kFloat4);
  EXPECT_EQ(g.FindValue("999999999"), huge);
  g.SetName(unnamed, "y");
  EXPECT_EQ(g.FindValue("1"), ValueId());
  EXPECT_EQ(g.FindValue("y"), unnamed);
  g.SetName(unnamed, "");
  EXPECT_EQ(g.FindValue(g.value(unnamed).name), unnamed);
  EXPECT_EQ(VerifyGraph(g), absl::OkStatus());
}

TEST(GraphTest, OrderLabelsAgreeWithListOrderUnderAnyInsertion) {
  for (int mode = 0; mode < 4; ++mode) {
    Graph g;
    ValueId x = g.AddInput("x", kFloat4);
    std::mt19937 random(mode);
    std::vector<NodeId> nodes = {Relu(g, x), Relu(g, x)};
    for (int i = 0; i < 20000; ++i) {
      NodeId anchor = mode == 0   ? nodes[1]                         // always before the same node
                      : mode == 1 ? nodes[0]                         // always after the same node
                      : mode == 2 ? g.block(g.top()).first           // always at the front
                                  : nodes[random() % nodes.size()];  // anywhere
      NodeId n = mode == 1 ? g.InsertAfter(anchor, Op("aten::relu"), {x}, {kFloat4})
                           : g.InsertBefore(anchor, Op("aten::relu"), {x}, {kFloat4});
      nodes.push_back(n);
    }
    ASSERT_EQ(VerifyGraph(g), absl::OkStatus()) << mode;
    std::vector<NodeId> order = g.Nodes(g.top());
    for (size_t i = 1; i < order.size(); ++i) ASSERT_TRUE(g.IsBefore(order[i - 1], order[i]));
    EXPECT_TRUE(g.IsBefore(g.block(g.top()).param_node, order.front()));
    EXPECT_TRUE(g.IsBefore(order.back(), g.block(g.top()).return_node));
  }
}

TEST(GraphTest, MovesChangeOrderAndBlock) {
  Graph g;
  ValueId x = g.AddInput("x", kFloat4);
  NodeId a = Relu(g, x), b = Relu(g, x), c = Relu(g, x);
  g.MoveBefore(c, a);
  EXPECT_THAT(g.Nodes(g.top()), ElementsAre(c, a, b));
  g.MoveAfter(c, b);
  EXPECT_THAT(g.Nodes(g.top()), ElementsAre(a, b, c));
  g.MoveAfter(c, g.block(g.top()).param_node);
  EXPECT_THAT(g.Nodes(g.top()), ElementsAre(c, a, b));
  g.MoveBefore(c, g.block(g.top()).return_node);
  EXPECT_THAT(g.Nodes(g.top()), ElementsAre(a, b, c));
  g.MoveAfter(b, b);
  g.MoveBefore(b, b);
  EXPECT_THAT(g.Nodes(g.top()), ElementsAre(a, b, c));
  NodeId branch = g.Append(g.top(), Op("prim::If"), {x}, {});
  BlockId inner = g.AddBlock(branch);
  g.AddBlock(branch);
  g.MoveToEnd(b, inner);
  EXPECT_THAT(g.Nodes(g.top()), ElementsAre(a, c, branch));
  EXPECT_THAT(g.Nodes(inner), ElementsAre(b));
  EXPECT_EQ(g.node(b).parent, inner);
  EXPECT_THAT(g.AllNodes(), ElementsAre(a, c, branch, b));
  EXPECT_EQ(VerifyGraph(g), absl::OkStatus());
  EXPECT_DEATH(g.MoveToEnd(branch, inner), "into its own block");
}

// An If with a nested If; the inner block uses values from around it.
NodeId NestedIf(Graph& g, ValueId x) {
  NodeId outer = g.Append(g.top(), Op("prim::If"), {x}, {kFloat4});
  for (int i = 0; i < 2; ++i) {
    BlockId b = g.AddBlock(outer);
    NodeId r = g.Append(b, Op("aten::relu"), {x}, {kFloat4});
    NodeId inner = g.Append(b, Op("prim::If"), {Out(g, r)}, {kFloat4});
    for (int k = 0; k < 2; ++k) {
      BlockId c = g.AddBlock(inner);
      NodeId s = g.Append(c, Op("aten::relu"), {Out(g, r)}, {kFloat4});
      g.AddResult(c, Out(g, s));
    }
    g.AddResult(b, Out(g, inner));
  }
  return outer;
}

TEST(GraphTest, ErasingANodeErasesItsBlocks) {
  Graph g;
  ValueId x = g.AddInput("x", kFloat4);
  NodeId n = NestedIf(g, x);
  EXPECT_EQ(g.num_nodes(), 9);
  EXPECT_EQ(VerifyGraph(g), absl::OkStatus());
  g.Erase(n);
  EXPECT_EQ(g.num_nodes(), 0);
  EXPECT_THAT(g.value(x).uses, IsEmpty());
  EXPECT_EQ(VerifyGraph(g), absl::OkStatus());
}

TEST(GraphTest, CloneKeepsIdsAndSharesNothingThatIsEdited) {
  Graph g;
  ValueId x = g.AddInput("x", kFloat4);
  NodeId n = NestedIf(g, x);
  g.AddOutput(Out(g, n));
  auto sub = std::make_shared<Graph>();
  sub->AddInput("s", kFloat4);
  g.SetAttribute(n, "Subgraph", sub);
  std::unique_ptr<Graph> copy = g.Clone();
  EXPECT_EQ(VerifyGraph(*copy), absl::OkStatus());
  EXPECT_EQ(copy->num_nodes(), g.num_nodes());
  EXPECT_EQ(copy->FindValue("x"), x);
  EXPECT_NE(std::get<std::shared_ptr<Graph>>(*copy->node(n).FindAttribute("Subgraph")), sub);
  copy->SetOutput(0, x);
  copy->Erase(n);
  EXPECT_EQ(copy->num_nodes(), 0);
  EXPECT_EQ(g.num_nodes(), 9);
  EXPECT_EQ(VerifyGraph(g), absl::OkStatus());
  EXPECT_EQ(VerifyGraph(*copy), absl::OkStatus());
}

// Records what it is told.
class Log : public GraphListener {
 public:
  explicit Log(Graph& g) : g_(g) { g.AddListener(this); }
  ~Log() override { g_.RemoveListener(this); }
  void OnNodeInserted(NodeId n) override { Say("inserted ", n); }
  void OnNodeErasing(NodeId n) override {
    for (ValueId v : g_.node(n).outputs) EXPECT_THAT(g_.value(v).uses, IsEmpty());
    Say("erasing ", n);
  }
  void OnNodeMoved(NodeId n, BlockId) override { Say("moved ", n); }
  void OnInputChanged(NodeId n, uint32_t i, ValueId old) override {
    Say(absl::StrCat("input ", i, old.valid() ? absl::StrCat(" was ", g_.value(old).name, " of ") : " added to "), n);
  }
  void OnInputRemoved(NodeId n, uint32_t i, ValueId) override { Say(absl::StrCat("removed ", i, " of "), n); }
  void OnOutputAdded(NodeId n, uint32_t i) override { Say(absl::StrCat("output ", i, " of "), n); }
  void OnOutputErasing(NodeId n, uint32_t i) override { Say(absl::StrCat("erasing output ", i, " of "), n); }
  void OnBlockAdded(NodeId n, BlockId) override { Say("block of ", n); }
  void OnTypeChanged(ValueId v) override { lines.push_back(absl::StrCat("type of ", g_.value(v).name)); }
  void OnAttributeChanged(NodeId n, absl::string_view name) override {
    Say(absl::StrCat("attribute ", name, " of "), n);
  }
  std::vector<std::string> lines;

 private:
  void Say(absl::string_view what, NodeId n) { lines.push_back(absl::StrCat(what, g_.node(n).op.full())); }
  Graph& g_;
};

TEST(GraphTest, NodesThatShareAttributesAreEditedApart) {
  Graph g;
  const ValueId x = g.AddInput("x", kFloat4);
  const NodeId a = g.Append(g.top(), Op("aten::relu"), {x}, {kFloat4}, {{"b", int64_t{1}}, {"a", int64_t{2}}});
  const NodeId b = g.Append(g.top(), Op("aten::relu"), {x}, {kFloat4}, g.node(a).attributes);
  EXPECT_EQ(g.node(a).attributes.begin(), g.node(b).attributes.begin());
  g.SetAttribute(b, "a", int64_t{3});
  g.RemoveAttribute(b, "b");
  EXPECT_EQ(std::get<int64_t>(*g.node(a).FindAttribute("a")), 2);
  EXPECT_EQ(std::get<int64_t>(*g.node(a).FindAttribute("b")), 1);
  EXPECT_EQ(std::get<int64_t>(*g.node(b).FindAttribute("a")), 3);
  EXPECT_EQ(g.node(b).FindAttribute("b"), nullptr);
}

TEST(GraphTest, ListenersHearOfEveryEdit) {
  Graph g;
  ValueId x = g.AddInput("x", kFloat4), y = g.AddInput("y", kFloat4);
  Log log(g);
  NodeId a = Relu(g, x);
  g.SetInput(a, 0, y);
  NodeId branch = g.Append(g.top(), Op("prim::If"), {x}, {});
  BlockId b = g.AddBlock(branch);
  g.MoveToEnd(a, b);
  g.AddResult(b, Out(g, a));
  g.AddNodeOutput(branch, kFloat4);
  g.SetType(y, Type::Tensor());
  g.SetAttribute(a, "k", int64_t{1});
  g.EraseNodeOutput(branch, 0);
  g.SetOp(a, Op("aten::relu6"));
  g.Erase(branch);
  EXPECT_THAT(log.lines, ElementsAre("inserted aten::relu", "input 0 was x of aten::relu", "inserted prim::If",
                                     "block of prim::If", "moved aten::relu", "input 0 added to prim::Return",
                                     "output 0 of prim::If", "type of y", "attribute k of aten::relu",
                                     "erasing output 0 of prim::If", "input 0 was y of aten::relu6",
                                     "removed 0 of prim::Return", "erasing aten::relu6", "erasing prim::If"));
}

TEST(GraphTest, ConstantsAndListsAreReadBack) {
  Graph g;
  NodeId end = g.block(g.top()).return_node;
  ValueId three = InsertConstant(g, end, int64_t{3});
  EXPECT_EQ(std::get<int64_t>(*GetConstant(g, three)), 3);
  EXPECT_EQ(GetIntExpr(g, three), Expr(3));
  EXPECT_EQ(g.value(three).type, Type::Int());
  ValueId none = InsertConstant(g, end, std::monostate());
  EXPECT_TRUE(std::holds_alternative<std::monostate>(*GetConstant(g, none)));
  EXPECT_EQ(std::get<bool>(*GetConstant(g, InsertConstant(g, end, true))), true);
  EXPECT_EQ(std::get<std::string>(*GetConstant(g, InsertConstant(g, end, std::string("s")))), "s");
  ValueId n = g.AddInput("n", Type::Int());
  g.SetExpr(n, Expr::Symbol("s0"));
  NodeId list = g.Append(g.top(), Op("prim::ListConstruct"), {three, n}, {Type::List(Type::Int())});
  EXPECT_THAT(*GetIntListExpr(g, Out(g, list)), ElementsAre(Expr(3), Expr::Symbol("s0")));
  EXPECT_THAT(*GetListElements(g, Out(g, list)), ElementsAre(three, n));
  ValueId ints = InsertConstant(g, end, std::vector<int64_t>{1, 2});
  EXPECT_THAT(*GetIntListExpr(g, ints), ElementsAre(Expr(1), Expr(2)));
  EXPECT_EQ(GetConstant(g, n), std::nullopt);
}

TEST(VerifyGraphTest, NamesTheNodeThatUsesAValueBeforeItIsDefined) {
  Graph g;
  ValueId x = g.AddInput("x", kFloat4);
  NodeId a = Relu(g, x), b = Relu(g, Out(g, a));
  g.MoveBefore(b, a);
  EXPECT_THAT(std::string(VerifyGraph(g).message()), HasSubstr("aten::relu: input 0, %0, is not defined before"));
}

TEST(VerifyGraphTest, AValueOfABlockIsNotVisibleOutsideIt) {
  Graph g;
  ValueId x = g.AddInput("x", kFloat4);
  NodeId branch = g.Append(g.top(), Op("prim::If"), {x}, {});
  NodeId inner = g.Append(g.AddBlock(branch), Op("aten::relu"), {x}, {kFloat4});
  NodeId outside = Relu(g, Out(g, inner));
  EXPECT_FALSE(VerifyGraph(g).ok());
  g.Erase(outside);
  EXPECT_EQ(VerifyGraph(g), absl::OkStatus());
}

TEST(VerifyGraphTest, FindsBrokenOrderUsesAndOwners) {
  Graph g;
  ValueId x = g.AddInput("x", kFloat4);
  NodeId a = Relu(g, x), b = Relu(g, x);
  uint64_t order = g.node(b).order;
  GraphTestPeer::node(g, b).order = g.node(a).order;
  EXPECT_THAT(std::string(VerifyGraph(g).message()), HasSubstr("order label"));
  GraphTestPeer::node(g, b).order = order;
  GraphTestPeer::value(g, Out(g, b)).def = a;
  EXPECT_THAT(std::string(VerifyGraph(g).message()), HasSubstr("is another node's"));
  GraphTestPeer::value(g, Out(g, b)).def = b;
  GraphTestPeer::value(g, x).uses[0].index = 7;
  EXPECT_THAT(std::string(VerifyGraph(g).message()), HasSubstr("does not list this use"));
  GraphTestPeer::value(g, x).uses[0].index = 0;
  EXPECT_EQ(VerifyGraph(g), absl::OkStatus());
  g.input_infos[0].kind = InputInfo::Kind::kWeight;
  EXPECT_FALSE(VerifyGraph(g).ok());
}

TEST(VerifyGraphTest, RandomEditsKeepEveryInvariant) {
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    Graph g;
    g.AddInput("x", kFloat4);
    for (int i = 0; i < 300; ++i) {
      std::vector<NodeId> nodes = g.AllNodes();
      // Values visible anywhere: only the top block's inputs and its nodes before; here just the input and appended
      // nodes.
      ValueId x = g.inputs()[0];
      int choice = random() % 6;
      if (nodes.empty() || choice <= 1) {
        NodeId n = Relu(g, x);
        if (random() % 3 == 0) {
          BlockId b = g.AddBlock(n);
          g.AddResult(b, g.AddParam(b, kFloat4));
        }
      } else if (choice == 2) {
        NodeId n = nodes[random() % nodes.size()];
        for (ValueId v : g.node(n).outputs) g.ReplaceAllUses(v, x);
        g.Erase(n);
      } else if (choice == 3) {
        NodeId n = nodes[random() % nodes.size()];
        for (ValueId v : g.node(n).outputs) g.ReplaceAllUses(v, x);
        NodeId anchor = nodes[random() % nodes.size()];
        bool inside = false;
        for (BlockId b = g.node(anchor).parent; g.block(b).owner.valid(); b = g.node(g.block(b).owner).parent) {
          inside = inside || g.block(b).owner == n;
        }
        if (!inside) g.MoveBefore(n, anchor);
      } else if (choice == 4) {
        NodeId n = nodes[random() % nodes.size()];
        if (!g.node(n).blocks.empty()) g.Append(g.node(n).blocks[0], Op("aten::relu"), {x}, {kFloat4});
      } else {
        NodeId n = nodes[random() % nodes.size()];
        g.AddNodeInput(n, x);
        if (g.node(n).inputs.size() > 3) g.RemoveInput(n, random() % 3);
      }
      ASSERT_EQ(VerifyGraph(g), absl::OkStatus()) << round << " " << i;
    }
  }
}

}  // namespace
}  // namespace smelt
