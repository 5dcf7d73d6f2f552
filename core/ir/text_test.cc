#include "smelt/core/ir/text.h"

#include <random>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/core/ir/text_samples.h"

namespace smelt {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::unique_ptr<Graph> ParseOrDie(absl::string_view text) {
  absl::StatusOr<std::unique_ptr<Graph>> g = ParseGraph(text);
  EXPECT_TRUE(g.ok()) << g.status() << "\n" << text;
  if (!g.ok()) return std::make_unique<Graph>();
  EXPECT_EQ(VerifyGraph(**g), absl::OkStatus());
  return *std::move(g);
}

std::string ErrorOf(absl::string_view text) {
  absl::StatusOr<std::unique_ptr<Graph>> g = ParseGraph(text, {.file_name = "t.ir"});
  return g.ok() ? "no error" : std::string(g.status().message());
}

NodeId Def(const Graph& g, absl::string_view name) { return g.value(g.FindValue(name)).def; }
template <typename T>
T Attr(const Graph& g, absl::string_view value, absl::string_view name) {
  return std::get<T>(*g.node(Def(g, value)).FindAttribute(name));
}

TEST(TextTest, AFunctionWrittenInPythonHasAttributesBeforeItsArguments) {
  std::unique_ptr<Graph> g = ParseOrDie(R"(graph(%x : Tensor):
  %y : Tensor = ^ignored[]()(%x)
  %z : Tensor = ^Swish[inplace=0, module="nets"](True)(%y)
  return (%z))");
  EXPECT_EQ(Attr<std::string>(*g, "y", "name"), "ignored");
  EXPECT_EQ(Attr<int64_t>(*g, "z", "inplace"), 0);
  EXPECT_EQ(Attr<std::string>(*g, "z", "scalar_args"), "(True)");
}

TEST(TextTest, TheSnippetInTheHeaderParsesAndPrintsAsItWas) {
  const char* text = R"(graph(%x : Float(4, 8, strides=[8, 1])):
  %1 : int = prim::Constant[value=1]()
  %2 : Float(4, 8, strides=[8, 1]) = aten::add_(%x, %x, %1) # model.py:3:0
  return (%2)
)";
  std::unique_ptr<Graph> g = ParseOrDie(text);
  EXPECT_EQ(PrintGraph(*g), text);
  EXPECT_EQ(g->num_nodes(), 2);
  EXPECT_EQ(g->node(Def(*g, "2")).source->ToString(), "model.py:3");
  EXPECT_EQ(GetIntExpr(*g, g->FindValue("1")), Expr(1));
  EXPECT_EQ(PrintNode(*g, Def(*g, "1")), "%1 : int = prim::Constant[value=1]()");
}

TEST(TextTest, WhatPyTorchPrintsComesBackUnchangedAfterOnePass) {
  for (const char* text : {kScripted, kInlined, kTraced, kPropagated, kFrozen, kForms, kExtended}) {
    std::unique_ptr<Graph> g = ParseOrDie(text);
    std::string once = PrintGraph(*g);
    EXPECT_EQ(PrintGraph(*ParseOrDie(once)), once);
  }
}

TEST(TextTest, AScriptedGraphPrintsByteForByteAsPyTorchDid) {
  // Except for complex constants, and doubles, for which PyTorch prints 17 digits and smelt prints as many as are
  // needed.
  std::string expected =
      absl::StrReplaceAll(kInlined, {{"1.+2.j", "complex(1., 2.)"}, {"1.0000000000000001e-05", "1e-05"}});
  EXPECT_EQ(PrintGraph(*ParseOrDie(kInlined)), expected);
}

TEST(TextTest, SmeltsExtensionsPrintByteForByte) { EXPECT_EQ(PrintGraph(*ParseOrDie(kExtended)), kExtended); }

TEST(TextTest, BlocksSubgraphsAndNodesWithoutOutputsAreRead) {
  std::unique_ptr<Graph> g = ParseOrDie(kScripted);
  const Node& loop = g->node(Def(*g, "a.45"));
  EXPECT_EQ(loop.op, OpName::Get("prim::Loop"));
  ASSERT_EQ(loop.blocks.size(), 1);
  EXPECT_EQ(g->params(loop.blocks[0]).size(), 2);
  EXPECT_EQ(g->results(loop.blocks[0]).size(), 2);
  const Node& fork = g->node(Def(*g, "f.1"));
  EXPECT_EQ(fork.op, OpName::Get("prim::fork"));
  EXPECT_EQ(g->value(fork.outputs[0]).type, Type::Future(Type::Tensor()));
  EXPECT_EQ(Attr<std::shared_ptr<Graph>>(*g, "f.1", "Subgraph")->num_nodes(), 2);
  EXPECT_EQ(g->inputs().size(), 5);
  EXPECT_EQ(g->value(g->inputs()[2]).type, Type::Optional(Type::Tensor()));
  bool print = false;
  for (NodeId n : g->AllNodes()) print = print || (g->node(n).op == "prim::Print" && g->node(n).outputs.empty());
  EXPECT_TRUE(print);
}

TEST(TextTest, NestedSubgraphsBelongToTheGraphBeforeThem) {
  std::unique_ptr<Graph> g = ParseOrDie(kForms);
  auto outer = Attr<std::shared_ptr<Graph>>(*g, "7", "Subgraph");
  auto inner = Attr<std::shared_ptr<Graph>>(*outer, "1", "Subgraph");
  EXPECT_EQ(inner->node(Def(*inner, "1")).op, OpName::Get("aten::relu"));
  EXPECT_EQ(inner->node(Def(*inner, "1")).source->file, "<string>");
}

TEST(TextTest, ConstantsHaveTheValuesPyTorchMeant) {
  std::unique_ptr<Graph> g = ParseOrDie(kScripted);
  EXPECT_EQ(Attr<bool>(*g, "12", "value"), true);
  EXPECT_EQ(Attr<std::complex<double>>(*g, "125", "value"), std::complex<double>(1, 2));
  EXPECT_EQ(Attr<std::string>(*g, "40", "value"), "q\"x");
  EXPECT_EQ(Attr<std::string>(*g, "38", "value"), "hi\n");
  EXPECT_EQ(Attr<double>(*g, "26", "value"), 1e-5);
  EXPECT_EQ(Attr<double>(*g, "122", "value"), std::numeric_limits<double>::infinity());
  EXPECT_EQ(Attr<OpaqueAttribute>(*g, "124", "value").text, "(1, \"s\")");
  EXPECT_TRUE(std::holds_alternative<std::monostate>(*GetConstant(*g, g->FindValue("46"))));
}

std::vector<float> Floats(const Tensor& t) {
  EXPECT_EQ(t.dtype(), DType::kFloat32);
  return std::vector<float>(t.data_as<float>(), t.data_as<float>() + t.NumElements());
}

TEST(TextTest, SmallTensorConstantsHaveDtypeShapeAndElements) {
  std::unique_ptr<Graph> g = ParseOrDie(kPropagated);
  EXPECT_THAT(Floats(Attr<Tensor>(*g, "67", "value")), ElementsAre(1.0f, 2.5f));
  Tensor three = Attr<Tensor>(*g, "69", "value");
  EXPECT_EQ(three.rank(), 0);
  EXPECT_THAT(Floats(three), ElementsAre(3.0f));
  Tensor longs = Attr<Tensor>(*g, "76", "value");
  EXPECT_EQ(longs.dtype(), DType::kInt64);
  EXPECT_THAT(std::vector<int64_t>(longs.sizes().begin(), longs.sizes().end()), ElementsAre(2, 2));
  EXPECT_THAT(std::vector<int64_t>(longs.data_as<int64_t>(), longs.data_as<int64_t>() + 4), ElementsAre(0, 1, 10, 11));
  std::unique_ptr<Graph> frozen = ParseOrDie(kFrozen);
  Tensor weight = Attr<Tensor>(*frozen, "self.0.weight", "value");
  EXPECT_EQ(weight.rank(), 4);
  EXPECT_THAT(Floats(weight), ElementsAre(-0.1615f, 0.3039f, 0.0653f, -0.3586f));
  EXPECT_THAT(Attr<std::vector<int64_t>>(*frozen, "19", "value"), ElementsAre(1, 1));
}

TEST(TextTest, AScaledTensorOfPyTorchIsScaled) {
  std::unique_ptr<Graph> g = ParseOrDie(R"(graph():
  %1 : Float(2, strides=[1]) = prim::Constant[value=1e-05 *  1.0000  2.5000 [ CPUFloatType{2} ]]()
  return (%1)
)");
  EXPECT_THAT(Floats(Attr<Tensor>(*g, "1", "value")), ElementsAre(1e-5f, 2.5e-5f));
}

TEST(TextTest, AComplexNumberOfATraceIsATensorWithoutDims) {
  std::unique_ptr<Graph> g = ParseOrDie(R"(graph():
  %1 : ComplexDouble(requires_grad=0, device=cpu) = prim::Constant[value={(1,-0.5)}]()
  return (%1)
)");
  Tensor t = Attr<Tensor>(*g, "1", "value");
  EXPECT_EQ(t.rank(), 0);
  EXPECT_THAT(std::vector<double>(t.data_as<double>(), t.data_as<double>() + 2), ElementsAre(1, -0.5));
}

TEST(TextTest, ExtensionsArriveInTheGraph) {
  std::unique_ptr<Graph> g = ParseOrDie(kExtended);
  EXPECT_EQ(g->name, "a graph");
  EXPECT_EQ(g->symbols.Get("s0").min, 2);
  EXPECT_EQ(g->symbols.Get("s0").max, 64);
  EXPECT_EQ(g->symbols.Get("s1").max, SymbolRanges::kInfinity);
  EXPECT_EQ(g->symbol_hints["s0"], 8);
  ASSERT_EQ(g->weights.size(), 2);
  EXPECT_EQ(g->weights[0].name, "layer.weight");
  EXPECT_EQ(g->weights[1].geometry.offset, 3);
  EXPECT_EQ(g->weights[1].kind, Weight::Kind::kBuffer);
  EXPECT_EQ(g->weight_storages[0]->bytes(), 512);
  EXPECT_EQ(g->weight_storages[0]->data(), nullptr);
  EXPECT_EQ(g->input_infos[2].weight, 0);
  EXPECT_TRUE(g->input_infos[3].is_constant);
  EXPECT_THAT(g->output_names, ElementsAre("out", ""));
  EXPECT_EQ(g->value(g->FindValue("m")).expr, Expr::Symbol("s0") * 2 + 1);
  EXPECT_EQ(Attr<Expr>(*g, "e", "a"), Expr::Symbol("s0") * 2);
  EXPECT_EQ(Attr<std::vector<double>>(*g, "e", "e").size(), 0);
  EXPECT_EQ(Attr<std::string>(*g, "e", "g"), "\"x\n\001");
  EXPECT_TRUE(g->FindValue("odd name").valid());
  EXPECT_EQ(g->node(Def(*g, "h")).source->text, "y = x + 1");
  EXPECT_EQ(g->node(Def(*g, "z")).source->file, "a # b.py");
  Tensor c = Attr<Tensor>(*g, "c", "value");
  EXPECT_THAT(Floats(c),
              ElementsAre(1.0f, -std::numeric_limits<float>::infinity(), 2.5f, 0.1f));  // column-major in memory
  Tensor h = Attr<Tensor>(*g, "h", "value");
  EXPECT_EQ(h.data_as<uint16_t>()[0], 0x3555);  // float16(1/3)
}

TEST(TextTest, HalfPrecisionConstantsRoundAsPyTorchDoes) {
  // Bits from torch.tensor([...], dtype=...).view(torch.int16).
  std::unique_ptr<Graph> g = ParseOrDie(R"(graph():
  %1 : Half(6) = prim::Constant[value=<Half(6): 1, 65519, 65520, 5.9604645e-08, 2.9802322e-08, -0.1>]()
  %2 : BFloat16(4) = prim::Constant[value=<BFloat16(4): 1.00390625, 1.01171875, 3.4e38, 1e-40>]()
  return (%1, %2)
)");
  const uint16_t* h = Attr<Tensor>(*g, "1", "value").data_as<uint16_t>();
  EXPECT_THAT(std::vector<uint16_t>(h, h + 6), ElementsAre(0x3c00, 0x7bff, 0x7c00, 0x0001, 0x0000, 0xae66));
  const uint16_t* b = Attr<Tensor>(*g, "2", "value").data_as<uint16_t>();
  EXPECT_THAT(std::vector<uint16_t>(b, b + 4), ElementsAre(0x3f80, 0x3f82, 0x7f80, 0x0001));
}

TEST(TextTest, SeveralGraphsInAFileNeedDifferentNames) {
  const char* text = "graph @f(%x : int):\n  return (%x)\n\n# then\ngraph @g():\n  return ()\n";
  absl::StatusOr<std::vector<std::unique_ptr<Graph>>> graphs = ParseGraphs(text);
  ASSERT_TRUE(graphs.ok()) << graphs.status();
  ASSERT_EQ(graphs->size(), 2);
  EXPECT_EQ((*graphs)[1]->name, "g");
  EXPECT_FALSE(ParseGraphs("graph():\n return ()\ngraph():\n return ()").ok());
  EXPECT_THAT(ErrorOf(text), HasSubstr("expected one graph, found 2"));
}

TEST(TextTest, OverloadsAreAskedForWhereTheTextHasNone) {
  ParseOptions options;
  std::vector<std::string> asked;
  options.resolve_overload = [&](absl::string_view name, absl::Span<const Type> types) -> absl::StatusOr<OpName> {
    asked.push_back(absl::StrCat(name, "/", types.size()));
    if (name == "aten::add") return OpName::Get("aten::add.Tensor");
    if (name == "aten::bad") return absl::InvalidArgumentError("none fits");
    return absl::NotFoundError("");
  };
  absl::StatusOr<std::unique_ptr<Graph>> g = ParseGraph(
      "graph(%x : Tensor, %f : Float(4)):\n  %1 : Tensor = aten::add(%x, %f)\n  %2 : Tensor = aten::add(%f, %x)\n"
      "  %3 : Tensor = aten::sub.Scalar(%x)\n  %4 : Tensor = my::op(%x)\n  return (%1)",
      options);
  ASSERT_TRUE(g.ok()) << g.status();
  EXPECT_EQ((*g)->node(Def(**g, "1")).op.full(), "aten::add.Tensor");
  EXPECT_EQ((*g)->node(Def(**g, "2")).op.full(), "aten::add.Tensor");
  EXPECT_EQ((*g)->node(Def(**g, "4")).op.full(), "my::op");
  EXPECT_THAT(asked, ElementsAre("aten::add/2", "my::op/1"));  // once for each kind of arguments
  EXPECT_THAT(std::string(ParseGraph("graph():\n  aten::bad()\n  return ()", options).status().message()),
              StartsWith("<text>:2:3: expected an overload"));
}

TEST(TextTest, BadTextSaysWhereAndWhatWasExpected) {
  EXPECT_EQ(ErrorOf(""), "t.ir:1:1: expected 'graph', found the end");
  EXPECT_EQ(ErrorOf("graph(%x : int):\n  %1 : int = aten::neg(%y)\n  return (%1)"),
            "t.ir:2:24: expected a value that is defined here, found '%y'");
  EXPECT_EQ(ErrorOf("graph(%x : int):\n  %x : int = aten::neg(%x)\n  return (%x)"),
            "t.ir:2:3: expected a name that is not taken yet, found '%x'");
  EXPECT_EQ(
      ErrorOf("graph(%x : int):\n  %1 : int = prim::If(%x)\n    block0():\n      %2 : int = aten::neg(%x)\n      -> "
              "(%2)\n  return (%2)"),
      "t.ir:6:11: expected a value that is defined here, found '%2'");
  EXPECT_EQ(ErrorOf("graph(%x : int):\n  return (%x"), "t.ir:2:13: expected ',', found the end");
  EXPECT_EQ(ErrorOf("graph(%x : int = weight 0):\n  return ()"),
            "t.ir:1:17: expected one of the graph's 0 weights, found 0");
  EXPECT_THAT(
      ErrorOf("graph():\n  storage 0 bytes 4\n  weight 0 \"w\" buffer storage 0 Float(2, strides=[1])\n  return ()"),
      HasSubstr("does not lie inside its storage"));
  EXPECT_THAT(ErrorOf("graph():\n  %1 : int = prim::Constant[value=](\n  return ()"),
              HasSubstr("t.ir:2:35: expected an attribute's value"));
  EXPECT_THAT(ErrorOf("graph():\n  return ()\nwith prim::X_0 = graph():\n  return ()"),
              HasSubstr("t.ir:3:6: expected the name of a node"));
  EXPECT_THAT(ErrorOf("graph():\n  %1 : Float(2) = prim::Constant[value=<Float(99999999): 1>]()\n  return ()"),
              HasSubstr("expected constant sizes"));
  EXPECT_THAT(ErrorOf("graph():\n  %1 : Float(2) = prim::Constant[value=<Float(999999): 1>]()\n  return ()"),
              HasSubstr("expected 999999 elements"));
}

TEST(TextTest, DeepNestingIsAnErrorNotARecursion) {
  std::string blocks = "graph(%x : int):\n";
  for (int i = 0; i < 100000; ++i) blocks += "prim::If(%x)\nblock0():\n";
  EXPECT_THAT(ErrorOf(blocks), HasSubstr("expected blocks nested at most 200 deep"));
  std::string subgraphs = "graph():\n  a::b_0()\n  return ()\n";
  for (int i = 0; i < 100000; ++i) subgraphs += "with a::b_0 = graph():\n  a::b_0()\n  return ()\n";
  EXPECT_THAT(ErrorOf(subgraphs), HasSubstr("expected subgraphs nested at most 200 deep"));
  std::string attribute = "graph():\n  a::b[x=" + std::string(1000000, '[') + "\n  return ()\n";
  EXPECT_NE(ErrorOf(attribute), "no error");
}

TEST(TextTest, MutatedTextNeverCrashesAndWhatParsesPrintsStably) {
  std::mt19937 random(1);
  const std::string seeds[] = {kForms, kExtended, kFrozen, kScripted};
  const std::string alphabet = "()[]{}<>,?*!=:.%#\"\\|@^_- \n09ajs";
  int parsed = 0;
  for (int i = 0; i < 4000; ++i) {
    std::string text = seeds[i % 4];
    for (int edits = 1 + random() % 3; edits > 0; --edits) {
      size_t at = random() % text.size();
      switch (random() % 5) {
        case 0:
          text[at] = alphabet[random() % alphabet.size()];
          break;
        case 1:
          text.erase(at, 1 + random() % 8);
          break;
        case 2:
          text.insert(at, 1, alphabet[random() % alphabet.size()]);
          break;
        case 3:
          text.insert(at, text.substr(random() % text.size(), random() % 40));
          break;
        case 4:
          text[at] = static_cast<char>(random());
          break;
      }
    }
    absl::StatusOr<std::unique_ptr<Graph>> g = ParseGraph(text);
    if (!g.ok()) continue;
    ++parsed;
    ASSERT_EQ(VerifyGraph(**g), absl::OkStatus()) << text;
    std::string once = PrintGraph(**g);
    absl::StatusOr<std::unique_ptr<Graph>> again = ParseGraph(once);
    ASSERT_TRUE(again.ok()) << again.status() << "\n" << once << "\nfrom\n" << text;
    ASSERT_EQ(PrintGraph(**again), once) << text;
  }
  EXPECT_GT(parsed, 100);
}

TEST(TextTest, BytesThatAreNotUtf8AreRefused) {
  const auto read = [](const std::string& constant) {
    return ParseGraph("graph(%x : Float(4)):\n  %s : str = prim::Constant[value=\"" + constant +
                      "\"]()\n  return (%x)\n")
        .status();
  };
  for (const char* good : {"plain", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"})
    EXPECT_TRUE(read(good).ok()) << good;
  // A lone continuation byte, truncated, overlong, half of a surrogate pair, beyond the last character.
  for (const char* bad : {"\xff", "\x80", "\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(read(bad))) << bad;
    EXPECT_TRUE(absl::StrContains(read(bad).message(), "expected UTF-8"));
  }
}

}  // namespace
}  // namespace smelt
