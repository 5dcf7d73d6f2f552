#include "smelt/tools/fuzz/hostile_files.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <random>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/check.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/ir/text.h"
#include "smelt/runtime/json_text.h"
#include "smelt/runtime/program.h"
#include "smelt/schema/bundle.h"
#include "smelt/schema/graph_decode.h"
#include "smelt/schema/graph_encode.h"
#include "smelt/tools/cc_header.h"
#include "smelt/tools/fuzz/bundle_bfbs_generated.h"
#include "smelt/tools/fuzz/flat_mutator.h"
#include "smelt/tools/fuzz/graph_bfbs_generated.h"
#include "smelt/tools/inspect_bundle.h"
#include "smelt/tools/inspect_html.h"
#include "smelt/tools/report.h"

namespace smelt {
namespace {

using Random = std::mt19937_64;

absl::Span<const uint8_t> Bytes(const std::string& s) {
  return absl::Span<const uint8_t>(reinterpret_cast<const uint8_t*>(s.data()), s.size());
}

// Replaces bytes, or words by odd ones, in [begin, end).
void Damage(Random& random, size_t begin, size_t end, std::string& bytes) {
  static constexpr int32_t kWords[] = {0, 1, -1, 2, 7, 255, 65536, INT32_MAX, INT32_MIN, 1 << 30};
  if (begin >= end) return;
  for (size_t k = random() % 4 + 1; k > 0; --k) {
    const size_t at = begin + random() % (end - begin);
    const size_t aligned = begin + (at - begin) / 4 * 4;
    if (random() % 2 == 0 || aligned + 4 > end) {
      bytes[at] = static_cast<char>(random());
    } else {
      std::memcpy(&bytes[aligned], &kWords[random() % std::size(kWords)], 4);
    }
  }
}

// The outcome of a reader that refuses the file, or fails in a way that it should not.
HostileFiles::Outcome Failed(const char* reader, const absl::Status& s) {
  if (HostileFiles::IsTheFilesFault(s)) return {.refusal = std::string(s.message())};
  return {.wrong = absl::StrCat(reader, ": ", s.ToString())};
}

HostileFiles::Outcome ReadBundle(const std::string& file) {
  HostileFiles::Outcome loaded;
  auto program = Program::LoadFromMemory(Bytes(file), {}, "mutant.smb");
  if (!program.ok()) loaded = Failed("loading", program.status());
  if (program.ok()) {
    auto instance = Instance::Create(*program);
    if (!instance.ok()) loaded = Failed("creating an instance", instance.status());
  }
  if (!loaded.wrong.empty()) return loaded;
  auto container = Container::FromMemory(Bytes(file), ContentKind::kBundle, "mutant.smb");
  if (!container.ok()) return Failed("opening", container.status());
  auto bundle = LoadBundle(**container);
  if (!bundle.ok()) {
    if (program.ok()) return {.wrong = absl::StrCat("was loaded, but: ", bundle.status().ToString())};
    return Failed("decoding", bundle.status());
  }
  auto description = DescribeBundle(**bundle, **container);
  if (!description.ok()) return Failed("inspecting", description.status());
  if (JsonText(*description).empty() || DescriptionText(*description).empty())
    return {.wrong = "the description is empty"};
  if ((*bundle)->methods.empty() && BundlePage(*description).empty()) return {.wrong = "the page is empty"};
  for (const auto& m : (*bundle)->methods) {
    if (BundlePage(DescriptionOfMethod(*description, m->method)).empty()) return {.wrong = "the page is empty"};
  }
  CcOptions options;
  options.cc_namespace = "a::b";
  options.header = "a/b.h";
  options.bundle_path = "a/b.smb";
  for (const bool embed : {false, true}) {
    options.embed = embed;
    const absl::Status made = MakeCc(**bundle, file, options).status();
    if (!made.ok() && !HostileFiles::IsTheFilesFault(made)) return Failed("smelt cc", made);
  }
  ReportModel model;
  model.name = (*bundle)->model_name;
  model.status = "bundle";
  model.kernels = KernelsOf(**bundle);
  if (RenderReport({.title = "bundles"}, {model, model}).empty()) return {.wrong = "the report is empty"};
  return loaded;
}

HostileFiles::Outcome ReadGraph(const std::string& file) {
  auto graph = DecodeGraphFile(Bytes(file), {.verify_weights = true});
  if (!graph.ok()) return Failed("decoding", graph.status());
  const std::string text = PrintGraph(**graph);
  JsonText(nlohmann::ordered_json{{"graph", text}});
  // For any graph with a wrong structure, the compiler reports it.
  const absl::Status verified = VerifyGraph(**graph);
  if (!verified.ok()) return {.refusal = std::string(verified.message())};
  auto encoded = EncodeGraphFile(**graph);
  if (!encoded.ok()) return Failed("encoding", encoded.status());
  auto again = DecodeGraphFile(Bytes(*encoded));
  if (!again.ok()) return {.wrong = absl::StrCat("reading what was written: ", again.status().ToString())};
  if (PrintGraph(**again) != text) return {.wrong = "another graph after it was written and read"};
  return {};
}

}  // namespace

HostileFiles::HostileFiles(Format format, const std::vector<std::string>& files)
    : format_(format),
      schema_(format == kBundles ? fb::BundleBinarySchema::data() : graph_fb::GraphFileBinarySchema::data()) {
  SMELT_CHECK(!files.empty());
  files_.reserve(files.size());
  for (const std::string& bytes : files) {
    File file{.bytes = bytes};
    auto container =
        Container::FromMemory(Bytes(bytes), format == kBundles ? ContentKind::kBundle : ContentKind::kGraph);
    SMELT_CHECK_OK(container.status());
    file.container = *std::move(container);
    const int metadata = file.container->Find(SegmentKind::kMetadata);
    SMELT_CHECK(metadata >= 0);
    file.tree = schema_.Read(file.container->bytes(metadata));
    files_.push_back(std::move(file));
  }
  for (const File& file : files_) donors_.push_back(&file.tree);
}

bool HostileFiles::IsTheFilesFault(const absl::Status& s) {
  return absl::IsDataLoss(s) || absl::IsInvalidArgument(s) || absl::IsOutOfRange(s) || absl::IsUnimplemented(s) ||
         absl::IsFailedPrecondition(s) || absl::IsResourceExhausted(s);
}

std::string HostileFiles::WithMetadata(const File& file, const std::string& metadata) const {
  ContainerWriter writer = ContainerWriter::InMemory(format_ == kBundles ? ContentKind::kBundle : ContentKind::kGraph);
  const int replaced = file.container->Find(SegmentKind::kMetadata);
  for (int i = 0; i < static_cast<int>(file.container->segments().size()); ++i) {
    const SegmentKind kind = file.container->segments()[i].kind;
    SMELT_CHECK_OK((i == replaced ? writer.Add(kind, metadata) : writer.Add(kind, file.container->bytes(i))).status());
  }
  auto bytes = writer.FinishToString();
  SMELT_CHECK_OK(bytes.status());
  return *std::move(bytes);
}

std::string HostileFiles::Mutant(uint64_t seed) const {
  Random random(seed);
  const File& file = files_[random() % files_.size()];
  const uint64_t what = random() % 100;
  if (what >= 96) {
    // The container itself.
    std::string bytes = file.bytes;
    if (what == 99) {
      bytes.resize(random() % bytes.size());
    } else if (what == 98) {
      Damage(random, 0, 96, bytes);
    } else {
      Damage(random, bytes.size() - std::min<size_t>(bytes.size(), 300), bytes.size(), bytes);
    }
    if (random() % 4 != 0) ResealContainer(bytes);
    return bytes;
  }
  FlatValue tree = file.tree;
  for (uint64_t changes = what >= 86 ? random() % 2 : 1 + random() % 4; changes > 0; --changes) {
    MutateTree(schema_, donors_, random, tree);
  }
  std::string metadata = schema_.Write(tree);
  if (what >= 86) Damage(random, 0, metadata.size(), metadata);
  return WithMetadata(file, metadata);
}

HostileFiles::Outcome HostileFiles::Read(const std::string& file) const {
  return format_ == kBundles ? ReadBundle(file) : ReadGraph(file);
}

}  // namespace smelt
