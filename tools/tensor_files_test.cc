// Tests files of tensors: their kind is found from their contents, whatever they are called.
#include "smelt/tools/tensor_files.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/runtime/safetensors.h"
#include "smelt/tools/npy.h"

namespace smelt {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Tensor Ints(const std::vector<int32_t>& values) {
  Tensor t = Tensor::Empty(DType::kInt32, {static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), t.data_as<int32_t>());
  return t;
}
std::vector<int32_t> ValuesOf(const absl::StatusOr<Tensor>& t) {
  if (!t.ok() || t->dtype() != DType::kInt32) return {};
  return {t->data_as<int32_t>(), t->data_as<int32_t>() + t->NumElements()};
}
std::string Path(const std::string& name) { return absl::StrCat(testing::TempDir(), "/", name); }
std::string Write(const std::string& name, const std::string& bytes) {
  std::ofstream(Path(name), std::ios::binary) << bytes;
  return Path(name);
}

std::string Little(uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
  return out;
}
// A zip of one stored entry, as numpy.savez writes it.
std::string Npz(const std::string& name, const std::string& data) {
  uint32_t crc = 0xffffffff;
  for (unsigned char c : data) {
    crc ^= c;
    for (int k = 0; k < 8; ++k) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320u : 0);
  }
  const std::string common =
      absl::StrCat(Little(20, 2), Little(0, 2), Little(0, 2), Little(0, 4), Little(~crc, 4), Little(data.size(), 4),
                   Little(data.size(), 4), Little(name.size(), 2), Little(0, 2));
  const std::string local = absl::StrCat("PK\x03\x04", common, name, data);
  const std::string central = absl::StrCat("PK\x01\x02", Little(20, 2), common, Little(0, 2), Little(0, 2),
                                           Little(0, 2), Little(0, 4), Little(0, 4), name);
  return absl::StrCat(local, central, "PK\x05\x06", Little(0, 2), Little(0, 2), Little(1, 2), Little(1, 2),
                      Little(central.size(), 4), Little(local.size(), 4), Little(0, 2));
}

TEST(TensorFilesTest, TheKindOfAFileIsFoundFromItsContents) {
  const std::string npy = *EncodeNpy(Ints({1, 2, 3}));
  ASSERT_TRUE(WriteSafetensors(Path("a"), {{"x", Ints({1, 2, 3})}}).ok());
  std::filesystem::create_directories(Path("folder"));
  Write("folder/x.npy", npy);
  Write("folder/notes.txt", "no tensor");
  for (const std::string& path : {Path("a"), Write("b", Npz("x.npy", npy)), Path("folder")}) {
    const auto file = ReadTensors(path);
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_EQ(file->tensors.count("x"), 1u) << path;
    EXPECT_EQ(file->tensors.size(), 1u) << path;
    EXPECT_THAT(ValuesOf(file->tensors.at("x")), ElementsAre(1, 2, 3)) << path;
    EXPECT_THAT(ValuesOf(ReadOneTensor(path)), ElementsAre(1, 2, 3)) << path;
  }
  const auto one = ReadTensors(Write("c", npy));
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_TRUE(one->is_one_npy);
  EXPECT_THAT(ValuesOf(one->tensors.at("")), ElementsAre(1, 2, 3));
}

TEST(TensorFilesTest, ATensorThatCannotBeReadHarmsOnlyWhoAsksForIt) {
  std::filesystem::create_directories(Path("mixed"));
  Write("mixed/good.npy", *EncodeNpy(Ints({4})));
  Write("mixed/bad.npy", "\x93NUMPY");
  const auto file = ReadTensors(Path("mixed"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(ValuesOf(file->tensors.at("good")), ElementsAre(4));
  EXPECT_THAT(std::string(file->tensors.at("bad").status().message()), HasSubstr("mixed/bad.npy: "));
}

TEST(TensorFilesTest, WhatIsNoFileOfTensorsSaysSo) {
  EXPECT_THAT(std::string(ReadTensors(Write("d", Npz("readme", "text"))).status().message()),
              HasSubstr("d: a zip archive with the entry readme, so no .npz of NumPy; a safetensors file"));
  EXPECT_THAT(std::string(ReadTensors(Write("e", "PK\x03\x04")).status().message()), HasSubstr("not a readable zip"));
  EXPECT_THAT(std::string(ReadTensors(Write("f", "text, just text")).status().message()),
              AllOf(HasSubstr("not a safetensors file"), HasSubstr("a folder of .npy files expected")));
  EXPECT_EQ(ReadTensors(Path("nothing")).status().code(), absl::StatusCode::kNotFound);
}

TEST(TensorFilesTest, ResultsAreWrittenInTheFormOfTheirPath) {
  const std::vector<NamedDatum> results = {{"aux.0", Ints({5, 6})}, {"n", Datum(7)}, {"mode", Datum("sum")}};
  auto others = WriteResults(Path("out/"), results, "");
  ASSERT_TRUE(others.ok()) << others.status();
  EXPECT_THAT(others->left_out, ElementsAre(2));
  EXPECT_THAT(others->in_metadata, IsEmpty());
  EXPECT_THAT(ValuesOf(ReadOneTensor(Path("out/aux.0.npy"))), ElementsAre(5, 6));
  EXPECT_EQ(*ReadOneTensor(Path("out/n.npy"))->data_as<int64_t>(), 7);
  others = WriteResults(Path("out.safetensors"), results, "{}");
  ASSERT_TRUE(others.ok()) << others.status();
  EXPECT_THAT(others->in_metadata, ElementsAre(1, 2));
  EXPECT_THAT(others->left_out, IsEmpty());
  EXPECT_THAT(ValuesOf(ReadOneTensor(Path("out.safetensors"))), ElementsAre(5, 6));
  ASSERT_TRUE(WriteResults(Path("one.npy"), {{"y", Ints({8})}}, "").ok());
  EXPECT_THAT(ValuesOf(ReadOneTensor(Path("one.npy"))), ElementsAre(8));
  EXPECT_EQ(WriteResults(Path("two.npy"), results, "").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(TensorFilesTest, NoNameOfABundleLeavesTheFolder) {
  ASSERT_TRUE(WriteResults(Path("safe/"),
                           {{"../../etc/x", Ints({1})}, {"", Ints({2})}, {"a\n", Ints({3})}, {"größe", Ints({4})}}, "")
                  .ok());
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(Path("safe"))) names.push_back(entry.path().filename());
  EXPECT_THAT(names, testing::UnorderedElementsAre("_.._.._etc_x.npy", "_.npy", "a_.npy", "größe.npy"));
}

}  // namespace
}  // namespace smelt
