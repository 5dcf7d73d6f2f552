// Damages real archives in a thousand ways: each is read, or rejected with an error that gives the position. Also run
// under address and undefined-behaviour sanitizers. An archive that ends the process is left in the test's folder.
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "smelt/core/ir/text.h"
#include "smelt/frontend/pt2.h"
#include "smelt/frontend/pt2_testing.h"

namespace smelt {
namespace {

using Json = nlohmann::json;
using Random = std::mt19937_64;

size_t Below(Random& random, size_t n) { return n == 0 ? 0 : random() % n; }

// Small archives of every kind, so that a thousand are read quickly under sanitizers.
const char* const kModels[] = {
    "testdata/relu_input.pt2",
    "testdata/column_copy.pt2",
    "testdata/cond.pt2",
    "testdata/dynamic_batch.pt2",
    "testdata/shared_storage_buffers.pt2",
    "testdata/output_aliases.pt2",
    "testdata/rms_norm_bf16.pt2",
    "testdata/scenarios/decomposed_batch_norm_in_training.pt2",
    "testdata/scenarios/while_loop_carries_tensors.pt2",
    "testdata/scenarios/lists_and_dictionaries_of_inputs.pt2",
    "testdata/scenarios/none_and_numbers_among_the_inputs.pt2",
};

// The archive must give a valid graph whose text parses back, or an error whose code says who is at fault.
void Check(const absl::StatusOr<Pt2Model>& model, const std::string& what) {
  if (model.ok()) {
    const absl::Status sound = VerifyGraph(*model->graph);
    EXPECT_TRUE(sound.ok()) << what << ": " << sound;
    const std::string text = PrintGraph(*model->graph);
    auto again = ParseGraph(text);
    EXPECT_TRUE(again.ok()) << what << ": " << again.status() << "\n" << text;
    if (again.ok()) {
      EXPECT_EQ(PrintGraph(**again), text) << what;
    }
    return;
  }
  const absl::Status& s = model.status();
  EXPECT_TRUE(absl::IsInvalidArgument(s) || absl::IsUnimplemented(s) || absl::IsDataLoss(s) || absl::IsNotFound(s))
      << what << ": " << s;
  EXPECT_TRUE(absl::StrContains(s.message(), "archive.pt2")) << what << ": the error names no file: " << s;
  EXPECT_LT(s.message().size(), 20000) << what;
}

// Returns a value that is unexpected where it is put.
Json Surprise(Random& random, const Json& graph) {
  switch (Below(random, 20)) {
    case 0:
      return nullptr;
    case 1:
      return -1;
    case 2:
      return INT64_MAX;
    case 3:
      return INT64_MIN;
    case 4:
      return UINT64_MAX;
    case 5:
      return 1e308;
    case 6:
      return "";
    case 7:
      return "../../../../etc/passwd";
    case 8:
      return Json::array();
    case 9:
      return Json::object();
    case 10:
      return true;
    case 11:
      return std::string(5000, 'a');
    case 12:
      return Json{{"as_int", INT64_MAX}};
    case 13:
      return Json{{"as_tensor", {{"name", "x"}}}};
    case 14:
      return Json{{"as_expr", {{"expr_str", "Mul(Symbol('s77'), Integer(9223372036854775807))"}, {"hint", nullptr}}}};
    case 15: {
      Json deep = 1;
      for (int i = 0; i < 300; ++i) deep = Json{{"as_optional_tensor", deep}};
      return deep;
    }
    case 16:
      return Json{{"as_none", nullptr}};
    case 17:
      return "a b\nc%\"\\ \xc3\xa9)";
    case 18:
      return Json{{"as_graph", {{"name", "g"}, {"graph", graph}}}};
    default:
      return static_cast<int64_t>(Below(random, 20));
  }
}

// Collects all positions in a document, in order.
void Places(Json& json, std::vector<Json*>& out) {
  out.push_back(&json);
  if (json.is_structured()) {
    for (Json& e : json) Places(e, out);
  }
}

std::string MutateJson(const std::string& text, Random& random, std::string& what) {
  Json json = Json::parse(text);
  const Json::json_pointer graph_at("/graph_module/graph");
  const Json graph = json.contains(graph_at) ? json[graph_at] : Json();
  const int times = 1 + static_cast<int>(Below(random, 3));
  for (int t = 0; t < times; ++t) {
    std::vector<Json*> places;
    Places(json, places);
    Json& at = *places[Below(random, places.size())];
    const Json& other = *places[Below(random, places.size())];
    switch (Below(random, 6)) {
      case 0:
        if (at.is_object() && !at.empty()) {
          auto it = std::next(at.begin(), Below(random, at.size()));
          absl::StrAppend(&what, " erase ", it.key());
          at.erase(it);
        } else if (at.is_array() && !at.empty()) {
          absl::StrAppend(&what, " erase an element");
          at.erase(Below(random, at.size()));
        }
        break;
      case 1: {  // another part of the document
        Json copy = other;
        absl::StrAppend(&what, " replace ", at.dump().substr(0, 60), " by ", copy.dump().substr(0, 60));
        at = std::move(copy);
        break;
      }
      case 2:
        if (at.is_array() && !at.empty()) {
          absl::StrAppend(&what, " double an element");
          at.push_back(Json(at[Below(random, at.size())]));
        }
        break;
      case 3:
        if (at.is_object() && !at.empty()) {
          auto it = std::next(at.begin(), Below(random, at.size()));
          absl::StrAppend(&what, " rename ", it.key());
          Json value = *it;
          at.erase(it);
          at[Below(random, 2) == 0 ? "as_ints" : "as_tensors"] = std::move(value);
        }
        break;
      default: {
        Json value = Surprise(random, graph);
        absl::StrAppend(&what, " replace ", at.dump().substr(0, 60), " by ", value.dump().substr(0, 60));
        at = std::move(value);
      }
    }
  }
  return json.dump();
}

class Pt2HostileTest : public ::testing::TestWithParam<const char*> {};

TEST_P(Pt2HostileTest, FlippedBytesNeverCrash) {
  Random random(1);
  const std::string bytes = WriteTestZip(TestArchive::LoadPath(GetParam()).entries);
  for (int i = 0; i < 25; ++i) {
    std::string mutant = bytes;
    // Half of the changes are in the directory at the end, which holds sizes and positions.
    const size_t from = i % 2 == 0 ? 0 : mutant.rfind("PK\x01\x02") - std::min<size_t>(400, mutant.rfind("PK\x01\x02"));
    for (size_t k = 0; k <= Below(random, 4); ++k) {
      mutant[from + Below(random, mutant.size() - from)] = static_cast<char>(random());
    }
    Check(ReadPt2Bytes(mutant), absl::StrCat(GetParam(), ", flip ", i));
  }
}

TEST_P(Pt2HostileTest, TruncatedFilesNeverCrash) {
  Random random(2);
  const std::string bytes = WriteTestZip(TestArchive::LoadPath(GetParam()).entries);
  for (int i = 0; i < 10; ++i) {
    Check(ReadPt2Bytes(absl::string_view(bytes).substr(0, Below(random, bytes.size()))),
          absl::StrCat(GetParam(), ", truncated ", i));
  }
}

TEST_P(Pt2HostileTest, FlippedBytesOfJsonWithGoodChecksumsNeverCrash) {
  Random random(3);
  const TestArchive archive = TestArchive::LoadPath(GetParam());
  for (int i = 0; i < 15; ++i) {
    TestArchive mutant = archive;
    std::string& text = i % 4 == 0 ? mutant.Entry("weights_config.json").data : mutant.Program();
    for (size_t k = 0; k <= Below(random, 3); ++k) text[Below(random, text.size())] = static_cast<char>(random());
    Check(mutant.Read(), absl::StrCat(GetParam(), ", JSON flip ", i));
  }
}

TEST_P(Pt2HostileTest, WellFormedJsonThatSaysTheWrongThingNeverCrashes) {
  Random random(4);
  const TestArchive archive = TestArchive::LoadPath(GetParam());
  for (int i = 0; i < 60; ++i) {
    TestArchive mutant = archive;
    std::string what = absl::StrCat(GetParam(), ", JSON ", i, ":");
    std::string& text = i % 5 == 0 ? mutant.Entry("weights_config.json").data : mutant.Program();
    text = MutateJson(text, random, what);
    SCOPED_TRACE(what);
    Check(mutant.Read(), what);
  }
}

TEST_P(Pt2HostileTest, WrongEntriesAndHeadersThatLieNeverCrash) {
  Random random(5);
  const TestArchive archive = TestArchive::LoadPath(GetParam());
  for (int i = 0; i < 20; ++i) {
    TestArchive mutant = archive;
    TestZipEntry& e = mutant.entries[Below(random, mutant.entries.size())];
    const size_t kind = Below(random, 9);
    switch (kind) {
      case 0:
        e.declared_size = static_cast<uint32_t>(random());
        break;
      case 1:
        e.declared_size = e.declared_compressed_size = static_cast<uint32_t>(random());
        break;
      case 2:
        e.declared_crc = static_cast<uint32_t>(random());
        break;
      case 3:
        e.name = absl::StrCat("../", e.name);
        break;
      case 4:
        e.data.resize(e.data.size() / 2);
        break;
      case 5:
        e.same_place_as = 0;
        break;
      case 6:
        mutant.entries.push_back(e);
        break;
      case 7:
        e.deflate = true;
        e.data += std::string(16 << 20, '\0');
        break;
      default:
        mutant.entries.erase(mutant.entries.begin() + (&e - mutant.entries.data()));
    }
    Check(mutant.Read(), absl::StrCat(GetParam(), ", entries ", i, " kind ", kind));
  }
}

INSTANTIATE_TEST_SUITE_P(, Pt2HostileTest, ::testing::ValuesIn(kModels));

}  // namespace
}  // namespace smelt
