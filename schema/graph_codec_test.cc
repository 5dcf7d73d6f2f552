#include <cstdlib>
#include <cstring>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/core/ir/text.h"
#include "smelt/core/ir/text_samples.h"
#include "smelt/schema/container.h"
#include "smelt/schema/graph_decode.h"
#include "smelt/schema/graph_encode.h"
#include "smelt/schema/graph_generated.h"

namespace smelt {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<Graph> ParseOrDie(absl::string_view text) {
  absl::StatusOr<std::unique_ptr<Graph>> g = ParseGraph(text);
  EXPECT_TRUE(g.ok()) << g.status();
  return g.ok() ? *std::move(g) : std::make_unique<Graph>();
}
absl::Span<const uint8_t> Bytes(const std::string& s) { return {reinterpret_cast<const uint8_t*>(s.data()), s.size()}; }

std::string EncodeOrDie(const Graph& g) {
  absl::StatusOr<std::string> bytes = EncodeGraph(g);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  return bytes.ok() ? *bytes : "";
}

TEST(GraphCodecTest, EveryKindOfGraphComesBackAsItWas) {
  for (const char* text : {kScripted, kInlined, kTraced, kPropagated, kFrozen, kForms, kExtended}) {
    std::unique_ptr<Graph> g = ParseOrDie(text);
    absl::StatusOr<std::unique_ptr<Graph>> again = DecodeGraph(Bytes(EncodeOrDie(*g)));
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(PrintGraph(**again), PrintGraph(*g));
    EXPECT_EQ(VerifyGraph(**again), absl::OkStatus());
  }
}

TEST(GraphCodecTest, ThatInputsAreWrittenAtTheEndComesBack) {
  std::unique_ptr<Graph> g = ParseOrDie(kExtended);
  for (const bool at_the_end : {false, true}) {
    g->written_at_the_end = at_the_end;
    absl::StatusOr<std::unique_ptr<Graph>> again = DecodeGraph(Bytes(EncodeOrDie(*g)));
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ((*again)->written_at_the_end, at_the_end);
  }
}

TEST(GraphCodecTest, EqualGraphsGiveEqualBytes) {
  EXPECT_EQ(EncodeOrDie(*ParseOrDie(kExtended)), EncodeOrDie(*ParseOrDie(kExtended)));
}

TEST(GraphCodecTest, AMillionNodesAreEncodedAndDecoded) {
  Graph g;
  const Type type = Type::Tensor(DType::kFloat32, {4});
  ValueId x = g.AddInput("x", type);
  for (int i = 0; i < 1000000; ++i) x = g.node(g.Append(g.top(), OpName::Get("aten::relu"), {x}, {type})).outputs[0];
  g.AddOutput(x);
  std::string bytes = EncodeOrDie(g);
  EXPECT_LT(bytes.size(), 80u << 20);
  absl::StatusOr<std::unique_ptr<Graph>> again = DecodeGraph(Bytes(bytes));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ((*again)->num_nodes(), 1000000);
}

// A graph with two weights in one storage of 64 consecutive floats.
std::unique_ptr<Graph> WithWeights() {
  auto g = std::make_unique<Graph>();
  for (int s = 0; s < 2; ++s) {
    auto storage = Storage::Allocate(64 * 4);
    for (int i = 0; i < 64; ++i) reinterpret_cast<float*>(storage->data())[i] = static_cast<float>(i + 100 * s);
    g->weight_storages.push_back(storage);
  }
  g->weight_storages.push_back(Storage::Borrow(nullptr, 12));  // contents not here
  g->weights.push_back({"w", Weight::Kind::kParameter, 1, DType::kFloat32, Geometry::Contiguous({8, 8})});
  g->weights.push_back({"view", Weight::Kind::kBuffer, 1, DType::kFloat32, {{4}, {2}, 3}});
  g->AddInput("w", Type::Tensor(DType::kFloat32, {8, 8}), {InputInfo::Kind::kWeight, 0});
  return g;
}

TEST(GraphFileTest, WeightsComeBackWithTheirContents) {
  std::string path = absl::StrCat(std::getenv("TEST_TMPDIR"), "/g.smg");
  ASSERT_EQ(WriteGraphFile(*WithWeights(), path), absl::OkStatus());
  absl::StatusOr<std::unique_ptr<Graph>> g = ReadGraphFile(path, {.verify_weights = true});
  ASSERT_TRUE(g.ok()) << g.status();
  EXPECT_EQ(PrintGraph(**g), PrintGraph(*WithWeights()));
  const float* data = reinterpret_cast<const float*>((*g)->weight_storages[1]->data());
  for (int i = 0; i < 64; ++i) ASSERT_EQ(data[i], static_cast<float>(i + 100));
  EXPECT_EQ((*g)->weight_storages[2]->data(), nullptr);
  EXPECT_EQ((*g)->weight_storages[2]->bytes(), 12);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 64, 0u);
  // The mapping is private: a write does not reach the file.
  reinterpret_cast<float*>((*g)->weight_storages[1]->data())[0] = -1;
  absl::StatusOr<std::unique_ptr<Graph>> fresh = ReadGraphFile(path);
  ASSERT_TRUE(fresh.ok());
  EXPECT_EQ(reinterpret_cast<const float*>((*fresh)->weight_storages[1]->data())[0], 100.0f);
}

TEST(GraphFileTest, ADamagedWeightIsFoundWhereItIsAskedFor) {
  absl::StatusOr<std::string> bytes = EncodeGraphFile(*WithWeights());
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  float needle = 163.0f;  // the last float of the weights
  size_t at = bytes->rfind(std::string(reinterpret_cast<const char*>(&needle), 4));
  ASSERT_NE(at, std::string::npos);
  (*bytes)[at] ^= 1;
  EXPECT_TRUE(DecodeGraphFile(Bytes(*bytes)).ok());
  EXPECT_EQ(DecodeGraphFile(Bytes(*bytes), {.verify_weights = true}).status().code(), absl::StatusCode::kDataLoss);
}

TEST(GraphFileTest, AMissingFileAndOtherContentAreErrorsThatNameThePath) {
  EXPECT_THAT(std::string(ReadGraphFile("/no/such.smg").status().message()), HasSubstr("/no/such.smg"));
  ContainerWriter writer = ContainerWriter::InMemory(ContentKind::kBundle);
  ASSERT_TRUE(writer.Add(SegmentKind::kMetadata, "x").ok());
  EXPECT_FALSE(DecodeGraphFile(Bytes(*writer.FinishToString())).ok());
}

TEST(GraphCodecTest, TruncatedBytesAreAnError) {
  std::string bytes = EncodeOrDie(*ParseOrDie(kExtended));
  for (size_t size = 0; size < bytes.size(); ++size) {
    std::string cut = bytes.substr(0, size);
    EXPECT_FALSE(DecodeGraph(Bytes(cut)).ok()) << size;
  }
}

TEST(GraphCodecTest, MutatedBytesNeverCrashAndWhatDecodesIsSound) {
  std::mt19937 random(3);
  int decoded = 0;
  for (const char* text : {kExtended, kForms, kScripted, kFrozen}) {
    const std::string seed = EncodeOrDie(*ParseOrDie(text));
    for (int i = 0; i < 3000; ++i) {
      std::string bytes = seed;
      for (int edits = 1 + random() % 3; edits > 0; --edits) {
        size_t at = random() % bytes.size();
        switch (random() % 4) {
          case 0:
            bytes[at] = static_cast<char>(random());
            break;
          case 1:
            bytes[at] = static_cast<char>(bytes[at] + (random() % 2 ? 1 : -1));
            break;
          case 2:
            bytes[at] ^= static_cast<char>(1 << (random() % 8));
            break;
          case 3: {
            uint32_t value = random() % 4 == 0 ? 0xffffffffu : random() % 64;
            std::memcpy(&bytes[at & ~size_t{3}], &value, std::min<size_t>(4, bytes.size() - (at & ~size_t{3})));
          }
        }
      }
      absl::StatusOr<std::unique_ptr<Graph>> g = DecodeGraph(Bytes(bytes));
      if (!g.ok()) continue;
      ++decoded;
      ASSERT_EQ(VerifyGraph(**g), absl::OkStatus());
      std::string printed = PrintGraph(**g);
      // The decoded graph encodes to a file that decodes to the same graph.
      absl::StatusOr<std::unique_ptr<Graph>> again = DecodeGraph(Bytes(EncodeOrDie(**g)));
      ASSERT_TRUE(again.ok()) << again.status();
      ASSERT_EQ(PrintGraph(**again), printed);
    }
  }
  EXPECT_GT(decoded, 100);
}

TEST(GraphCodecTest, ALongStringThatManyPlacesNameIsRefused) {
  // 3 MB that would be parsed for hours, and decoded to as many GB.
  flatbuffers::FlatBufferBuilder f;
  std::string name(1 << 20, 'x');
  const auto type = f.CreateString("__torch__." + name);
  const auto types = f.CreateVector(std::vector<flatbuffers::Offset<flatbuffers::String>>(500'000, type));
  graph_fb::GraphFileBuilder file(f);
  file.add_format(1);
  file.add_types(types);
  graph_fb::FinishGraphFileBuffer(f, file.Finish());
  const auto decoded = DecodeGraph(absl::Span<const uint8_t>(f.GetBufferPointer(), f.GetSize()));
  EXPECT_EQ(decoded.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(decoded.status().message(), HasSubstr("the same bytes over and over"));
}

TEST(GraphCodecTest, ATypeThatIsWrittenOutForMillionsOfValuesIsRefused) {
  // 20 MB whose text would have 200 GB.
  Graph g;
  const Type type = Type::Class("__torch__." + std::string(1 << 20, 'x'));
  for (int i = 0; i < 200'000; ++i) g.AddInput(absl::StrCat("v", i), type);
  const auto decoded = DecodeGraph(Bytes(EncodeOrDie(g)));
  EXPECT_EQ(decoded.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(decoded.status().message(), HasSubstr("out of proportion to the file"));
}

// Graphs in the nodes of blocks of graphs: each level has `blocks` nested blocks and a graph in the innermost.
std::unique_ptr<Graph> Nested(int graphs, int blocks) {
  auto g = std::make_unique<Graph>();
  BlockId block = g->top();
  for (int i = 0; i < blocks; ++i) {
    const NodeId node = g->Append(block, OpName::Get("prim::If"), {}, {}, {});
    block = g->AddBlock(node);
  }
  if (graphs > 1) {
    Graph::Attributes attributes;
    attributes.emplace_back("body", Attribute(std::shared_ptr<Graph>(Nested(graphs - 1, blocks))));
    g->Append(block, OpName::Get("smelt::test"), {}, {}, std::move(attributes));
  }
  return g;
}

TEST(GraphCodecTest, BlocksAndGraphsInEachOtherCountTogether) {
  EXPECT_TRUE(DecodeGraph(Bytes(EncodeOrDie(*Nested(10, 15)))).ok());
  const auto decoded = DecodeGraph(Bytes(EncodeOrDie(*Nested(20, 15))));
  EXPECT_THAT(decoded.status().message(), HasSubstr("nested deeper than 200"));
}

}  // namespace
}  // namespace smelt
