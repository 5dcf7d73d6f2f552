#include "smelt/exec/write_protocol.h"

#include <cstring>
#include <vector>

#include "gtest/gtest.h"
#include "smelt/core/base/cause.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/core/tensor/tensor.h"

namespace smelt {
namespace {

// Returns eight floats 0, 1, ..., 7.
Tensor Eight() {
  Tensor t = Tensor::Empty(DType::kFloat32, {8});
  for (int i = 0; i < 8; ++i) t.data_as<float>()[i] = static_cast<float>(i);
  return t;
}

Tensor Part(const Tensor& t, int64_t begin, int64_t size, int64_t stride = 1) {
  return t.View({{size}, {stride}, begin});
}

TEST(WriteProtocolTest, ExpandedMemoryIsNotWritten) {
  const Tensor t = Eight();
  EXPECT_TRUE(CheckNotExpanded(t).ok());
  EXPECT_EQ(CheckNotExpanded(t.View({{4}, {0}, 0})).message(), kInternalOverlapMessage);
  EXPECT_TRUE(CheckNotExpanded(t.View({{4, 0}, {0, 1}, 0})).ok());  // no elements
}

TEST(WriteProtocolTest, PartsOfDenseTensorsAreRefusedAsPyTorchRefusesThem) {
  const Tensor t = Eight();
  const Tensor low = Part(t, 0, 4), shifted = Part(t, 1, 4), high = Part(t, 4, 4);
  for (OperandSharing rule : {OperandSharing::kNotPartly, OperandSharing::kNone}) {
    EXPECT_EQ(CheckOperand(low, shifted, rule).message(), kPartialOverlapMessage);
    EXPECT_TRUE(CheckOperand(low, high, rule).ok());
  }
  EXPECT_TRUE(CheckOperand(low, Part(t, 0, 4), OperandSharing::kNotPartly).ok());
  EXPECT_EQ(CheckOperand(low, Part(t, 0, 4), OperandSharing::kNone).message(), kPartialOverlapMessage);
  EXPECT_TRUE(CheckOperand(low, shifted, OperandSharing::kAny).ok());
}

TEST(WriteProtocolTest, PyTorchDoesNotNoticeTensorsWithGaps) {
  const Tensor t = Eight();
  const Tensor even = Part(t, 0, 4, 2), low = Part(t, 0, 4);
  EXPECT_EQ(WhatIsShared(even, low), Shared::kNothing);
  EXPECT_TRUE(CheckOperand(even, low, OperandSharing::kNone).ok());
  EXPECT_TRUE(IsReadWhileWritten(even, low));
  EXPECT_FALSE(IsReadWhileWritten(even, Part(t, 1, 4, 2)));
}

TEST(WriteProtocolTest, OperandsThatPyTorchDoesNotCheckDependOnTheOrder) {
  const Tensor t = Eight();
  const Tensor low = Part(t, 0, 4);
  EXPECT_EQ(CauseOf(CheckOperand(low, Part(t, 1, 4), OperandSharing::kApart)), Cause::kDependsOnOrder);
  EXPECT_EQ(CauseOf(CheckOperand(low, Part(t, 0, 4), OperandSharing::kApart)), Cause::kDependsOnOrder);
  EXPECT_TRUE(CheckOperand(low, Part(t, 0, 4), OperandSharing::kWholeOrNone).ok());
  EXPECT_EQ(CauseOf(CheckOperand(low, Part(t, 1, 4), OperandSharing::kWholeOrNone)), Cause::kDependsOnOrder);
}

TEST(WriteProtocolTest, AWriteThatReadsWhatItWroteGoesElementByElement) {
  // x[1::3] = x[0::3] in PyTorch's terms with steps of 1 over tensors with gaps: each element takes the one before it.
  const Tensor t = Eight();
  const Tensor written = t.View({{3, 2}, {2, 1}, 2}), read = t.View({{3, 2}, {2, 1}, 0});
  const PythonValue operand(read);
  const auto done =
      WriteInOrder(written, {&operand, 1}, [](const Tensor& element, absl::Span<const PythonValue> elements) {
        std::memcpy(element.data(), elements[0].tensor().data(), sizeof(float));
        return absl::OkStatus();
      });
  ASSERT_TRUE(done.ok()) << done.status();
  ASSERT_TRUE(*done);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(t.data_as<float>()[i], static_cast<float>(i % 2)) << i;
}

TEST(WriteProtocolTest, OperandsElsewhereNeedNoOrder) {
  const Tensor t = Eight();
  const PythonValue operand(Eight());
  const auto done = WriteInOrder(t, {&operand, 1}, [](const Tensor&, absl::Span<const PythonValue>) {
    ADD_FAILURE() << "nothing is to be written";
    return absl::OkStatus();
  });
  ASSERT_TRUE(done.ok());
  EXPECT_FALSE(*done);
}

}  // namespace
}  // namespace smelt
