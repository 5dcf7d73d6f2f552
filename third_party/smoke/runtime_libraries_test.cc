#include <zip.h>
#include <zlib.h>

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/flags/flag.h"
#include "absl/numeric/int128.h"
#include "absl/random/random.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "oneapi/dnnl/dnnl.hpp"
#include "simdjson.h"
#include "smelt/third_party/smoke/smoke_generated.h"

ABSL_FLAG(int, smoke, 7, "Tests that flags link.");

namespace {

TEST(RuntimeLibrariesTest, AbseilIsThere) {
  absl::flat_hash_map<std::string, absl::int128> map = {{"a", absl::int128(1) << 100}};
  EXPECT_EQ(absl::StrFormat("%d", static_cast<int64_t>(map["a"] >> 90)), "1024");
  EXPECT_EQ(absl::ToInt64Milliseconds(absl::Seconds(2)), 2000);
  EXPECT_EQ(absl::GetFlag(FLAGS_smoke), 7);
  absl::BitGen gen;
  EXPECT_LT(absl::Uniform(gen, 0, 3), 3);
}

TEST(RuntimeLibrariesTest, FlatBuffersIsThere) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(smelt::smoke::CreatePoint(builder, 3));
  EXPECT_EQ(flatbuffers::GetRoot<smelt::smoke::Point>(builder.GetBufferPointer())->x(), 3);
}

TEST(RuntimeLibrariesTest, SimdjsonIsThere) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  ASSERT_FALSE(parser.parse(std::string("[1, 2]")).get(root));
  int64_t second = 0;
  ASSERT_FALSE(root.at(1).get(second));
  EXPECT_EQ(second, 2);
}
TEST(RuntimeLibrariesTest, JsonIsThere) { EXPECT_EQ(nlohmann::json::parse(R"({"a": [1, 2]})")["a"][1], 2); }

TEST(RuntimeLibrariesTest, OneDnnIsThere) { EXPECT_GE(dnnl::engine::get_count(dnnl::engine::kind::cpu), 1u); }

// CRC-32 of "123456789" is the check value of its definition.
TEST(RuntimeLibrariesTest, ZlibIsThere) {
  EXPECT_EQ(crc32(0, reinterpret_cast<const Bytef*>("123456789"), 9), 0xcbf43926u);
}

TEST(RuntimeLibrariesTest, LibzipIsThere) {
  int error = 0;
  EXPECT_EQ(zip_open("there is no such file", ZIP_RDONLY, &error), nullptr);
  EXPECT_EQ(error, ZIP_ER_NOENT);
}

}  // namespace
