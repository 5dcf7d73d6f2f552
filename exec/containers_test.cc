#include "smelt/exec/containers.h"

#include <limits>
#include <string>

#include "gtest/gtest.h"
#include "smelt/core/tensor/tensor.h"

namespace smelt {
namespace {

PythonValue Int(int64_t v) { return PythonValue(v); }
PythonValue String(const char* s) { return PythonValue(std::string(s)); }

std::string Text(const absl::StatusOr<std::vector<PythonValue>>& results) {
  if (!results.ok()) return std::string(results.status().message());
  return results->empty() ? "" : results->front().ToString();
}

TEST(ContainersTest, AListIsAHandleThatItsNamesShare) {
  const PythonValue list = PythonValue::Ints({1, 2}), other_name = list;
  ASSERT_TRUE(RunOnList(PythonOp::kAppend, {list, Int(3)}).ok());
  EXPECT_EQ(other_name.ToString(), "[1, 2, 3]");
  ASSERT_TRUE(RunOnList(PythonOp::kExtend, {list, list}).ok());
  EXPECT_EQ(other_name.ToString(), "[1, 2, 3, 1, 2, 3]");
}

TEST(ContainersTest, IndicesCountFromTheEndAndAreChecked) {
  const PythonValue list = PythonValue::Ints({10, 20, 30});
  EXPECT_EQ(Text(RunOnList(PythonOp::kGetItem, {list, Int(-1)})), "30");
  EXPECT_EQ(Text(RunOnList(PythonOp::kGetItem, {list, Int(3)})), "list index out of range");
  EXPECT_EQ(Text(RunOnList(PythonOp::kGetItem, {list, Int(-4)})), "list index out of range");
  EXPECT_EQ(Text(RunOnList(PythonOp::kPop, {list})), "30");
  ASSERT_TRUE(RunOnList(PythonOp::kInsert, {list, Int(-100), Int(5)}).ok());
  EXPECT_EQ(list.ToString(), "[5, 10, 20]");
}

TEST(ContainersTest, SlicesAreClampedAndTheirStepIsPositive) {
  const PythonValue list = PythonValue::Ints({0, 1, 2, 3, 4}), none;
  EXPECT_EQ(Text(RunOnList(PythonOp::kSlice, {list, Int(1), Int(-1), Int(2)})), "[1, 3]");
  EXPECT_EQ(Text(RunOnList(PythonOp::kSlice, {list, none, Int(100), Int(INT64_MAX)})), "[0]");
  EXPECT_FALSE(RunOnList(PythonOp::kSlice, {list, none, none, Int(0)}).ok());
}

TEST(ContainersTest, SortingRefusesWhatHasNoOrder) {
  const PythonValue list = PythonValue::Ints({3, 1, 2});
  EXPECT_EQ(Text(RunOnList(PythonOp::kSorted, {list})), "[1, 2, 3]");
  EXPECT_EQ(list.ToString(), "[3, 1, 2]");
  ASSERT_TRUE(RunOnList(PythonOp::kSort, {list, PythonValue(true)}).ok());
  EXPECT_EQ(list.ToString(), "[3, 2, 1]");
  const PythonValue nan = PythonValue::List({PythonValue(std::numeric_limits<double>::quiet_NaN())});
  EXPECT_TRUE(absl::IsUnimplemented(RunOnList(PythonOp::kSorted, {nan}).status()));
  EXPECT_TRUE(absl::IsUnimplemented(RunOnList(PythonOp::kSorted, {PythonValue::List({String("a")})}).status()));
}

TEST(ContainersTest, SearchingFindsEqualElementsAndRefusesTensors) {
  const PythonValue list = PythonValue::List({String("a"), String("b"), String("a")});
  EXPECT_EQ(Text(RunOnList(PythonOp::kCount, {list, String("a")})), "2");
  EXPECT_EQ(Text(RunOnList(PythonOp::kIndex, {list, String("b")})), "1");
  EXPECT_EQ(Text(RunOnList(PythonOp::kContains, {list, String("c")})), "False");
  EXPECT_FALSE(RunOnList(PythonOp::kIndex, {list, String("c")}).ok());
  const PythonValue t(Tensor::Empty(DType::kFloat32, {1}));
  EXPECT_TRUE(absl::IsUnimplemented(RunOnList(PythonOp::kCount, {PythonValue::List({t}), t}).status()));
}

TEST(ContainersTest, ADictionaryKeepsTheOrderInWhichKeysWereFirstSet) {
  const PythonValue dict = MakeDict({String("a"), Int(1), String("b"), Int(2), String("a"), Int(3)});
  EXPECT_EQ(dict.ToString(), "{\"a\": 3, \"b\": 2}");
  EXPECT_EQ(Text(RunOnDict(PythonOp::kKeys, {dict})), "[\"a\", \"b\"]");
  EXPECT_EQ(Text(RunOnDict(PythonOp::kItems, {dict})), "[(\"a\", 3), (\"b\", 2)]");
  EXPECT_EQ(Text(RunOnDict(PythonOp::kPop, {dict, String("a")})), "3");
  ASSERT_TRUE(RunOnDict(PythonOp::kSetItem, {dict, String("a"), Int(4)}).ok());
  EXPECT_EQ(dict.ToString(), "{\"b\": 2, \"a\": 4}");
}

TEST(ContainersTest, AMissingKeyIsAnErrorOrTheDefault) {
  const PythonValue dict = MakeDict({Int(1), Int(10)});
  EXPECT_EQ(Text(RunOnDict(PythonOp::kGetItem, {dict, Int(2)})), "KeyError: 2");
  EXPECT_EQ(Text(RunOnDict(PythonOp::kPop, {dict, Int(2)})), "KeyError: 2");
  EXPECT_EQ(Text(RunOnDict(PythonOp::kPop, {dict, Int(2), Int(7)})), "7");
  EXPECT_EQ(Text(RunOnDict(PythonOp::kGet, {dict, Int(2)})), "None");
  EXPECT_EQ(Text(RunOnDict(PythonOp::kSetDefault, {dict, Int(1), Int(7)})), "10");
  EXPECT_EQ(Text(RunOnDict(PythonOp::kSetDefault, {dict, Int(2), Int(7)})), "7");
  EXPECT_EQ(Text(RunOnDict(PythonOp::kLen, {dict})), "2");
}

TEST(ContainersTest, ADictionaryUpdatesFromItself) {
  const PythonValue dict = MakeDict({Int(1), Int(10)});
  ASSERT_TRUE(RunOnDict(PythonOp::kUpdate, {dict, dict}).ok());
  EXPECT_EQ(dict.ToString(), "{1: 10}");
}

TEST(ContainersTest, EqualityIsByValueForNumbersAndByIdentityForTensors) {
  EXPECT_TRUE(AreEqual(Int(1), PythonValue(1.0)));
  EXPECT_TRUE(AreEqual(PythonValue(true), Int(1)));
  EXPECT_FALSE(AreEqual(Int(1), String("1")));
  EXPECT_FALSE(AreEqual(Int(0), PythonValue()));
  EXPECT_TRUE(AreEqual(PythonValue::Ints({1, 2}), PythonValue::Tuple({Int(1), PythonValue(2.0)})));
  const PythonValue a(Tensor::Empty(DType::kFloat32, {1})), b(Tensor::Empty(DType::kFloat32, {1}));
  EXPECT_TRUE(AreEqual(a, a));
  EXPECT_FALSE(AreEqual(a, b));
}

}  // namespace
}  // namespace smelt
