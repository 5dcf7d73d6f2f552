#include "smelt/frontend/checked_json.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace smelt {
namespace pt2_internal {
namespace {

std::string ErrorOf(const std::string& text) {
  const auto j = ParseJson(text, "a.json");
  EXPECT_FALSE(j.ok()) << text;
  return std::string(j.status().message());
}

Json Parsed(const std::string& text) {
  auto j = ParseJson(text, "a.json");
  EXPECT_TRUE(j.ok()) << text << ": " << j.status();
  return j.ok() ? *std::move(j) : Json();
}

TEST(CheckedJsonTest, EveryKindOfValueIsRead) {
  const Json j =
      Parsed(R"( {"i": [0, -1, 9223372036854775807], "d": 2.5e-1, "s": "\u00e9\ud83d\ude00\n\"", "b": [true, false],
                            "n": null, "o": {}, "a": []} )");
  EXPECT_EQ(*AsInt(j["i"][0]), 0);
  EXPECT_EQ(*AsInt(j["i"][1]), -1);
  EXPECT_EQ(*AsInt(j["i"][2]), INT64_MAX);
  EXPECT_EQ(*AsDouble(j["d"]), 0.25);
  EXPECT_EQ(*AsString(j["s"]), "\xc3\xa9\xf0\x9f\x98\x80\n\"");
  EXPECT_TRUE(*AsBool(j["b"][0]));
  EXPECT_FALSE(*AsBool(j["b"][1]));
  EXPECT_TRUE(j["n"].is_null());
  EXPECT_TRUE(j["o"].is_object() && j["o"].empty());
  EXPECT_TRUE(j["a"].is_array() && j["a"].empty());
}

TEST(CheckedJsonTest, IntegersBeyondInt64AreNoInts) {
  EXPECT_EQ(AsInt(Parsed("9223372036854775808")).status().message(), "9223372036854775808 is not an int64");
  EXPECT_EQ(AsInt(Parsed("18446744073709551615")).status().message(), "18446744073709551615 is not an int64");
  EXPECT_EQ(AsInt(Parsed("18446744073709551616")).status().message(), "an integer expected");
  EXPECT_EQ(AsInt(Parsed("-9223372036854775809")).status().message(), "an integer expected");
  EXPECT_EQ(*AsInt(Parsed("-9223372036854775808")), INT64_MIN);
  EXPECT_EQ(*AsDouble(Parsed("18446744073709551616")), 18446744073709551616.0);
}

TEST(CheckedJsonTest, NumbersThatAreNotFiniteAreStrings) {
  EXPECT_EQ(*AsDouble(Parsed(R"("Infinity")")), HUGE_VAL);
  EXPECT_EQ(*AsDouble(Parsed(R"("-Infinity")")), -HUGE_VAL);
  EXPECT_NE(*AsDouble(Parsed(R"("NaN")")), *AsDouble(Parsed(R"("NaN")")));
  for (const char* bare : {"NaN", "Infinity", "[-Infinity]", "1e400"})
    EXPECT_EQ(ErrorOf(bare), "a.json: not valid JSON");
}

TEST(CheckedJsonTest, OfAKeyThatIsGivenTwiceTheLastValueCounts) {
  EXPECT_EQ(Parsed(R"({"a": {"b": 2}, "c": 1, "a": [3]})"), Json({{"a", {3}}, {"c", 1}}));
}

TEST(CheckedJsonTest, WhatIsNoJsonIsAnError) {
  for (const char* text : {"", " ", "{", "[1,]", "{\"a\" 1}", "[] []", "\"\\ud800\"", "\"\\udc00\"", "\"\x80\"",
                           "\"a\tb\"", "01", "1.", "nul", "\"\\x\"", "// c\n1"}) {
    EXPECT_EQ(ErrorOf(text), "a.json: not valid JSON") << text;
  }
}

TEST(CheckedJsonTest, NestingIsLimited) {
  const auto nested = [](int depth, const std::string& open, const std::string& close) {
    std::string out;
    for (int i = 0; i < depth; ++i) absl::StrAppend(&out, open);
    absl::StrAppend(&out, "1");
    for (int i = 0; i < depth; ++i) absl::StrAppend(&out, close);
    return out;
  };
  for (const auto& [open, close] : {std::pair("[", "]"), std::pair("{\"a\":", "}")}) {
    Parsed(nested(400, open, close));
    EXPECT_EQ(ErrorOf(nested(401, open, close)), "a.json: JSON nested deeper than 400 levels");
    EXPECT_EQ(ErrorOf(nested(1000000, open, close)), "a.json: JSON nested deeper than 400 levels");
    EXPECT_EQ(ErrorOf(nested(1000000, open, "")), "a.json: JSON nested deeper than 400 levels");
  }
}

// The result equals nlohmann's, whichever parser is used.
TEST(CheckedJsonTest, DamagedTextIsReadAsNlohmannReadsIt) {
  const std::string good =
      R"({"a":[1,-2,3.5e3,"x\u00e9\ud83d\ude00y\\",true,null,{"as_int":18446744073709551615,"n":false}],)"
      R"("b":{"c":"\n\"z","a":[[],{}]},"a":-9223372036854775808,"d":[0,-0,-0.0,1e-400,12345678901234567890123]})";
  constexpr char kBytes[] = "{}[]\",:0123456789.eE+-\\ud8DcCtrfnal \t\n\x00\x01\x80\xc3\xa9\xed\xa0";
  const std::string bytes(kBytes, sizeof(kBytes) - 1);  // one of them is 0
  int valid = 0;
  for (size_t at = 0; at < good.size(); ++at) {
    for (const char b : bytes) {
      for (const int erased : {0, 1, 2}) {
        std::string text = good;
        text.replace(at, erased, 1, b);
        const Json expected = Json::parse(text, nullptr, false);
        const auto got = ParseJson(text, "");
        ASSERT_EQ(got.ok(), !expected.is_discarded()) << text;
        if (!got.ok()) continue;
        ++valid;
        ASSERT_EQ(*got, expected) << text;
        ASSERT_EQ(got->dump(), expected.dump()) << text;
      }
    }
  }
  EXPECT_GT(valid, 1000);
}

}  // namespace
}  // namespace pt2_internal
}  // namespace smelt
