// Tests .npy files, whose bytes come from anywhere. The good ones are NumPy's, byte for byte.
#include "smelt/tools/npy.h"

#include <complex>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace smelt {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A file of version 1.0 as numpy.save writes it: the header is padded so that the data begins at a multiple of 64.
std::string File(std::string header, absl::string_view data) {
  header.append((64 - (10 + header.size() + 1) % 64) % 64, ' ');
  header += '\n';
  const char length[] = {static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  return absl::StrCat(absl::string_view("\x93NUMPY\x01\0", 8), absl::string_view(length, 2), header, data);
}
std::string File(absl::string_view descr, absl::string_view order, absl::string_view shape, absl::string_view data) {
  return File(absl::StrCat("{'descr': '", descr, "', 'fortran_order': ", order, ", 'shape': ", shape, ", }"), data);
}
template <typename T>
std::string Bytes(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}
std::vector<float> Floats(const Tensor& t) { return {t.data_as<float>(), t.data_as<float>() + t.NumElements()}; }

void ExpectError(const std::string& file, absl::StatusCode code, const std::string& message) {
  const auto t = ParseNpy(file, "x.npy");
  EXPECT_EQ(t.status().code(), code) << t.status();
  EXPECT_THAT(std::string(t.status().message()), HasSubstr(absl::StrCat("x.npy: ", message)));
}

TEST(NpyTest, NumbersAreReadRowByRow) {
  const auto t = ParseNpy(File("<f4", "False", "(2, 3)", Bytes<float>({1, 2, 3, 4, 5, 6})), "x.npy");
  ASSERT_TRUE(t.ok()) << t.status();
  EXPECT_EQ(t->dtype(), DType::kFloat32);
  EXPECT_THAT(t->sizes(), ElementsAre(2, 3));
  EXPECT_THAT(Floats(*t), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(NpyTest, ColumnsBecomeRows) {
  // numpy.save of numpy.asfortranarray([[1, 2, 3], [4, 5, 6]])
  const auto t = ParseNpy(File("<f4", "True", "(2, 3)", Bytes<float>({1, 4, 2, 5, 3, 6})), "x.npy");
  ASSERT_TRUE(t.ok()) << t.status();
  EXPECT_THAT(t->strides(), ElementsAre(3, 1));
  EXPECT_THAT(Floats(*t), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(NpyTest, AScalarAndAnEmptyArrayHaveTheirSizes) {
  const auto scalar = ParseNpy(File("<i8", "False", "()", Bytes<int64_t>({-7})), "x.npy");
  ASSERT_TRUE(scalar.ok()) << scalar.status();
  EXPECT_EQ(scalar->rank(), 0);
  EXPECT_EQ(*scalar->data_as<int64_t>(), -7);
  const auto empty = ParseNpy(File("|b1", "False", "(0,)", ""), "x.npy");
  ASSERT_TRUE(empty.ok()) << empty.status();
  EXPECT_THAT(empty->sizes(), ElementsAre(0));
}

TEST(NpyTest, WrittenBytesAreThoseOfNumPy) {
  // numpy.save of numpy.array([1, 2], "int32"), NumPy 2
  Tensor t = Tensor::Empty(DType::kInt32, {2});
  t.data_as<int32_t>()[0] = 1;
  t.data_as<int32_t>()[1] = 2;
  const auto bytes = EncodeNpy(t);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(*bytes, File("<i4", "False", "(2,)", Bytes<int32_t>({1, 2})));
  EXPECT_EQ(bytes->size() % 64, 8u);
}

TEST(NpyTest, WhatIsWrittenIsReadAgain) {
  for (int d = 0; d < kNumDTypes; ++d) {
    const DType dtype = static_cast<DType>(d);
    if (dtype == DType::kBFloat16 || IsFloat8(dtype)) continue;
    Tensor t = Tensor::Empty(dtype, {3, 2});
    for (int i = 0; i < 6 * ItemSize(dtype); ++i) static_cast<char*>(t.data())[i] = dtype == DType::kBool ? i % 2 : i;
    const Tensor turned = t.View({{2, 3}, {1, 2}, 0});
    const auto back = ParseNpy(*EncodeNpy(turned), "x.npy");
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->dtype(), dtype);
    EXPECT_EQ(std::memcmp(back->data(), turned.Clone().data(), static_cast<size_t>(6 * ItemSize(dtype))), 0);
  }
  for (const DType lacking : {DType::kBFloat16, DType::kFloat8E4M3FN, DType::kFloat8E5M2})
    EXPECT_EQ(EncodeNpy(Tensor::Empty(lacking, {1})).status().code(), absl::StatusCode::kUnimplemented);
}

TEST(NpyTest, ElementsThatSmeltLacksAreNamed) {
  using Code = absl::StatusCode;
  ExpectError(File(">f4", "False", "(1,)", "abcd"), Code::kUnimplemented, "its elements are big-endian (>f4)");
  ExpectError(File("|O", "False", "(1,)", "abcdefgh"), Code::kUnimplemented, "its elements are Python objects");
  ExpectError(File("<u2", "False", "(1,)", "ab"), Code::kUnimplemented, "elements of type <u2 are not supported");
  ExpectError(File("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", "abcd"), Code::kUnimplemented,
              "its elements are records");
}

TEST(NpyTest, AFileThatIsCutOffOrTooLongSaysSo) {
  using Code = absl::StatusCode;
  const std::string good = File("<f4", "False", "(2,)", Bytes<float>({1, 2}));
  for (size_t size = 0; size < good.size(); ++size) {
    const auto t = ParseNpy(good.substr(0, size), "x.npy");
    EXPECT_EQ(t.status().code(), Code::kDataLoss) << size << ": " << t.status();
  }
  ExpectError(good.substr(0, good.size() - 1), Code::kDataLoss, "[2] of float32 take 8 bytes, but 7 bytes follow");
  ExpectError(good + "x", Code::kDataLoss, "[2] of float32 take 8 bytes, but 9 bytes follow");
}

TEST(NpyTest, AbsurdSizesTakeNoMemory) {
  using Code = absl::StatusCode;
  ExpectError(File("<f8", "False", "(9223372036854775807, 2)", ""), Code::kDataLoss, "absurd sizes");
  ExpectError(File("<f8", "False", "(0, 4611686018427387904, 4)", ""), Code::kDataLoss, "absurd sizes");
  ExpectError(File("<f8", "False", "(1152921504606846975,)", "x"), Code::kDataLoss, "[1152921504606846975] of float64");
  ExpectError(File("<f8", "False", "(99999999999999999999,)", ""), Code::kDataLoss, "the header is no .npy header");
  ExpectError(File("<f8", "False", "(-1,)", ""), Code::kDataLoss, "the header is no .npy header");
  std::string many = "(";
  for (int i = 0; i < 65; ++i) many += "1,";
  ExpectError(File("<f8", "False", many + ")", "12345678"), Code::kDataLoss, "more than 64 dims");
}

TEST(NpyTest, OtherHeadersAreRefused) {
  using Code = absl::StatusCode;
  for (const char* header : {"", "{", "{}", "{'descr'", "{'descr': '<f4', 'fortran_order': 1, 'shape': (1,)}",
                             "{'descr': '<f4', 'fortran_order': False, 'shape': 1}",
                             "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x",
                             "{'descr': '<f4', 'fortran_order': False}", "__import__('os').system('true')"}) {
    ExpectError(File(header, "abcd"), Code::kDataLoss, "the header is no .npy header");
  }
  ExpectError(File("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'x': 1}", "abcd"), Code::kDataLoss,
              "unknown key \"x\"");
  std::string newer = File("<f4", "False", "(1,)", "abcd");
  newer[6] = 9;
  ExpectError(newer, Code::kUnimplemented, "version 9 of .npy");
  ExpectError("PK\x03\x04 and more", Code::kDataLoss, "not a .npy file");
}

}  // namespace
}  // namespace smelt
