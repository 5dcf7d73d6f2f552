#include "smelt/core/ir/type.h"

#include <random>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/core/ir/op_name.h"

namespace smelt {
namespace {

using ::testing::HasSubstr;

Type ParseOrDie(absl::string_view text) {
  absl::StatusOr<Type> type = Type::Parse(text);
  EXPECT_TRUE(type.ok()) << text << ": " << type.status();
  return type.ok() ? *type : Type();
}

TEST(OpNameTest, SplitsTheOverloadFromTheName) {
  OpName add = OpName::Get("aten::add.Tensor");
  EXPECT_EQ(add.name(), "aten::add");
  EXPECT_EQ(add.overload(), "Tensor");
  EXPECT_EQ(add, OpName::Get("aten::add.Tensor"));
  EXPECT_NE(add, OpName::Get("aten::add"));
  EXPECT_EQ(OpName::Get("prim::If").overload(), "");
  EXPECT_EQ(OpName::Get("aten::__and__.Scalar").name(), "aten::__and__");
  EXPECT_FALSE(OpName());
}

TEST(TypeTest, ReadsATensorTypeAsPyTorchPrintsIt) {
  Type t = ParseOrDie("Float(4, 8, strides=[8, 1], requires_grad=0, device=cpu)");
  ASSERT_TRUE(t.IsTensor());
  EXPECT_EQ(t, Type::Tensor(DType::kFloat32, {4, 8}));
  EXPECT_TRUE(t.tensor().IsComplete());
  EXPECT_EQ(t.ToString(), "Float(4, 8, strides=[8, 1])");
  EXPECT_EQ(ParseOrDie("Half(2, strides=[1], device=cuda:0)"), Type::Tensor(DType::kFloat16, {2}));
  EXPECT_EQ(ParseOrDie("Long(requires_grad=0, device=cpu)"), Type::Tensor(DType::kInt64, {}));
  EXPECT_EQ(ParseOrDie("Long()"), Type::Tensor(DType::kInt64, {}));
}

TEST(TypeTest, KeepsWhatIsNotKnownOfATensor) {
  EXPECT_EQ(ParseOrDie("Tensor").tensor().dtype, std::nullopt);
  Type t = ParseOrDie("Float(*, 4)");
  ASSERT_EQ(t.tensor().rank(), 2);
  EXPECT_TRUE((*t.tensor().sizes)[0].IsPoison());
  EXPECT_FALSE(t.tensor().strides.has_value());
  EXPECT_FALSE(t.tensor().IsComplete());
  EXPECT_EQ(t, ParseOrDie("Float(*, 4)"));
  EXPECT_NE(t, ParseOrDie("Float(3, 4)"));
  EXPECT_EQ(ParseOrDie("FloatTensor").tensor().dtype, DType::kFloat32);
  EXPECT_EQ(ParseOrDie("FloatTensor").tensor().rank(), -1);
  EXPECT_EQ(ParseOrDie("FloatTensor(requires_grad=0, device=cpu)").tensor().rank(), -1);
  EXPECT_EQ(ParseOrDie("Tensor(requires_grad=1)").tensor().rank(), -1);
  EXPECT_EQ(ParseOrDie("Tensor(2, 3)").tensor().rank(), 2);
  // A dtype of PyTorch that smelt does not have.
  t = ParseOrDie("ComplexHalf(2, 3, strides=[3, 1], requires_grad=0, device=cpu)");
  EXPECT_EQ(t.tensor().dtype, std::nullopt);
  EXPECT_EQ(t.tensor().rank(), 2);
  EXPECT_EQ(ParseOrDie("QUInt8(requires_grad=0, device=cpu)").tensor().dtype, std::nullopt);
}

TEST(TypeTest, SymbolicSizesAreExpressions) {
  Type t = ParseOrDie("Float(s0, 2*s1 + 1, floordiv(s0, 2), strides=[min(s0, s1), 1, 1])");
  EXPECT_EQ((*t.tensor().sizes)[1], Expr::Symbol("s1") * 2 + 1);
  EXPECT_EQ((*t.tensor().sizes)[2], FloorDiv(Expr::Symbol("s0"), 2));
  EXPECT_EQ(ParseOrDie(t.ToString()), t);
  EXPECT_EQ((*ParseOrDie("Float(SS(-3), 4)").tensor().sizes)[0], Expr::Symbol("SS3"));
}

TEST(TypeTest, ReadsContainersAndNames) {
  EXPECT_EQ(ParseOrDie("int[]"), Type::List(Type::Int()));
  EXPECT_EQ(ParseOrDie("int[2]?"), Type::Optional(Type::List(Type::Int())));
  EXPECT_EQ(ParseOrDie("Tensor?[]"), Type::List(Type::Optional(Type::Tensor())));
  EXPECT_EQ(ParseOrDie("(Tensor, int)"), Type::Tuple({Type::Tensor(), Type::Int()}));
  EXPECT_EQ(ParseOrDie("()"), Type::Tuple({}));
  EXPECT_EQ(ParseOrDie("Dict(str, Tensor[])"), Type::Dict(Type::String(), Type::List(Type::Tensor())));
  EXPECT_EQ(ParseOrDie("Future(Tensor)"), Type::Future(Type::Tensor()));
  EXPECT_EQ(ParseOrDie("Future[Float(2, strides=[1])]"), Type::Future(Type::Tensor(DType::kFloat32, {2})));
  EXPECT_EQ(ParseOrDie("__torch__.___torch_mangle_0.Net"), Type::Class("__torch__.___torch_mangle_0.Net"));
  EXPECT_EQ(ParseOrDie("InterfaceType<__torch__.I>[]"), Type::List(Type::Class("InterfaceType<__torch__.I>")));
  EXPECT_EQ(ParseOrDie("t[]"), Type::List(Type::Class("t")));
  EXPECT_EQ(ParseOrDie("Union[int, Tensor]"), Type::Union({Type::Int(), Type::Tensor()}));
  EXPECT_EQ(ParseOrDie("NamedTuple(x : Tensor, y : int[])"), Type::Tuple({Type::Tensor(), Type::List(Type::Int())}));
  EXPECT_EQ(ParseOrDie("ScalarType"), Type::Int());
  EXPECT_EQ(ParseOrDie("List[Dict[str, int]]"), Type::List(Type::Dict(Type::String(), Type::Int())));
}

TEST(TypeTest, EveryPrintedTypeParsesToItself) {
  for (const char* text : {"Tensor",
                           "Float(4, 8, strides=[8, 1])",
                           "Float(*, *)",
                           "BFloat16(2, s0, strides=[s0, *])",
                           "Double()",
                           "LongTensor",
                           "Tensor(3, *)",
                           "int",
                           "float",
                           "bool",
                           "complex",
                           "Scalar",
                           "str",
                           "NoneType",
                           "Device",
                           "Generator",
                           "Any",
                           "Tensor?",
                           "Tensor?[]",
                           "int[][]?",
                           "(Tensor, (int, float)[], ())",
                           "Dict(str, Dict(int, Tensor))",
                           "Future[Tensor[]]",
                           "Union[int, str]",
                           "__torch__.Net",
                           "Await[int]",
                           "Float(2, strides=[-1])"}) {
    EXPECT_EQ(ParseOrDie(text).ToString(), text);
  }
}

TEST(TypeTest, ContiguousStridesCountEmptyDimensionsAsOneLikePyTorch) {
  EXPECT_EQ(ContiguousStrides({2, 0, 3}), (std::vector<Expr>{3, 3, 1}));  // torch.empty(2, 0, 3).stride()
  EXPECT_EQ(ContiguousStrides({2, Expr::Symbol("s0"), 3}), (std::vector<Expr>{Expr::Symbol("s0") * 3, 3, 1}));
}

TEST(TypeTest, BadTextSaysWhereAndWhatWasExpected) {
  EXPECT_THAT(std::string(Type::Parse("Float(4, strides=[1, 2])").status().message()), HasSubstr("expected 1 strides"));
  EXPECT_THAT(std::string(Type::Parse("Dict(int)").status().message()),
              HasSubstr("expected Dict to have 2 type arguments"));
  EXPECT_THAT(std::string(Type::Parse("int]").status().message()), HasSubstr("column 4: expected the end of the type"));
  for (const char* text :
       {"", "(", "(int", "Float(", "Float(4", "Float(4,)x", "Float(99999999999999999999)", "Dict(", "int[", "Future[",
        "Float(4, strides=", "Float(4, strides=[", "Float(device=)", "%", "Tensor(a!)", "Float(1+)"}) {
    EXPECT_FALSE(Type::Parse(text).ok()) << text;
  }
}

TEST(TypeTest, DeepNestingIsAnErrorNotARecursion) {
  EXPECT_FALSE(Type::Parse(std::string(1000000, '(')).ok());
  std::string lists = "int";
  for (int i = 0; i < 100000; ++i) lists += "[]";
  EXPECT_FALSE(Type::Parse(lists).ok());
  std::string parens = "Float(" + std::string(100000, '(') + "1" + std::string(100000, ')') + ")";
  EXPECT_FALSE(Type::Parse(parens).ok());
}

TEST(TypeTest, MutatedTextNeverCrashes) {
  std::mt19937 random(1);
  const std::string seeds[] = {"Dict(str, (Float(4, s0, strides=[s0, 1], requires_grad=0, device=cuda:0)?, int[3])[])",
                               "Future[Union[NamedTuple(a : int, b : Tensor), __torch__.Net]]"};
  const std::string alphabet = "()[],?*!=:.<>| 09astFloat-+";
  for (int i = 0; i < 20000; ++i) {
    std::string text = seeds[i % 2];
    for (int edits = 1 + random() % 4; edits > 0; --edits) {
      size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = alphabet[random() % alphabet.size()];
          break;
        case 1:
          text.erase(at, 1 + random() % 5);
          break;
        case 2:
          text.insert(at, 1, alphabet[random() % alphabet.size()]);
          break;
      }
      if (text.empty()) text = "x";
    }
    if (absl::StatusOr<Type> type = Type::Parse(text); type.ok()) {
      EXPECT_EQ(ParseOrDie(type->ToString()), *type) << text;
    }
  }
}

}  // namespace
}  // namespace smelt
