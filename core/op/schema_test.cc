#include "smelt/core/op/schema.h"

#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/core/base/file.h"
#include "smelt/core/ir/text.h"

namespace smelt {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

FunctionSchema ParseOrDie(absl::string_view text) {
  absl::StatusOr<FunctionSchema> s = ParseSchema(text);
  EXPECT_TRUE(s.ok()) << text << ": " << s.status();
  return s.ok() ? *s : FunctionSchema();
}
const FunctionSchema& Find(absl::string_view name) {
  const FunctionSchema* s = FindSchema(OpName::Get(name));
  EXPECT_NE(s, nullptr) << name;
  static const FunctionSchema& none = *new FunctionSchema;
  return s == nullptr ? none : *s;
}
template <typename T>
T Default(const FunctionSchema& s, absl::string_view argument) {
  return std::get<T>(*s.arguments[s.FindArgument(argument)].default_value);
}

std::vector<std::string> TableLines() {
  absl::StatusOr<std::string> file = ReadFile("testdata/aten_schemas.txt");
  EXPECT_TRUE(file.ok()) << file.status();
  std::vector<std::string> lines;
  if (!file.ok()) return lines;
  for (absl::string_view line : absl::StrSplit(*file, '\n')) {
    if (!line.empty() && line[0] != '#') lines.emplace_back(line);
  }
  return lines;
}

TEST(SchemaTest, EverySchemaOfPyTorchPrintsByteForByteAsItWas) {
  std::vector<std::string> lines = TableLines();
  EXPECT_EQ(lines.size(), 3882);
  int writing = 0, aten = 0;
  for (const std::string& line : lines) {
    FunctionSchema s = ParseOrDie(line);
    EXPECT_EQ(s.ToString(), line);
    if (!absl::StartsWith(line, "aten::")) continue;
    ++aten;
    writing += s.IsMutable();
  }
  EXPECT_EQ(aten, 3754);
  EXPECT_EQ(writing, 1537);  // counted by PyTorch, see the file's head
}

TEST(SchemaTest, EverySchemaIsFoundByItsName) {
  for (const std::string& line : TableLines()) {
    const FunctionSchema* s = FindSchema(OpName::Get(line.substr(0, line.find('('))));
    ASSERT_NE(s, nullptr) << line;
    EXPECT_EQ(s->ToString(), line);
  }
  EXPECT_EQ(FindSchema(OpName::Get("aten::no_such_op")), nullptr);
  EXPECT_GT(AllSchemaNames().size(), 3882u);
}

TEST(SchemaTest, ArgumentsHaveNamesTypesDefaultsAndKinds) {
  const FunctionSchema& add = Find("aten::add_.Tensor");
  EXPECT_EQ(add.ToString(), "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)");
  ASSERT_EQ(add.arguments.size(), 3);
  EXPECT_EQ(add.arguments[2].type, Type::Number());
  EXPECT_TRUE(add.arguments[2].kw_only);
  EXPECT_FALSE(add.arguments[1].kw_only);
  EXPECT_EQ(Default<int64_t>(add, "alpha"), 1);
  EXPECT_EQ(add.NumRequired(), 2);
  EXPECT_TRUE(add.IsMutable());
  const FunctionSchema& conv = Find("aten::conv2d");
  EXPECT_EQ(Default<std::vector<int64_t>>(conv, "padding"), (std::vector<int64_t>{0, 0}));
  EXPECT_EQ(conv.arguments[2].type, Type::Optional(Type::Tensor()));
  EXPECT_EQ(conv.arguments[3].type_text, "SymInt[2]");
  EXPECT_TRUE(std::holds_alternative<std::monostate>(*conv.arguments[2].default_value));
  EXPECT_FALSE(conv.IsMutable());
  EXPECT_EQ(Default<double>(Find("aten::layer_norm"), "eps"), 1e-5);
  EXPECT_EQ(Default<bool>(Find("aten::layer_norm"), "cudnn_enable"), true);
  EXPECT_EQ(Default<std::string>(Find("aten::conv2d.padding"), "padding"), "valid");
  EXPECT_EQ(Find("aten::max.dim").returns.size(), 2);
  EXPECT_EQ(Find("aten::max.dim").returns[1].name, "indices");
  EXPECT_TRUE(Find("prim::Print").is_vararg);
  EXPECT_TRUE(Find("prim::FusionGroup").is_varret);
  EXPECT_EQ(Find("aten::items.str").returns.size(), 1);
}

TEST(SchemaTest, AliasAnnotationsAreReadInAllTheirForms) {
  AliasInfo a = Find("aten::split.Tensor").arguments[0].alias;
  EXPECT_THAT(a.before, ElementsAre("a"));
  EXPECT_TRUE(a.IsWildcardAfter());
  AliasInfo r = Find("aten::split.Tensor").returns[0].alias;
  ASSERT_EQ(r.contained.size(), 1);
  EXPECT_THAT(r.contained[0].before, ElementsAre("a"));
  EXPECT_TRUE(r.before.empty());
  AliasInfo list = Find("aten::_foreach_add_.List").arguments[0].alias;
  EXPECT_FALSE(list.is_write);
  EXPECT_TRUE(list.contained[0].is_write);
  EXPECT_TRUE(Find("aten::_foreach_add_.List").IsMutable());
  AliasInfo append = Find("aten::append.t").arguments[0].alias;
  EXPECT_TRUE(append.is_write);
  EXPECT_TRUE(append.contained.empty());
  EXPECT_TRUE(Find("aten::append.t").arguments[1].alias.IsWildcardAfter());
  EXPECT_TRUE(Find("aten::get.str").returns[0].alias.IsWildcardBefore());
  EXPECT_THAT(Find("prim::IfThenElse").returns[0].alias.before, ElementsAre("b", "a"));
  EXPECT_TRUE(Find("aten::_set_item.str").arguments[0].alias.is_write);
  FunctionSchema s =
      ParseOrDie("my::op(Tensor(a|b) x, Tensor(c!)? y, Dict(str, Tensor(d)) z, Tensor! w) -> (Tensor(a), Tensor(b)[])");
  EXPECT_THAT(s.arguments[0].alias.before, ElementsAre("a", "b"));
  EXPECT_TRUE(s.arguments[1].alias.is_write);
  EXPECT_EQ(s.arguments[1].type.kind(), TypeKind::kOptional);
  EXPECT_THAT(s.arguments[2].alias.contained[1].before, ElementsAre("d"));
  EXPECT_TRUE(s.arguments[3].alias.is_write);
  EXPECT_TRUE(ParseOrDie("my::op(Tensor x) -> Tensor").arguments[0].alias.IsEmpty());
}

TEST(SchemaTest, ABadSchemaSaysWhereAndWhatWasExpected) {
  EXPECT_EQ(ParseSchema("aten::f(int) -> ()").status().message(), "column 12: expected the argument's name, found ')'");
  EXPECT_EQ(ParseSchema("aten::f(int a, int a) -> ()").status().message(),
            "column 21: expected arguments of different names, found two a");
  for (const char* text :
       {"", "f", "f(", "f()", "f() ->", "f(int a=) -> ()", "f(Tensor(a x) -> ()", "f(Tensor(a -> ) x) -> ()",
        "f(..., int a) -> ()", "f() -> () x", "f(int[ a) -> ()", "f(int a=[1, ) -> ()"}) {
    EXPECT_FALSE(ParseSchema(text).ok()) << text;
  }
}

// A call "aten::add(Tensor, int)" as name and types.
std::pair<std::string, std::vector<Type>> ParseCall(absl::string_view text) {
  size_t open = text.find('(');
  absl::StatusOr<Type> tuple = Type::Parse(text.substr(open));
  EXPECT_TRUE(tuple.ok()) << text << tuple.status();
  return {std::string(text.substr(0, open)), std::vector<Type>(tuple->elements().begin(), tuple->elements().end())};
}

// The nodes of a scripted function and the schemas that PyTorch 2.13 reports for them. Left out: aten::Float(int), for
// which it reports Float.Scalar, registered before Float.int, which means the same.
constexpr char kResolved[] = R"(
aten::add(Tensor, int, int) -> aten::add.Scalar
aten::add(Tensor, float, int) -> aten::add.Scalar
aten::add(Tensor, Tensor, int) -> aten::add.Tensor
aten::add(int, int) -> aten::add.int
aten::add(int, float) -> aten::add.int_float
aten::mul(float, int) -> aten::mul.float_int
aten::floordiv(int, int) -> aten::floordiv.int
aten::div(int, int) -> aten::div.int
aten::add(str, str) -> aten::add.str
aten::sum(Tensor, NoneType) -> aten::sum
aten::sum(Tensor, List[int], bool, NoneType) -> aten::sum.dim_IntList
aten::mean(Tensor, List[int], bool, NoneType) -> aten::mean.dim
aten::select(Tensor, int, int) -> aten::select.int
aten::slice(Tensor, int, NoneType, NoneType, int) -> aten::slice.Tensor
aten::slice(Tensor, int, int, NoneType, int) -> aten::slice.Tensor
aten::view(Tensor, List[int]) -> aten::view
aten::zeros(List[int], NoneType, NoneType, NoneType, NoneType) -> aten::zeros
aten::arange(int, NoneType, NoneType, NoneType, NoneType) -> aten::arange
aten::arange(int, int, NoneType, NoneType, NoneType, NoneType) -> aten::arange.start
aten::arange(int, int, int, NoneType, NoneType, NoneType, NoneType) -> aten::arange.start_step
aten::add_(Tensor, int, int) -> aten::add_.Scalar
aten::mul_(Tensor, Tensor) -> aten::mul_.Tensor
aten::to(Tensor, int, bool, bool, NoneType) -> aten::to.dtype
aten::to(Tensor, Tensor, bool, bool, NoneType) -> aten::to.other
aten::to(Tensor, Device, NoneType, bool, bool) -> aten::to.prim_Device
aten::clamp(Tensor, int, int) -> aten::clamp
aten::max(Tensor, int, bool) -> aten::max.dim
aten::max(Tensor) -> aten::max
aten::max(Tensor, Tensor) -> aten::max.other
aten::split(Tensor, int, int) -> aten::split.Tensor
aten::split(Tensor, List[int], int) -> aten::split.sizes
aten::cat(List[Tensor], int) -> aten::cat
aten::stack(List[Tensor], int) -> aten::stack
aten::len(List[int]) -> aten::len.t
aten::__getitem__(List[int], int) -> aten::__getitem__.t
aten::len(Dict[str, Tensor]) -> aten::len.Dict_str
aten::__getitem__(Dict[str, Tensor], str) -> aten::__getitem__.Dict_str
aten::append(List[int], int) -> aten::append.t
aten::_set_item(List[int], int, int) -> aten::_set_item.t
aten::_set_item(Dict[str, Tensor], str, Tensor) -> aten::_set_item.str
aten::size(Tensor) -> aten::size
aten::size(Tensor, int) -> aten::size.int
aten::eq(Tensor, int) -> aten::eq.Scalar
aten::eq(int, int) -> aten::eq.int
aten::lt(float, float) -> aten::lt.float
aten::eq(str, str) -> aten::eq.str
aten::full(List[int], float, NoneType, NoneType, NoneType, NoneType) -> aten::full
aten::norm(Tensor, int) -> aten::norm.Scalar
aten::pow(Tensor, int) -> aten::pow.Tensor_Scalar
aten::pow(int, Tensor) -> aten::pow.Scalar
aten::pow(Tensor, Tensor) -> aten::pow.Tensor_Tensor
aten::neg(int) -> aten::neg.int
aten::neg(Tensor) -> aten::neg
aten::gt(int, int) -> aten::gt.int
aten::__not__(bool) -> aten::__not__
aten::gt(Tensor, int) -> aten::gt.Scalar
aten::where(Tensor, Tensor, int) -> aten::where.ScalarOther
aten::masked_fill(Tensor, Tensor, float) -> aten::masked_fill.Scalar
aten::index_select(Tensor, int, Tensor) -> aten::index_select
aten::index(Tensor, List[Optional[Tensor]]) -> aten::index.Tensor
aten::tensor(int, int, Device, bool) -> aten::tensor.int
aten::copy_(Tensor, Tensor, bool) -> aten::copy_
aten::index_put_(Tensor, List[Optional[Tensor]], Tensor, bool) -> aten::index_put_
aten::div(Tensor, int, str) -> aten::div.Scalar_mode
aten::std(Tensor, bool) -> aten::std
aten::std(Tensor, List[int], bool, bool) -> aten::std.dim
aten::einsum(str, List[Tensor], NoneType) -> aten::einsum
aten::add(List[int], List[int]) -> aten::add.t
aten::any(Tensor) -> aten::any
aten::any(Tensor, int, bool) -> aten::any.dim
aten::transpose(Tensor, int, int) -> aten::transpose.int
aten::t(Tensor) -> aten::t
aten::unbind(Tensor, int) -> aten::unbind.int
aten::linspace(int, int, int, NoneType, NoneType, NoneType, NoneType) -> aten::linspace
aten::randn(List[int], NoneType, NoneType, NoneType, NoneType) -> aten::randn
aten::softmax(Tensor, int, NoneType) -> aten::softmax.int
aten::Int(Tensor) -> aten::Int.Tensor
aten::Float(Tensor) -> aten::Float.Tensor
aten::Bool(Tensor) -> aten::Bool.Tensor
aten::item(Tensor) -> aten::item
aten::round(float) -> aten::round.float
aten::clone(Tensor, NoneType) -> aten::clone
aten::expand(Tensor, List[int], bool) -> aten::expand
aten::repeat(Tensor, List[int]) -> aten::repeat
aten::flatten(Tensor, int, int) -> aten::flatten.using_ints
aten::squeeze(Tensor) -> aten::squeeze
aten::squeeze(Tensor, int) -> aten::squeeze.dim
aten::permute(Tensor, List[int]) -> aten::permute
aten::tensor(List[int], NoneType, NoneType, bool) -> aten::tensor
aten::tensor(float, NoneType, NoneType, bool) -> aten::tensor.float
aten::argmax(Tensor, NoneType, bool) -> aten::argmax
aten::topk(Tensor, int, int, bool, bool) -> aten::topk
aten::sort(Tensor, int, bool) -> aten::sort
aten::cumsum(Tensor, int, NoneType) -> aten::cumsum
aten::eq(Tensor, Tensor) -> aten::eq.Tensor
aten::__contains__(List[int], int) -> aten::__contains__.int_list
aten::__contains__(Dict[str, Tensor], str) -> aten::__contains__.str
aten::remainder(Tensor, int) -> aten::remainder.Scalar
aten::remainder(int, int) -> aten::remainder.int
aten::__and__(Tensor, int) -> aten::__and__.Scalar
aten::pow(int, int) -> aten::pow.int
aten::pow(float, float) -> aten::pow.float
aten::sorted(List[int]) -> aten::sorted.int
aten::pop(List[int], int) -> aten::pop.t
aten::slice(List[int], int, NoneType, int) -> aten::slice.t
aten::__getitem__(str, int) -> aten::__getitem__.str
aten::keys(Dict[str, Tensor]) -> aten::keys.str
aten::items(Dict[str, Tensor]) -> aten::items.str
aten::addmm(Tensor, Tensor, Tensor, int, int) -> aten::addmm
aten::matmul(Tensor, Tensor) -> aten::matmul
aten::new_zeros(Tensor, List[int], NoneType, NoneType, NoneType, NoneType) -> aten::new_zeros
aten::empty_like(Tensor, NoneType, NoneType, NoneType, NoneType, NoneType) -> aten::empty_like
aten::fill_(Tensor, int) -> aten::fill_.Scalar
aten::normal_(Tensor, float, float, NoneType) -> aten::normal_
aten::batch_norm(Tensor, NoneType, NoneType, NoneType, NoneType, bool, float, float, bool) -> aten::batch_norm
aten::dropout(Tensor, float, bool) -> aten::dropout
aten::layer_norm(Tensor, List[int], NoneType, NoneType, float, bool) -> aten::layer_norm
aten::conv2d(Tensor, Tensor, NoneType, List[int], List[int], List[int], int) -> aten::conv2d
aten::max_pool2d(Tensor, List[int], List[int], List[int], List[int], bool) -> aten::max_pool2d
aten::sub(Tensor, int, int) -> aten::sub.Scalar
aten::__contains__(List[str], str) -> aten::__contains__.str_list
aten::__isnot__(NoneType, NoneType) -> aten::__isnot__
aten::__is__(NoneType, NoneType) -> aten::__is__
aten::dim(Tensor) -> aten::dim
aten::sub(int, int) -> aten::sub.int
aten::__isnot__(float, NoneType) -> aten::__isnot__
aten::__isnot__(Optional[int], NoneType) -> aten::__isnot__
aten::append(List[float], float) -> aten::append.t
aten::__is__(Optional[List[int]], NoneType) -> aten::__is__
aten::__isnot__(Optional[bool], NoneType) -> aten::__isnot__
aten::__is__(Optional[List[float]], NoneType) -> aten::__is__
aten::__getitem__(List[float], int) -> aten::__getitem__.t
aten::mul(float, float) -> aten::mul.float
aten::floor(float) -> aten::floor.float
aten::upsample_nearest1d(Tensor, Optional[List[int]], Optional[List[float]]) -> aten::upsample_nearest1d.vec
aten::upsample_nearest2d(Tensor, Optional[List[int]], Optional[List[float]]) -> aten::upsample_nearest2d.vec
aten::upsample_nearest3d(Tensor, Optional[List[int]], Optional[List[float]]) -> aten::upsample_nearest3d.vec
aten::_upsample_nearest_exact1d(Tensor, Optional[List[int]], Optional[List[float]]) -> aten::_upsample_nearest_exact1d.vec
aten::_upsample_nearest_exact2d(Tensor, Optional[List[int]], Optional[List[float]]) -> aten::_upsample_nearest_exact2d.vec
aten::_upsample_nearest_exact3d(Tensor, Optional[List[int]], Optional[List[float]]) -> aten::_upsample_nearest_exact3d.vec
aten::adaptive_avg_pool1d(Tensor, List[int]) -> aten::adaptive_avg_pool1d
aten::adaptive_avg_pool2d(Tensor, List[int]) -> aten::adaptive_avg_pool2d
aten::adaptive_avg_pool3d(Tensor, List[int]) -> aten::adaptive_avg_pool3d
aten::__is__(Optional[bool], NoneType) -> aten::__is__
aten::upsample_linear1d(Tensor, Optional[List[int]], bool, Optional[List[float]]) -> aten::upsample_linear1d.vec
aten::_upsample_bilinear2d_aa(Tensor, Optional[List[int]], bool, Optional[List[float]]) -> aten::_upsample_bilinear2d_aa.vec
aten::upsample_bilinear2d(Tensor, Optional[List[int]], bool, Optional[List[float]]) -> aten::upsample_bilinear2d.vec
aten::upsample_trilinear3d(Tensor, Optional[List[int]], bool, Optional[List[float]]) -> aten::upsample_trilinear3d.vec
aten::_upsample_bicubic2d_aa(Tensor, Optional[List[int]], bool, Optional[List[float]]) -> aten::_upsample_bicubic2d_aa.vec
aten::upsample_bicubic2d(Tensor, Optional[List[int]], bool, Optional[List[float]]) -> aten::upsample_bicubic2d.vec
aten::_upsample_lanczos2d_aa(Tensor, Optional[List[int]], bool, Optional[List[float]]) -> aten::_upsample_lanczos2d_aa.vec
aten::format(str, int, str) -> aten::format
)";

TEST(ResolveOverloadTest, AgreesWithPyTorchOnScriptedNodes) {
  for (absl::string_view line : absl::StrSplit(kResolved, '\n', absl::SkipEmpty())) {
    std::vector<std::string> sides = absl::StrSplit(line, " -> ");
    auto [name, types] = ParseCall(sides[0]);
    absl::StatusOr<OpName> op = ResolveOverload(name, types);
    EXPECT_TRUE(op.ok()) << line << op.status();
    if (!op.ok()) continue;
    EXPECT_EQ(op->full(), sides[1]) << line;
  }
}

// Expected are the results of torch._C.parse_ir; bench/alias/overloads.py compares 41,000 calls.
TEST(ResolveOverloadTest, OfSeveralThatTakeTheTypesTheFirstInPyTorchsRegistry) {
  auto resolve = [](absl::string_view call) {
    auto [name, types] = ParseCall(call);
    absl::StatusOr<OpName> op = ResolveOverload(name, types);
    return op.ok() ? op->full() : std::string(op.status().message());
  };
  EXPECT_EQ(resolve("aten::set(Tensor, Tensor)"), "aten::set.source_Tensor");
  EXPECT_EQ(resolve("aten::max(Tensor, Tensor)"), "aten::max.other");
  EXPECT_EQ(resolve("aten::clamp(Tensor, NoneType, NoneType, Tensor)"), "aten::clamp.out");
  EXPECT_EQ(resolve("aten::linalg_matrix_rank(Tensor, NoneType, NoneType, bool)"),
            "aten::linalg_matrix_rank.atol_rtol_tensor");
  EXPECT_EQ(resolve("aten::__interpolate(Tensor, int[], NoneType, str, bool, bool, bool)"),
            "aten::__interpolate.size_list_scale_list");
}

TEST(ResolveOverloadTest, DefaultsAndConversionsAreTheSecondChoice) {
  auto resolve = [](absl::string_view call) {
    auto [name, types] = ParseCall(call);
    absl::StatusOr<OpName> op = ResolveOverload(name, types);
    return op.ok() ? op->full() : std::string(op.status().message());
  };
  EXPECT_EQ(resolve("aten::add(Float(4), Tensor)"), "aten::add.Tensor");  // alpha is a default
  EXPECT_EQ(resolve("aten::mul(Tensor, bool)"), "aten::mul.Scalar");
  EXPECT_EQ(resolve("aten::sum(Tensor, int[])"), "aten::sum.dim_IntList");
  EXPECT_EQ(resolve("aten::adaptive_avg_pool2d(Tensor, int)"), "aten::adaptive_avg_pool2d");
  EXPECT_EQ(resolve("aten::relu(Tensor)"), "aten::relu");
  EXPECT_EQ(resolve("aten::add.Scalar(Tensor)"), "aten::add.Scalar");
  EXPECT_THAT(resolve("aten::relu(str)"),
              HasSubstr("no overload of aten::relu takes (str); there are aten::relu(Tensor self) -> Tensor"));
  EXPECT_EQ(ResolveOverload("my::op", {}).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ResolveOverload("aten::add.NoSuch", {}).status().code(), absl::StatusCode::kNotFound);
}

TEST(ResolveOverloadTest, EverySchemaTakesItsOwnArgumentTypes) {
  int other = 0;
  for (absl::string_view name : AllSchemaNames()) {
    const FunctionSchema& s = Find(name);
    std::vector<Type> types;
    for (const Argument& a : s.arguments) types.push_back(a.type);
    absl::StatusOr<OpName> op = ResolveOverload(s.op.name(), types);
    ASSERT_TRUE(op.ok()) << s.ToString() << op.status();
    // Another overload is found only if it takes exactly the same types, or if types are variables.
    if (*op == s.op) continue;
    ++other;
    const FunctionSchema& chosen = Find(op->full());
    EXPECT_TRUE(TakesTypes(chosen, types)) << s.ToString() << " gave " << chosen.ToString();
  }
  EXPECT_LT(other, 100);
}

TEST(SchemaTest, TextWithoutOverloadsGetsThem) {
  ParseOptions options;
  options.resolve_overload = ResolveOverload;
  absl::StatusOr<std::unique_ptr<Graph>> g = ParseGraph(R"(graph(%x : Float(4), %n : int):
  %1 : int = prim::Constant[value=1]()
  %2 : Float(4) = aten::add(%x, %n, %1)
  %3 : int = aten::add(%n, %1)
  return (%2, %3)
)",
                                                        options);
  ASSERT_TRUE(g.ok()) << g.status();
  std::vector<std::string> ops;
  for (NodeId n : (*g)->AllNodes()) ops.push_back((*g)->node(n).op.full());
  EXPECT_THAT(ops, ElementsAre("prim::Constant", "aten::add.Scalar", "aten::add.int"));
}

TEST(FillDefaultsTest, GivesEveryArgumentOnce) {
  const FunctionSchema& conv = Find("aten::conv2d");
  absl::StatusOr<std::vector<FilledArgument>> filled = FillDefaults(conv, 2, {"groups", "padding"});
  ASSERT_TRUE(filled.ok()) << filled.status();
  ASSERT_EQ(filled->size(), 7);
  EXPECT_EQ((*filled)[1].kind, FilledArgument::Kind::kPositional);
  EXPECT_EQ((*filled)[1].index, 1);
  EXPECT_EQ((*filled)[2].kind, FilledArgument::Kind::kDefault);
  EXPECT_TRUE(std::holds_alternative<std::monostate>((*filled)[2].default_value));
  EXPECT_EQ((*filled)[4].kind, FilledArgument::Kind::kKeyword);
  EXPECT_EQ((*filled)[4].index, 1);
  EXPECT_EQ((*filled)[6].index, 0);
}

TEST(FillDefaultsTest, NamesTheArgumentThatIsWrong) {
  const FunctionSchema& add = Find("aten::add.Tensor");
  EXPECT_EQ(FillDefaults(add, 1, {}).status().message(), "aten::add.Tensor: argument \"other\" is missing");
  EXPECT_THAT(std::string(FillDefaults(add, 2, {"beta"}).status().message()), HasSubstr("it has no argument \"beta\""));
  EXPECT_THAT(std::string(FillDefaults(add, 2, {"other"}).status().message()), HasSubstr("\"other\" is given twice"));
  EXPECT_THAT(std::string(FillDefaults(add, 3, {}).status().message()),
              HasSubstr("expected at most 2 positional arguments, found 3"));
}

}  // namespace
}  // namespace smelt
