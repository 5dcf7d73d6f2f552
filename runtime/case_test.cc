#include "smelt/runtime/case.h"

#include <cstring>
#include <fstream>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/runtime/safetensors.h"
#include "smelt/runtime/testing/hand_bundle.h"

namespace smelt {
namespace {

using ::testing::HasSubstr;

std::string Bytes(const std::vector<float>& v) {
  return std::string(reinterpret_cast<const char*>(v.data()), v.size() * 4);
}

// A case file as the PyTorch scripts write it: storages as bytes, the case as JSON.
struct CaseFile {
  std::map<std::string, std::string> storages;
  std::string json;

  std::string Write() const {
    std::string header = "{", body;
    for (const auto& [name, bytes] : storages) {
      absl::StrAppend(&header, "\"", name, "\":{\"dtype\":\"U8\",\"shape\":[", bytes.size(), "],\"data_offsets\":[",
                      body.size(), ",", body.size() + bytes.size(), "]},");
      body += bytes;
    }
    absl::StrAppend(&header, "\"__metadata__\":{\"smelt.case\":\"",
                    absl::StrReplaceAll(json, {{"\"", "\\\""}, {"\n", " "}}), "\"}}");
    const uint64_t size = header.size();
    const std::string path = ::testing::TempDir() + "/x.case.safetensors";
    std::ofstream out(path, std::ios::binary);
    out.write(reinterpret_cast<const char*>(&size), 8);
    out << header << body;
    return path;
  }
};

// f(x): x.relu_(); return x, x + 1, and the buffer s, to which 1 is added. x and s have 4 elements.
std::shared_ptr<const Program> Model() {
  HandBundle b;
  const int n = b.Const(4), two = b.Const(2);
  b.VectorArg("x", n);
  b.State("s", {10, 20}, true);
  b.State("t", {7, 8}, true);
  b.Output("x");
  b.Output("y");
  b.Output("n", fb::ArgKind::Int);
  HandPlan p = b.Plan();
  const int x = p.Vector(p.ArgSlot(0), n), y = p.Vector(p.FreshSlot(b.Const(16)), n);
  const int s = p.Vector(p.StateSlot(0), two);
  p.Launch(kRelu, n, x, x);
  p.Launch(kAddOne, n, x, y);
  p.Launch(kAddOne, two, s, s);
  p.Mutated(0, 1)->written = {x};
  p.raw().written_args = {0};
  p.raw().written_states = {0};
  p.Output(fb::OutputKind::IsArg, 0);
  p.Output(fb::OutputKind::Fresh, -1, y);
  p.Output(fb::OutputKind::Scalar)->expr = n;
  return b.Load();
}

// x is in the middle of its storage.
CaseFile Right() {
  CaseFile c;
  c.storages = {{"c0.s0", Bytes({9, -1, 2, -3, 4, 9})},
                {"c0.s0.after", Bytes({9, 0, 2, 0, 4, 9})},
                {"c0.o0", Bytes({1, 3, 1, 5})},
                {"c0.b0.after", Bytes({11, 21})}};
  c.json = R"({"version": 1, "rtol": 1.3e-06, "atol": 1e-05, "calls": [{
    "args": [{"name": "x", "storage": "c0.s0", "dtype": "float32", "sizes": [4], "strides": [1], "offset": 1}],
    "after_args": [{"name": "x", "storage": "c0.s0.after", "dtype": "float32", "sizes": [4], "strides": [1], "offset": 1}],
    "outputs": [
      {"storage": "c0.s0.after", "dtype": "float32", "sizes": [4], "strides": [1], "offset": 1, "same_as_arg": 0},
      {"storage": "c0.o0", "dtype": "float32", "sizes": [4], "strides": [1], "offset": 0}, {"int": 4}],
    "after_state": [{"name": "s", "storage": "c0.b0.after", "dtype": "float32", "sizes": [2], "strides": [1], "offset": 0}]
  }]})";
  return c;
}

CaseReport RunOk(const CaseFile& c, int repeat = 1) {
  CaseOptions options;
  options.repeat = repeat;
  auto r = RunCase(Model(), c.Write(), options);
  EXPECT_TRUE(r.ok()) << r.status();
  return r.ok() ? *std::move(r) : CaseReport();
}

// Returns the case with a piece of its JSON replaced.
CaseFile With(const std::string& from, const std::string& to) {
  CaseFile c = Right();
  const size_t at = c.json.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  c.json.replace(at, from.size(), to);
  return c;
}

void ExpectFailure(const CaseFile& c, const std::string& where, const std::string& what) {
  const CaseReport r = RunOk(c);
  EXPECT_FALSE(r.ok);
  ASSERT_FALSE(r.failures.empty());
  EXPECT_EQ(r.failures[0].where, where);
  EXPECT_THAT(r.failures[0].what, HasSubstr(what));
}

TEST(CaseTest, ACaseThatHoldsHoldsAndRoundsStartAnew) {
  const CaseReport r = RunOk(Right(), /*repeat=*/3);
  EXPECT_TRUE(r.ok) << (r.failures.empty() ? "" : r.failures[0].where + ": " + r.failures[0].what);
  EXPECT_EQ(r.kernel_launches, 3);  // of one round
  EXPECT_EQ(r.alias_variants, std::vector<std::string>{"distinct"});
  EXPECT_EQ(r.max_abs_err, 0);
  EXPECT_GE(r.median_ms, r.min_ms);
}

TEST(CaseTest, AWrongValueIsFoundAndMeasured) {
  CaseFile c = Right();
  c.storages["c0.o0"] = Bytes({1, 3, 1.5, 5});
  ExpectFailure(c, "outputs[1]", "element 2 is 1 instead of 1.5 (1 of 4)");
  EXPECT_NEAR(RunOk(c).max_abs_err, 0.5, 1e-9);
  c.storages["c0.o0"] = Bytes({1, 3, 1 + 1e-6f, 5});
  EXPECT_TRUE(RunOk(c).ok);  // within the tolerance
  c.storages["c0.o0"] = Bytes({1, 3, std::nanf(""), 5});
  ExpectFailure(c, "outputs[1]", "instead of nan");
}

TEST(CaseTest, AnArgumentsBytesAreComparedInsideAndOutsideOfEveryTensor) {
  CaseFile c = Right();
  c.storages["c0.s0.after"] = Bytes({9, 0, 2, -3, 4, 9});
  ExpectFailure(c, "outputs[0]", "element 2 is 0 instead of -3");
  c = Right();
  c.storages["c0.s0.after"] = Bytes({8, 0, 2, 0, 4, 9});
  ExpectFailure(c, "c0.s0", "byte 2, which no tensor covers, differs");  // 8.0f and 9.0f differ in their third byte
  c = Right();
  c.storages["c0.s0.after"] += Bytes({0});
  ExpectFailure(c, "c0.s0", "24 bytes instead of 28");
}

TEST(CaseTest, WhoSharesMemoryAndWhoIsTheSameIsCompared) {
  ExpectFailure(With(", \"same_as_arg\": 0", ""), "outputs[0]", "the very argument 0, but another tensor is expected");
  // The first output was expected to be fresh, but shares the argument's memory.
  CaseFile c = With(
      R"({"storage": "c0.s0.after", "dtype": "float32", "sizes": [4], "strides": [1], "offset": 1, "same_as_arg": 0})",
      R"({"storage": "c0.o1", "dtype": "float32", "sizes": [4], "strides": [1], "offset": 0})");
  c.storages["c0.o1"] = Bytes({0, 2, 0, 4});
  ExpectFailure(c, "outputs[0]", "shares memory with c0.s0.after, though it must not");
  // The second was expected to be a view of the argument, but is fresh.
  c = With(R"("c0.o0", "dtype": "float32", "sizes": [4], "strides": [1], "offset": 0)",
           R"("c0.s0.after", "dtype": "float32", "sizes": [4], "strides": [1], "offset": 1)");
  c.storages["c0.s0.after"] = Bytes({9, 0, 2, 0, 4, 9});
  ExpectFailure(c, "outputs[1]", "not in the memory of c0.s0.after");
}

TEST(CaseTest, GeometryDtypeAndNumbersAreCompared) {
  ExpectFailure(
      With(
          R"("after_args": [{"name": "x", "storage": "c0.s0.after", "dtype": "float32", "sizes": [4], "strides": [1], "offset": 1})",
          R"("after_args": [{"name": "x", "storage": "c0.s0.after", "dtype": "float32", "sizes": [2, 2], "strides": [2, 1], "offset": 1})"),
      "after_args[0]", "geometry [4] strides [1] offset 1 instead of [2, 2]");
  ExpectFailure(With(R"("c0.o0", "dtype": "float32")", R"("c0.o0", "dtype": "int32")"), "outputs[1]",
                "dtype float32 instead of int32");
  ExpectFailure(With(R"({"int": 4})", R"({"int": 5})"), "outputs[2]", "4 instead of 5");
  ExpectFailure(With(R"({"int": 4})", R"({"none": true})"), "outputs[2]", "something instead of none");
  ExpectFailure(With(R"(, {"int": 4})", ""), "outputs", "3 instead of 2");
}

TEST(CaseTest, StatesMustChangeAsStatedAndNoOther) {
  CaseFile c = Right();
  c.storages["c0.b0.after"] = Bytes({11, 22});
  ExpectFailure(c, "state s", "element 1 is 21 instead of 22");
  const std::string s =
      R"({"name": "s", "storage": "c0.b0.after", "dtype": "float32", "sizes": [2], "strides": [1], "offset": 0})";
  ExpectFailure(With(s, ""), "state s", "changed, though it must not");
  ExpectFailure(With("\"name\": \"s\"", "\"name\": \"nobody\""), "state nobody", "no such state");
}

TEST(CaseTest, ARefusalIsADifferenceUnlessItIsExpected) {
  const std::string bad_x = R"("sizes": [3], "strides": [1], "offset": 1}],
    "after_args")";
  CaseFile c = With(R"("sizes": [4], "strides": [1], "offset": 1}],
    "after_args")",
                    bad_x);
  ExpectFailure(c, "call", "refused: argument \"x\" has sizes [3], expected [4]");
  CaseFile raises;
  raises.storages = {{"c0.s0", Bytes({1, 2, 3})}};
  raises.json =
      R"({"version": 1, "calls": [{"args": [{"name": "x", "storage": "c0.s0", "dtype": "float32", "sizes": [3],
    "strides": [1], "offset": 0}], "raises": "no"}]})";
  EXPECT_TRUE(RunOk(raises).ok);
  raises.storages["c0.s0"] = Bytes({1, 2, 3, 4});
  raises.json = absl::StrReplaceAll(raises.json, {{"[3]", "[4]"}});
  ExpectFailure(raises, "call", "accepted, but PyTorch refuses: \"no\"");
}

TEST(CaseTest, ALaterCallMayNameAnEarlierOnesMemory) {
  CaseFile c = Right();
  c.json.resize(c.json.rfind("]}"));
  c.json += R"(, {
    "args": [{"name": "x", "storage": "c0.o0", "dtype": "float32", "sizes": [4], "strides": [1], "offset": 0}],
    "after_args": [{"name": "x", "storage": "c0.o0.after", "dtype": "float32", "sizes": [4], "strides": [1], "offset": 0}],
    "outputs": [
      {"storage": "c0.o0.after", "dtype": "float32", "sizes": [4], "strides": [1], "offset": 0, "same_as_arg": 0},
      {"storage": "c1.o0", "dtype": "float32", "sizes": [4], "strides": [1], "offset": 0}, {"int": 4}],
    "after_state": [{"name": "s", "storage": "c1.b0.after", "dtype": "float32", "sizes": [2], "strides": [1], "offset": 0}]
  }]})";
  c.storages["c0.o0.after"] = Bytes({1, 3, 1, 5});
  c.storages["c1.o0"] = Bytes({2, 4, 2, 6});
  c.storages["c1.b0.after"] = Bytes({12, 22});
  const CaseReport r = RunOk(c, 2);
  EXPECT_TRUE(r.ok) << (r.failures.empty() ? "" : r.failures[0].where + ": " + r.failures[0].what);
}

TEST(CaseTest, HostileFilesAreErrorsNeverCrashes) {
  const auto model = Model();
  const auto status = [&](const CaseFile& c) { return RunCase(model, c.Write(), {}).status(); };
  EXPECT_EQ(status(With("\"version\": 1", "\"version\": 2")).code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(RunCase(model, "/nonexistent", {}).status().code(), absl::StatusCode::kNotFound);
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"\"calls\": [", "\"other\": ["},
           {"\"sizes\": [4]", "\"sizes\": [4611686018427387904]"},
           {"\"sizes\": [4]", "\"sizes\": [-1]"},
           {"\"sizes\": [4]", "\"sizes\": 4"},
           {"\"strides\": [1]", "\"strides\": [9223372036854775807]"},
           {"\"offset\": 1", "\"offset\": 3"},
           {"\"offset\": 1", "\"offset\": \"1\""},
           {"\"storage\": \"c0.s0\"", "\"storage\": \"c9\""},
           {"\"storage\": \"c0.s0\"", "\"storage\": 7"},
           {"float32", "float99"},
           {"{\"int\": 4}", "{\"int\": \"four\"}"},
           {"{\"int\": 4}", "{\"bool\": 4}"},
           {"{\"int\": 4}", "{\"float\": []}"},
           {"{\"int\": 4}", "[]"},
           {"{\"int\": 4}", std::string(5000, '[') + std::string(5000, ']')},
           {"\"after_state\": [", "\"after_state\": [7, "},
           {"\"rtol\"", "rtol"}}) {
    EXPECT_EQ(status(With(from, to)).code(), absl::StatusCode::kDataLoss) << from << " -> " << to;
  }
  // The elements of a tensor with a wrong shape must not be read outside its storage.
  CaseFile c = With(R"("after_args": [{"name": "x", "storage": "c0.s0.after", "dtype": "float32", "sizes": [4])",
                    R"("after_args": [{"name": "x", "storage": "c0.s0.after", "dtype": "float32", "sizes": [400000])");
  EXPECT_EQ(status(c).code(), absl::StatusCode::kDataLoss);
  // Any byte of the file.
  std::ifstream in(Right().Write(), std::ios::binary);
  const std::string good(std::istreambuf_iterator<char>(in), {});
  uint64_t state = 88172645463325252u;
  for (int round = 0; round < 1000; ++round) {
    std::string bad = good;
    for (int k = 0; k < 2; ++k) {
      state ^= state << 13;
      state ^= state >> 7;
      state ^= state << 17;
      bad[state % bad.size()] = static_cast<char>(state >> 32);
    }
    const std::string path = ::testing::TempDir() + "/mutated.case.safetensors";
    std::ofstream(path, std::ios::binary) << bad;
    (void)RunCase(model, path, {});
  }
}

TEST(SafetensorsTest, WhatIsWrittenIsReadWithItsDtypes) {
  const std::string path = ::testing::TempDir() + "/t.safetensors";
  Tensor wide = VectorOf({1, 2, 3, 4, 5, 6});
  Tensor flags = Tensor::Empty(DType::kBool, {1, 0});
  ASSERT_TRUE(WriteSafetensors(path, {{"every second", wide.View({{3}, {2}, 0})}, {"none", flags}}).ok());
  auto file = SafetensorsFile::Read(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(FloatsOf((*file)->ReadTensor("every second").value()), (std::vector<float>{1, 3, 5}));
  EXPECT_EQ((*file)->ReadTensor("none").value().dtype(), DType::kBool);
  EXPECT_EQ((*file)->ReadTensor("nobody").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace smelt
