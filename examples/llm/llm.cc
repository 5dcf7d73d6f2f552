// Generates text with a small decoder that PyTorch exported as two methods. prefill takes the prompt and fills the
// caches of keys and values, which are buffers; decode extends them by a token. Both return the next token, drawn in
// the graph from the most likely ones (top-p). The matrices have 4 bits per weight; they are random, so the text is noise.
//
//   ./bazelw run //examples/llm
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/frontend/pt2.h"
#include "smelt/pipeline/compile.h"
#include "smelt/runtime/program.h"

namespace smelt {
namespace {

using Clock = std::chrono::steady_clock;
using Tokens = std::vector<int64_t>;

// Gives the parameters random values, the same ones in each graph; norms and buffers stay as they are. A matrix of 4 bits
// is bytes of two elements, 0 to 15 less 8, and pairs of a scale and an addend for each group of 32.
void FillWeights(Graph& graph) {
  for (const Weight& w : graph.weights) {
    if (w.kind != Weight::Kind::kParameter) continue;
    const std::shared_ptr<Storage> storage = Storage::Allocate(graph.weight_storages[w.storage]->bytes());
    std::seed_seq seed(w.name.begin(), w.name.end());
    std::mt19937 random(seed);
    const bool is_norm = absl::StrContains(w.name, "norm"), is_scale = absl::StrContains(w.name, "scales");
    const int64_t depth = is_scale ? 32 * w.geometry.sizes[0] : w.geometry.sizes.back();
    std::normal_distribution<float> normal(0, 1 / std::sqrt(static_cast<float>(depth)));
    for (int64_t i = 0; i < storage->bytes() / 4; ++i) {
      const float v = is_norm ? 1 : !is_scale ? normal(random) : normal.stddev() * (i % 2 == 0 ? .22f : .11f);
      const uint32_t bits = static_cast<uint32_t>(random());
      std::memcpy(static_cast<char*>(storage->data()) + 4 * i,
                  w.dtype == DType::kUInt8 ? static_cast<const void*>(&bits) : &v, 4);
    }
    graph.weight_storages[w.storage] = storage;
  }
}

// Returns the bytes per second that one thread reads from memory.
double Bandwidth() {
  const std::vector<uint64_t> memory(size_t{32} << 20, 1);
  const Clock::time_point begin = Clock::now();
  const volatile uint64_t sum = std::accumulate(memory.begin(), memory.end(), uint64_t{0});
  return static_cast<double>(sum * 8) / std::chrono::duration<double>(Clock::now() - begin).count();
}

Tensor Row(const Tokens& tokens) {
  Tensor t = Tensor::Empty(DType::kInt64, {1, static_cast<int64_t>(tokens.size())});
  std::copy(tokens.begin(), tokens.end(), t.data_as<int64_t>());
  return t;
}

class Model {
 public:
  static absl::StatusOr<Model> Create(const std::shared_ptr<const Program>& program, float top_p) {
    Model m;
    SMELT_ASSIGN_OR_RETURN(m.instance_, Instance::Create(program, {.seed = 7}));
    SMELT_ASSIGN_OR_RETURN(m.prefill_, m.instance_->Method("prefill"));
    SMELT_ASSIGN_OR_RETURN(m.decode_, m.instance_->Method("decode"));
    *m.top_p_.data_as<float>() = top_p;
    return m;
  }
  absl::StatusOr<int64_t> Prefill(const Tokens& prompt) { return Next(*prefill_, {Row(prompt), top_p_}); }
  absl::StatusOr<int64_t> Decode(int64_t token, size_t position) {
    *position_.data_as<int64_t>() = static_cast<int64_t>(position);
    return Next(*decode_, {Row({token}), position_, top_p_});
  }

 private:
  static absl::StatusOr<int64_t> Next(Instance& method, const std::vector<Datum>& args) {
    SMELT_ASSIGN_OR_RETURN(const std::vector<Datum> results, method.Run(args));
    return *results[0].tensor().data_as<int64_t>();
  }
  std::unique_ptr<Instance> instance_;
  Instance *prefill_ = nullptr, *decode_ = nullptr;
  Tensor position_ = Tensor::Empty(DType::kInt64, {1}), top_p_ = Tensor::Empty(DType::kFloat32, {});
};

// The prompt, and as many tokens as fit into the caches.
absl::StatusOr<Tokens> Generate(Model& model, const Tokens& prompt, size_t length, double* seconds) {
  Tokens all = prompt;
  SMELT_ASSIGN_OR_RETURN(int64_t token, model.Prefill(prompt));
  const Clock::time_point begin = Clock::now();
  for (all.push_back(token); all.size() < length; all.push_back(token)) {
    SMELT_ASSIGN_OR_RETURN(token, model.Decode(token, all.size() - 1));
  }
  *seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return all;
}

absl::StatusOr<bool> Run(const char* prefill, const char* decode, const std::string& bundle) {
  SMELT_ASSIGN_OR_RETURN(const Pt2Model p, ReadPt2(prefill));
  SMELT_ASSIGN_OR_RETURN(const Pt2Model d, ReadPt2(decode));
  for (const Pt2Model* model : {&p, &d}) FillWeights(*model->graph);
  const std::vector<Method> methods = {{"prefill", p.graph.get(), p.structure}, {"decode", d.graph.get(), d.structure}};
  SMELT_RETURN_IF_ERROR(CompileMethodsToFile(methods, bundle, {.targets = {kHostTarget}}).status());
  SMELT_ASSIGN_OR_RETURN(const std::shared_ptr<const Program> program, Program::Load(bundle));
  int64_t bytes = 0;
  for (const StateInfo& s : program->states())
    bytes += s.kind == StateInfo::Kind::kParameter ? s.geometry.NumElements() * ItemSize(s.dtype) : 0;
  const Tokens prompt = {11, 7, 301, 42, 5};
  const size_t length = 64;
  double seconds = 0;
  SMELT_ASSIGN_OR_RETURN(Model sampled, Model::Create(program, 0.9f));
  SMELT_RETURN_IF_ERROR(Generate(sampled, prompt, length, &seconds).status());  // warms up
  SMELT_ASSIGN_OR_RETURN(const Tokens text, Generate(sampled, prompt, length, &seconds));
  std::printf("top-p 0.9: %s\n", absl::StrJoin(text, " ").c_str());
  const double rate = static_cast<double>(length - prompt.size() - 1) / seconds,
               megabytes = static_cast<double>(bytes) / 1e6;
  std::printf("%.0f tokens per second; each reads %.2f MB of weights: %.2f GB/s, and memory gives %.1f GB/s\n", rate,
              megabytes, rate * megabytes / 1e3, Bandwidth() / 1e9);
  // Only the most likely token: what decode says after a prefix is what prefill says of that prefix.
  SMELT_ASSIGN_OR_RETURN(Model greedy, Model::Create(program, 1e-6f));
  SMELT_ASSIGN_OR_RETURN(const Tokens best, Generate(greedy, prompt, length, &seconds));
  for (size_t n = prompt.size(); n < best.size(); ++n) {
    SMELT_ASSIGN_OR_RETURN(const int64_t next, greedy.Prefill(Tokens(best.begin(), best.begin() + n)));
    if (next != best[n]) return std::printf("after %zu tokens prefill and decode differ\n", n), false;
  }
  std::printf("prefill agrees with decode after each of %zu tokens\n", best.size() - prompt.size());
  return true;
}

}  // namespace
}  // namespace smelt

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: llm PREFILL.pt2 DECODE.pt2\n"), 2;
  const std::string bundle = absl::StrCat(std::filesystem::temp_directory_path().string(), "/llm_", getpid(), ".smb");
  const absl::StatusOr<bool> agree = smelt::Run(argv[1], argv[2], bundle);
  std::filesystem::remove(bundle);
  if (!agree.ok()) std::fprintf(stderr, "llm: %s\n", std::string(agree.status().message()).c_str());
  return agree.ok() && *agree ? 0 : 1;
}
