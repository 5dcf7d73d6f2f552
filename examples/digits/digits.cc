// Takes a trained network from PyTorch's file to predictions: compiles digits.pt2, runs it on images that are not in
// its training data, and compares with PyTorch's predictions.
//
//   ./bazelw run //examples/digits
//   digits MODEL.pt2 IMAGES.safetensors
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "smelt/codegen/kernel_cache.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/frontend/pt2.h"
#include "smelt/pipeline/compile.h"
#include "smelt/runtime/program.h"
#include "smelt/runtime/safetensors.h"

namespace smelt {
namespace {

double Milliseconds(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - since).count();
}

// Prints a line of the report: the step, its time, its outcome.
void Line(const std::string& what, double ms, const std::string& outcome) {
  std::printf("  %-14s %9.2f ms   %s\n", what.c_str(), ms, outcome.c_str());
  std::fflush(stdout);
}

// Removed with its contents.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "smelt-digits-XXXXXX").string();
    if (mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct Counts {
  int64_t nodes = 0, writes = 0, groups = 0;
};

Counts Count(const Graph& g) {
  Counts c;
  for (NodeId n : g.AllNodes()) {
    const std::string& op = g.node(n).op.name();
    if (op == "prim::Constant") continue;
    ++c.nodes;
    c.groups += op == "smelt::FusionGroup";
    // PyTorch's in-place operators end in an underscore.
    c.writes += op.size() > 1 && op.back() == '_' && op[op.size() - 2] != '_';
  }
  return c;
}

// Compiles and reports each stage. Writes the bundle to `out`.
absl::Status Compile(const std::string& model_path, const std::string& out) {
  std::printf("compile %s\n", model_path.c_str());
  auto start = std::chrono::steady_clock::now();
  SMELT_ASSIGN_OR_RETURN(Pt2Model model, ReadPt2(model_path));
  const Graph& g = *model.graph;
  int64_t weight_bytes = 0;
  for (const auto& s : g.weight_storages) weight_bytes += s->bytes();
  const Counts imported = Count(g);
  Line("import", Milliseconds(start),
       absl::StrFormat("%d nodes, %d of them write in place; %d weights, %d bytes; PyTorch %s", imported.nodes,
                       imported.writes, g.weights.size(), weight_bytes, model.torch_version));

  SMELT_ASSIGN_OR_RETURN(std::unique_ptr<KernelCache> cache, KernelCache::Create({.mode = CacheMode::kOff}));
  CompileOptions options;
  options.cache = cache.get();
  Counts now;
  options.on_pass = [&](absl::string_view, const Graph& after) { now = Count(after); };
  options.on_phase = [&](absl::string_view phase, double ms) {
    std::string outcome;
    if (phase == "open") outcome = absl::StrFormat("%d nodes: what hides a view or a write is spelled out", now.nodes);
    if (phase == "functionalize")
      outcome = absl::StrFormat("%d nodes, %d of them write in place", now.nodes, now.writes);
    if (phase == "fuse") outcome = absl::StrFormat("%d groups of operators", now.groups);
    if (phase == "plan") outcome = "memory and steps";
    if (phase == "variants") outcome = "plans for arguments that share memory";
    if (phase == "kernels") {
      const KernelCache::Stats s = cache->stats();
      outcome =
          absl::StrFormat("%d compiled, %d reused, for %d targets", s.compiled, s.memory_hits, options.targets.size());
    }
    if (phase == "write") outcome = absl::StrFormat("%d bytes", std::filesystem::file_size(out));
    Line(std::string(phase), ms, outcome);
  };
  start = std::chrono::steady_clock::now();
  SMELT_ASSIGN_OR_RETURN(CompileStats stats, CompileToFile(g, out, options));
  const double first = Milliseconds(start);
  Line("in all", first,
       absl::StrFormat("%d nodes -> %d launches of %d kernels, %d library calls; %d mutations removed", stats.nodes,
                       stats.fusion_groups, stats.distinct_kernels, stats.library_calls, stats.mutations_removed));

  // Compiles again: the kernels are found in the cache by what they compute, so none is compiled twice.
  options.on_pass = nullptr;
  options.on_phase = nullptr;
  start = std::chrono::steady_clock::now();
  SMELT_ASSIGN_OR_RETURN(stats, CompileToFile(g, out, options));
  Line("once more", Milliseconds(start),
       absl::StrFormat("%d kernels compiled, %d reused", stats.kernels_compiled, stats.kernels_from_cache));
  return absl::OkStatus();
}

// Prints images side by side, one character per pixel and two columns each.
void Show(const Tensor& images, const std::vector<int>& which, const std::vector<int>& predicted,
          const int64_t* labels) {
  static constexpr char kShades[] = " .:-=+*#%@";
  const int height = static_cast<int>(images.sizes()[2]), width = static_cast<int>(images.sizes()[3]);
  for (int row = 0; row < height; ++row) {
    std::string line = " ";
    for (int i : which) {
      line += " ";
      for (int column = 0; column < width; ++column) {
        const float v = images.data_as<float>()[(i * height + row) * width + column];
        const char shade = kShades[std::clamp(static_cast<int>(v * 9.99f), 0, 9)];
        line += {shade, shade};
      }
      line += " ";
    }
    std::printf("%s\n", line.c_str());
  }
  std::string line = " ";
  for (int i : which) {
    const std::string text = predicted[i] == labels[i] ? absl::StrCat("predicted ", predicted[i])
                                                       : absl::StrCat("predicted ", predicted[i], ", is ", labels[i]);
    line += absl::StrFormat(" %-*s", 2 * width + 1, text);
  }
  std::printf("%s\n\n", line.c_str());
}

// Returns whether all predictions equal PyTorch's.
absl::StatusOr<bool> RunImages(const std::string& bundle, const std::string& images_path) {
  auto start = std::chrono::steady_clock::now();
  SMELT_ASSIGN_OR_RETURN(std::shared_ptr<const Program> program, Program::Load(bundle));
  SMELT_ASSIGN_OR_RETURN(std::unique_ptr<Instance> instance, Instance::Create(program));
  std::printf("run\n");
  Line("load", Milliseconds(start), absl::StrCat("kernels for ", program->target()));

  SMELT_ASSIGN_OR_RETURN(auto file, SafetensorsFile::Read(images_path));
  SMELT_ASSIGN_OR_RETURN(Tensor images, file->ReadTensor("images"));
  SMELT_ASSIGN_OR_RETURN(Tensor labels, file->ReadTensor("labels"));
  SMELT_ASSIGN_OR_RETURN(Tensor pytorch_logits, file->ReadTensor("logits"));
  SMELT_ASSIGN_OR_RETURN(Tensor pytorch, file->ReadTensor("predictions"));
  const int count = static_cast<int>(images.sizes()[0]);

  start = std::chrono::steady_clock::now();
  SMELT_ASSIGN_OR_RETURN(std::vector<Datum> outputs, instance->Run({images}));
  const double first = Milliseconds(start);
  double best = first;
  for (int i = 0; i < 50; ++i) {
    start = std::chrono::steady_clock::now();
    SMELT_RETURN_IF_ERROR(instance->RunInto({images}, &outputs));
    best = std::min(best, Milliseconds(start));
  }
  if (outputs.size() != 1 || !outputs[0].IsTensor() || outputs[0].tensor().NumElements() != count * 10) {
    return absl::InternalError("the model did not return 10 logits an image");
  }
  const CallStats& call = instance->last_call();
  Line("first call", first, absl::StrFormat("%d images", count));
  Line("next calls", best,
       absl::StrFormat("best of 50; %d launches, %d library calls, arena of %d bytes", call.kernel_launches,
                       call.library_calls, call.arena_bytes));

  // The caller may ask for any layout; here the rows of 10 are dense.
  const Tensor logits = outputs[0].tensor().Clone();
  std::vector<int> predicted;
  int right = 0, equal = 0;
  float difference = 0;
  for (int i = 0; i < count; ++i) {
    const float* row = logits.data_as<float>() + 10 * i;
    predicted.push_back(static_cast<int>(std::max_element(row, row + 10) - row));
    right += predicted[i] == labels.data_as<int64_t>()[i];
    equal += predicted[i] == pytorch.data_as<int64_t>()[i];
    for (int k = 0; k < 10; ++k)
      difference = std::max(difference, std::fabs(row[k] - pytorch_logits.data_as<float>()[10 * i + k]));
  }
  std::printf("\n");
  std::vector<int> shown = {0, 1, 2, 3, 4};
  Show(images, shown, predicted, labels.data_as<int64_t>());
  std::vector<int> wrong;
  for (int i = 0; i < count && wrong.size() < 5; ++i) {
    if (predicted[i] != labels.data_as<int64_t>()[i]) wrong.push_back(i);
  }
  if (!wrong.empty()) {
    std::printf("  what it gets wrong:\n");
    Show(images, wrong, predicted, labels.data_as<int64_t>());
  }
  std::printf("accuracy: %d of %d (%.1f %%)\n", right, count, 100.0 * right / count);
  std::printf("predictions equal to PyTorch's: %d of %d; logits differ by at most %.2g\n", equal, count, difference);
  return equal == count;
}

int Main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s MODEL.pt2 IMAGES.safetensors\n", argv[0]);
    return 2;
  }
  TemporaryFolder folder;
  if (folder.path().empty()) {
    std::fprintf(stderr, "digits: no temporary folder can be made\n");
    return 6;
  }
  const std::string bundle = folder.path() + "/digits.smb";
  absl::Status compiled = Compile(argv[1], bundle);
  if (!compiled.ok()) {
    std::fprintf(stderr, "digits: %s\n", std::string(compiled.message()).c_str());
    return 1;
  }
  auto equal = RunImages(bundle, argv[2]);
  if (!equal.ok()) {
    std::fprintf(stderr, "digits: %s\n", std::string(equal.status().message()).c_str());
    return 1;
  }
  if (!*equal) {
    std::fprintf(stderr, "digits: not all predictions are PyTorch's\n");
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace smelt

int main(int argc, char** argv) { return smelt::Main(argc, argv); }
