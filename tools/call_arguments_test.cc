// Tests the arguments that the command line gives: values in text, names, random ones.
#include "smelt/tools/call_arguments.h"

#include <complex>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/runtime/testing/hand_bundle.h"
#include "smelt/schema/bundle_signature.h"

namespace smelt {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Lt;

ArgInfo TensorArg(DType dtype, std::vector<DimInfo> dims) {
  ArgInfo a;
  a.name = a.path = "x";
  a.dtype = dtype;
  a.dims = std::move(dims);
  return a;
}
ArgInfo ScalarArg(ValueKind kind) {
  ArgInfo a;
  a.name = a.path = "n";
  a.kind = kind;
  return a;
}
DimInfo Fixed(int64_t n) { return {n, n, n, absl::StrCat(n)}; }
const DimInfo kBatch = {-1, 1, 4096, "s0"};

std::vector<float> Floats(const absl::StatusOr<Datum>& v) {
  if (!v.ok() || !v->IsTensor()) return {};
  return {v->tensor().data_as<float>(), v->tensor().data_as<float>() + v->tensor().NumElements()};
}
std::string Error(const ArgInfo& arg, absl::string_view text) {
  return std::string(ParseValue(arg, text).status().message());
}

TEST(ParseValueTest, ATensorIsSizesDTypeAndNumbers) {
  const ArgInfo x = TensorArg(DType::kFloat32, {kBatch, Fixed(3)});
  const auto v = ParseValue(x, "2x3xf32=1,2,3,4,5.5,-6e1");
  ASSERT_TRUE(v.ok()) << v.status();
  EXPECT_THAT(v->tensor().sizes(), ElementsAre(2, 3));
  EXPECT_THAT(Floats(v), ElementsAre(1, 2, 3, 4, 5.5, -60));
  EXPECT_THAT(Floats(ParseValue(x, "1x3xfloat32=[[1 2 3]]")), ElementsAre(1, 2, 3));
  EXPECT_THAT(Floats(ParseValue(x, "2x2xf32=7")), ElementsAre(7, 7, 7, 7));
  EXPECT_THAT(Floats(ParseValue(TensorArg(DType::kFloat32, {Fixed(2)}), "1, 2")), ElementsAre(1, 2));
  EXPECT_THAT(Floats(ParseValue(TensorArg(DType::kFloat32, {}), "2.5")), ElementsAre(2.5));
}

TEST(ParseValueTest, NumbersAreAsPythonWritesThem) {
  EXPECT_EQ(ParseValue(ScalarArg(ValueKind::kInt), "1_000")->as_int(), 1000);
  EXPECT_EQ(ParseValue(ScalarArg(ValueKind::kFloat), "1e-3")->as_float(), 1e-3);
  EXPECT_EQ(ParseValue(ScalarArg(ValueKind::kFloat), "-inf")->as_float(), -HUGE_VAL);
  EXPECT_TRUE(ParseValue(ScalarArg(ValueKind::kBool), "True")->as_bool());
  EXPECT_FALSE(ParseValue(ScalarArg(ValueKind::kBool), "false")->as_bool());
  EXPECT_EQ(ParseValue(ScalarArg(ValueKind::kString), "sum")->as_string(), "sum");
  EXPECT_TRUE(ParseValue(ScalarArg(ValueKind::kNone), "None")->IsNone());
  const ArgInfo c = ScalarArg(ValueKind::kComplex);
  EXPECT_EQ(ParseValue(c, "1+2j")->as_complex(), std::complex<double>(1, 2));
  EXPECT_EQ(ParseValue(c, "(1e-1-2e+1j)")->as_complex(), std::complex<double>(0.1, -20));
  EXPECT_EQ(ParseValue(c, "-2j")->as_complex(), std::complex<double>(0, -2));
  EXPECT_EQ(ParseValue(c, "3")->as_complex(), std::complex<double>(3, 0));
}

TEST(ParseValueTest, WhatDoesNotFitSaysWhatWould) {
  const ArgInfo x = TensorArg(DType::kFloat32, {kBatch, Fixed(3)});
  EXPECT_THAT(Error(x, "2x3xf32=1,2"), HasSubstr("[2, 3] is 6 elements, not 2; \"x\" is float32 [1..4096, 3]"));
  EXPECT_THAT(Error(x, "2x3xf99=1"), HasSubstr("there is no dtype \"f99\""));
  EXPECT_THAT(Error(x, "1,2,3"), HasSubstr("its sizes vary"));
  EXPECT_THAT(Error(x, "2x3xf32=1,2,3,4,5,six"), HasSubstr("\"six\" is no float32"));
  EXPECT_THAT(Error(x, "-2x3xf32=1"), HasSubstr("\"-2\" is no size"));
  EXPECT_THAT(Error(x, "4000000000x4000000000xf32=1"), HasSubstr("the sizes are absurd"));
  EXPECT_THAT(Error(TensorArg(DType::kInt8, {Fixed(1)}), "300"), HasSubstr("\"300\" is no int8"));
  EXPECT_THAT(Error(ScalarArg(ValueKind::kInt), "1.5"), HasSubstr("it is no whole number; \"n\" is int"));
  EXPECT_THAT(Error(ScalarArg(ValueKind::kComplex), "1+j2"), HasSubstr("it is no complex number"));
}

// A model that takes "x" of s0 elements, from 2 to 64, in a file.
class ArgumentMakerTest : public ::testing::Test {
 protected:
  void SetUp() override { Load(); }
  // `name` is the graph's, `structure` the caller's.
  void Load(const std::string& name = "x", const Structure& structure = {}) {
    HandBundle b;
    const int n = b.Symbol("s0", fb::SymbolSource::ArgSize);
    b.raw().symbols[0]->min = 2;
    b.raw().symbols[0]->max = 64;
    const int arg = b.VectorArg(name, n);
    b.raw().argument_structure = StructureTables(structure);
    HandPlan p = b.Plan();
    const int x = p.Vector(p.ArgSlot(arg), n);
    p.Launch(kAddOne, n, x, x);
    path_ = absl::StrCat(::testing::TempDir(), "/arguments.smb");
    std::ofstream(path_, std::ios::binary) << b.Pack();
    auto program = Program::Load(path_);
    ASSERT_TRUE(program.ok()) << program.status();
    program_ = *program;
  }
  absl::StatusOr<std::vector<Datum>> Make(const ArgumentSource& source) {
    auto maker = ArgumentMaker::Create(path_, program_, source);
    if (!maker.ok()) return maker.status();
    return (*maker)->Make(0, source.FirstSizes());
  }
  std::string Error(const ArgumentSource& source) { return std::string(Make(source).status().message()); }

  std::string path_;
  std::shared_ptr<const Program> program_;
};

TEST_F(ArgumentMakerTest, RandomTensorsHaveTheSizesOfTheirSymbols) {
  const auto args = Make({.seed = 7, .sizes = {{"s0", {5}}}});
  ASSERT_TRUE(args.ok()) << args.status();
  EXPECT_THAT((*args)[0].tensor().sizes(), ElementsAre(5));
  EXPECT_THAT(Floats((*args)[0]), Each(AllOf(Ge(-1), Lt(1))));
  EXPECT_EQ(Floats((*args)[0]), Floats((*Make({.seed = 7, .sizes = {{"s0", {5}}}}))[0]));
  EXPECT_NE(Floats((*args)[0]), Floats((*Make({.seed = 8, .sizes = {{"s0", {5}}}}))[0]));
}

TEST_F(ArgumentMakerTest, WhatLacksIsNamedWithTheOptionThatGivesIt) {
  EXPECT_THAT(Error({}),
              HasSubstr("nothing gives the argument \"x\" (float32 [2..64]): --inputs=FILE, --input x=VALUE"));
  EXPECT_THAT(Error({.seed = 1}), HasSubstr("needs its sizes: --size s0=N (from 2 to 64)"));
  EXPECT_THAT(Error({.seed = 1, .sizes = {{"s0", {65}}}}), HasSubstr("--size s0=65: s0 is from 2 to 64"));
  EXPECT_THAT(Error({.seed = 1, .sizes = {{"s1", {3}}}}), HasSubstr("the model has no size \"s1\"; it has \"s0\""));
  EXPECT_THAT(Error({.values = {{"y", "1"}}}), HasSubstr("the model has no argument \"y\"; it has \"x\""));
}

TEST_F(ArgumentMakerTest, AnArgumentHasTheCallersNameAndTheGraphs) {
  using Kind = StructureNode::Kind;
  using Key = StructureNode::Key;
  // d["k"]
  Load("d_k", {{.kind = Kind::kTuple, .children = 1},
               {.kind = Kind::kDict, .key_kind = Key::kName, .key = "d", .children = 1},
               {.kind = Kind::kLeaf, .key_kind = Key::kName, .key = "k"}});
  for (const char* name : {"d.k", "d_k"}) {
    const auto args = Make({.values = {{name, "3xf32=1,2,3"}}});
    ASSERT_TRUE(args.ok()) << args.status();
    EXPECT_THAT(Floats((*args)[0]), ElementsAre(1, 2, 3)) << name;
  }
  EXPECT_THAT(Error({}), HasSubstr("nothing gives the argument \"d.k\""));
}

}  // namespace
}  // namespace smelt
