// Generates text with a small decoder that PyTorch exported as two methods. prefill takes the prompt and fills the
// caches of keys and values, which are buffers; decode extends them by a token. Both return the next token, drawn in
// the graph from the most likely ones (top-p). The weights are random, so the text is noise.
//
//   ./bazelw run //examples/llm
//   llm PREFILL.pt2 DECODE.pt2
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/frontend/pt2.h"
#include "smelt/pipeline/compile.h"
#include "smelt/runtime/program.h"

namespace smelt {
namespace {

using Clock = std::chrono::steady_clock;
using Tokens = std::vector<int64_t>;

// Gives the parameters random values, the same ones in each graph; norms and buffers stay as they are.
void FillWeights(Graph& graph) {
  for (const Weight& w : graph.weights) {
    if (w.kind != Weight::Kind::kParameter) continue;
    const std::shared_ptr<Storage> storage = Storage::Allocate(graph.weight_storages[w.storage]->bytes());
    std::seed_seq seed(w.name.begin(), w.name.end());
    std::mt19937 random(seed);
    const bool is_norm = absl::StrContains(w.name, "norm");
    std::normal_distribution<float> normal(0, 1 / std::sqrt(static_cast<float>(w.geometry.sizes.back())));
    float* data = reinterpret_cast<float*>(storage->data());
    for (int64_t i = 0; i < storage->bytes() / 4; ++i) data[i] = is_norm ? 1 : normal(random);
    graph.weight_storages[w.storage] = storage;
  }
}

absl::StatusOr<std::shared_ptr<const Program>> Compile(const char* prefill, const char* decode,
                                                       const std::string& bundle) {
  SMELT_ASSIGN_OR_RETURN(const Pt2Model p, ReadPt2(prefill));
  SMELT_ASSIGN_OR_RETURN(const Pt2Model d, ReadPt2(decode));
  FillWeights(*p.graph);
  FillWeights(*d.graph);
  const std::vector<Method> methods = {{"prefill", p.graph.get(), p.structure}, {"decode", d.graph.get(), d.structure}};
  SMELT_RETURN_IF_ERROR(CompileMethodsToFile(methods, bundle, {.targets = {kHostTarget}}).status());
  return Program::Load(bundle);
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
  absl::StatusOr<int64_t> Prefill(const Tokens& prompt) {
    length_ = static_cast<int64_t>(prompt.size());
    return Next(*prefill_, {Row(prompt), top_p_});
  }
  absl::StatusOr<int64_t> Decode(int64_t token) {
    *position_.data_as<int64_t>() = length_++;
    return Next(*decode_, {Row({token}), position_, top_p_});
  }

 private:
  static absl::StatusOr<int64_t> Next(Instance& method, const std::vector<Datum>& args) {
    SMELT_ASSIGN_OR_RETURN(const std::vector<Datum> results, method.Run(args));
    return *results[0].tensor().data_as<int64_t>();
  }
  std::unique_ptr<Instance> instance_;
  Instance *prefill_ = nullptr, *decode_ = nullptr;
  int64_t length_ = 0;  // of the caches
  Tensor position_ = Tensor::Empty(DType::kInt64, {1}), top_p_ = Tensor::Empty(DType::kFloat32, {});
};

// The prompt, and as many tokens as fit into the caches.
absl::StatusOr<Tokens> Generate(Model& model, const Tokens& prompt, size_t length, double* seconds) {
  Tokens all = prompt;
  SMELT_ASSIGN_OR_RETURN(int64_t token, model.Prefill(prompt));
  const Clock::time_point begin = Clock::now();
  for (all.push_back(token); all.size() < length; all.push_back(token)) {
    SMELT_ASSIGN_OR_RETURN(token, model.Decode(token));
  }
  *seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return all;
}

absl::StatusOr<bool> Run(const char* prefill, const char* decode, const std::string& bundle) {
  SMELT_ASSIGN_OR_RETURN(const auto program, Compile(prefill, decode, bundle));
  int64_t bytes = 0;
  for (const StateInfo& s : program->states()) {
    if (s.kind == StateInfo::Kind::kParameter) bytes += s.geometry.NumElements() * ItemSize(s.dtype);
  }
  const Tokens prompt = {11, 7, 301, 42, 5};
  const size_t length = 64, num_decoded = length - prompt.size() - 1;
  double seconds = 0;
  SMELT_ASSIGN_OR_RETURN(Model sampled, Model::Create(program, 0.9f));
  SMELT_RETURN_IF_ERROR(Generate(sampled, prompt, length, &seconds).status());  // warms up
  SMELT_ASSIGN_OR_RETURN(const Tokens text, Generate(sampled, prompt, length, &seconds));
  std::printf("top-p 0.9: %s\n", absl::StrJoin(text, " ").c_str());
  std::printf("%.0f tokens per second; %.2f MB of weights are read per token\n",
              static_cast<double>(num_decoded) / seconds, static_cast<double>(bytes) / 1e6);
  // Only the most likely token: what decode says after a prefix is what prefill says of that prefix.
  SMELT_ASSIGN_OR_RETURN(Model greedy, Model::Create(program, 1e-6f));
  SMELT_ASSIGN_OR_RETURN(const Tokens best, Generate(greedy, prompt, length, &seconds));
  for (size_t n = prompt.size(); n < best.size(); ++n) {
    SMELT_ASSIGN_OR_RETURN(const int64_t next, greedy.Prefill(Tokens(best.begin(), best.begin() + n)));
    if (next == best[n]) continue;
    std::printf("after %zu tokens prefill says %d, decode said %d\n", n, static_cast<int>(next),
                static_cast<int>(best[n]));
    return false;
  }
  std::printf("prefill agrees with decode after each of %zu tokens\n", best.size() - prompt.size());
  return true;
}

}  // namespace
}  // namespace smelt

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: llm PREFILL.pt2 DECODE.pt2\n"), 2;
  const char* scratch = std::getenv("TEST_TMPDIR");
  const std::string bundle =
      std::string(scratch != nullptr ? scratch : "/tmp") + "/llm_" + std::to_string(getpid()) + ".smb";
  const absl::StatusOr<bool> agree = smelt::Run(argv[1], argv[2], bundle);
  std::filesystem::remove(bundle);
  if (!agree.ok()) std::fprintf(stderr, "llm: %s\n", std::string(agree.status().message()).c_str());
  return agree.ok() && *agree ? 0 : 1;
}
