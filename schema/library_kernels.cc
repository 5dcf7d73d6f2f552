#include "smelt/schema/library_kernels.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "smelt/schema/library_words.h"

namespace smelt {
namespace {

struct Base {
  const char* name;
  int words;
  int types;
  bool (*takes)(absl::Span<const DType> types);
};

// Numbers that kernels compute with.
bool IsReal(DType t) { return !IsComplex(t) && !IsFloat8(t); }

// Real numbers that are multiplied and added, with the dtypes of their sums.
bool Multiplies(absl::Span<const DType> t) {
  if (!IsReal(t[0]) || t[0] == DType::kBool) return false;
  return t[0] == t[1] || (IsHalf(t[0]) && t[1] == DType::kFloat32) || (t[0] == DType::kInt8 && t[1] == DType::kInt32);
}
bool MultipliesFloats(absl::Span<const DType> t) {
  return IsFloating(t[0]) && t[0] != DType::kFloat64 && Multiplies(t);
}
bool IsReal(absl::Span<const DType> t) { return IsReal(t[0]); }
bool IsAny(absl::Span<const DType>) { return true; }
bool IsInteger(absl::Span<const DType> t) { return IsIntegral(t[0]) && t[0] != DType::kBool; }
bool IsSize(absl::Span<const DType> t) { return t[0] == ElementOfSize(t[0]); }

bool IsSearched(absl::Span<const DType> t) {
  return IsReal(t[0]) && IsReal(t[1]) && (t[2] == DType::kInt64 || t[2] == DType::kInt32);
}

bool Attends(absl::Span<const DType> t) {
  const auto fits = [](DType d) { return IsHalf(d) || d == DType::kFloat32; };
  return fits(t[0]) && (fits(t[1]) || t[1] == DType::kBool);
}

bool AttendsToHalves(absl::Span<const DType> t) { return IsHalf(t[0]) && Attends(t); }

constexpr Base kBases[] = {
    {kProductKernel, product_words::kCount, 2, Multiplies},
    {kWideProductKernel, product_words::kCount, 2, MultipliesFloats},
    {kSplitProductKernel, product_words::kSplitCount, 2, MultipliesFloats},
    {kConvolutionKernel, convolution_words::kCount, 2, Multiplies},
    {kWideConvolutionKernel, convolution_words::kCount, 2, MultipliesFloats},
    {kUniformKernel, random_words::kCount, 1, IsReal},
    {kNormalKernel, random_words::kCount, 1, IsReal},
    {kBernoulliKernel, random_words::kCount, 1, IsReal},
    {kRandintKernel, random_words::kCount, 1, IsReal},
    {kExponentialKernel, random_words::kCount, 1, IsReal},
    {kAttentionKernel, attention_words::kCount, 2, Attends},
    {kTensorAttentionKernel, attention_words::kCount, 2, AttendsToHalves},
    {kOrderKernel, order_words::kCount, 1, IsReal},
    {kOrderPiecesKernel, long_order_words::kCount, 1, IsReal},
    {kOrderMergeKernel, long_order_words::kCount, 0, IsAny},
    {kOrderTakeKernel, long_order_words::kCount, 1, IsReal},
    {kRunsKernel, runs_words::kEnd, 1, IsReal},
    {kWideRunsKernel, runs_words::kEnd, 1, IsReal},
    {kBincountKernel, bincount_words::kCount, 1, IsInteger},
    {kSearchKernel, search_words::kCount, 3, IsSearched},
    {kNonzeroKernel, choice_words::kEnd, 1, IsReal},
    {kWideNonzeroKernel, choice_words::kEnd, 1, IsReal},
    {kMaskedSelectKernel, choice_words::kEnd, 1, IsSize},
    {kWideMaskedSelectKernel, choice_words::kEnd, 1, IsSize},
};

const Base* Find(const LibraryKernel& k) {
  for (const Base& b : kBases) {
    if (k.base == b.name) return static_cast<int>(k.types.size()) == b.types && b.takes(k.types) ? &b : nullptr;
  }
  return nullptr;
}

// Collects the kernels of plans' steps.
class Collector {
 public:
  void Bundle(const fb::BundleT& b) {
    // A method's kernels are those of the bundle around it.
    if (!b.kernels.empty()) kernels_ = &b.kernels;
    for (const auto& p : b.plans) {
      for (const auto& block : p->blocks) {
        for (size_t i = 0; i < block->steps.size(); ++i)
          Step(*p, *block->steps[i], i + 1 < block->steps.size() ? block->steps[i + 1].get() : nullptr);
      }
      if (p->eager == nullptr) continue;
      for (const auto& call : p->eager->calls) Bundle(*call);
    }
    for (const auto& m : b.methods) Bundle(*m);
  }
  std::vector<LibraryKernel> Take() {
    std::vector<LibraryKernel> out;
    for (auto& [entry, k] : found_) out.push_back(std::move(k));
    return out;
  }

 private:
  void Add(const LibraryKernel& k) {
    if (Find(k) != nullptr) found_.emplace(k.Entry(), k);
  }
  void Step(const fb::PlanT& p, const fb::StepT& step, const fb::StepT* next) {
    const auto type = [&](int view) { return static_cast<DType>(p.views[view]->dtype); };
    if (const fb::LibraryCallT* l = step.step.AsLibraryCall()) {
      std::vector<std::optional<DType>> inputs, outputs;
      for (int v : l->inputs) inputs.push_back(v < 0 ? std::nullopt : std::optional(type(v)));
      for (int v : l->outputs) outputs.push_back(v < 0 ? std::nullopt : std::optional(type(v)));
      const fb::LaunchT* after = l->epilogue && next != nullptr ? next->step.AsLaunch() : nullptr;
      for (const LibraryKernel& k : LibraryKernelsFor(l->op, inputs, outputs)) {
        Add(k);
        if (after != nullptr && kernels_ != nullptr && static_cast<size_t>(after->kernel) < kernels_->size())
          Add(WithEpilogue(k, *(*kernels_)[static_cast<size_t>(after->kernel)]));
      }
    } else if (const fb::RandomT* r = step.step.AsRandom()) {
      Add(RandomKernelFor(r->kind, type(r->out)));
    }
  }

  const std::vector<std::unique_ptr<fb::KernelT>>* kernels_ = nullptr;
  std::map<std::string, LibraryKernel> found_;
};

}  // namespace

std::string LibraryKernel::StageEntry(int stage) const {
  std::string out = absl::StrCat("smelt_", base);
  for (DType t : types) absl::StrAppend(&out, "_", Name(t));
  if (!epilogue_key.empty()) absl::StrAppend(&out, "_then_", epilogue_key);
  constexpr const char* kSuffixes[] = {"", "_second", "_third", "_fourth"};
  return absl::StrCat(out, kSuffixes[stage]);
}

int LibraryKernel::NumWords() const {
  const Base* b = Find(*this);
  if (b == nullptr) return 0;
  if (epilogue_key.empty()) return b->words;
  return b->takes == Multiplies || b->takes == MultipliesFloats ? b->words + epilogue_words : 0;
}

LibraryKernel WithEpilogue(LibraryKernel kernel, const fb::KernelT& epilogue) {
  kernel.epilogue_key = epilogue.key;
  kernel.epilogue_spec = epilogue.spec;
  kernel.epilogue_words = epilogue.num_words;
  return kernel;
}

int ProductTile(const LibraryKernel& kernel) {
  return kernel.base == kWideProductKernel || kernel.base == kWideConvolutionKernel ? 128 : 64;
}

DType ProductSum(DType t) {
  if (IsHalf(t)) return DType::kFloat32;
  return IsIntegral(t) && ItemSize(t) < 4 ? DType::kInt32 : t;
}

// A case for each kernel with more than one stage. The stages and their words must fit what codegen emits, kernel by
// kernel.
fb::CudaKernelT LibraryKernel::Launch() const {
  constexpr int kThreads = 256;
  fb::CudaKernelT out;
  out.words_by_value = true;
  const auto new_stage = [&](std::string entry) {
    auto stage = std::make_unique<fb::CudaStageT>();
    stage->entry = std::move(entry);
    stage->threads = kThreads;
    stage->items_per_block = 1;
    return stage;
  };
  auto stage = new_stage(Entry());
  if (base == kSplitProductKernel) {
    using namespace product_words;  // NOLINT
    const int tile = ProductTile(*this);
    stage->factors = {fb::CudaFactor(kBatch, 4, 1), fb::CudaFactor(kRows, 1, tile), fb::CudaFactor(kColumns, 1, tile),
                      fb::CudaFactor(kSlices, 1, 1)};
    out.workspace_bytes = int64_t{tile} * tile * ItemSize(ProductSum(types[0]));
    out.stages.push_back(std::move(stage));
    stage = new_stage(StageEntry(1));
    stage->factors = {fb::CudaFactor(kBatch, 4, 1), fb::CudaFactor(kRows, 1, 1), fb::CudaFactor(kColumns, 1, 1)};
    stage->items_per_block = kThreads;
  } else if (base == kProductKernel || base == kWideProductKernel) {
    using namespace product_words;  // NOLINT
    const int tile = ProductTile(*this);
    stage->factors = {fb::CudaFactor(kBatch, 4, 1), fb::CudaFactor(kRows, 1, tile), fb::CudaFactor(kColumns, 1, tile)};
  } else if (base == kConvolutionKernel || base == kWideConvolutionKernel) {
    using namespace convolution_words;  // NOLINT
    const int tile = ProductTile(*this);
    stage->factors = {fb::CudaFactor(kGroups, 1, 1), fb::CudaFactor(kImages, 4, tile),
                      fb::CudaFactor(kOutChannels, 1, tile)};
  } else if (base == kAttentionKernel || base == kTensorAttentionKernel) {
    const int rows = base == kAttentionKernel ? 64 : 128;
    stage->factors = {fb::CudaFactor(attention_words::kHeads, 4, 1),
                      fb::CudaFactor(attention_words::kQueries, 1, rows)};
  } else if (base == kOrderKernel) {
    stage->factors = {fb::CudaFactor(order_words::kLines, kStridedRank, 1)};
  } else if (base == kOrderPiecesKernel) {
    stage->factors = {fb::CudaFactor(order_words::kLines, kStridedRank, 1),
                      fb::CudaFactor(order_words::kLength, 1, kLongestLine)};
  } else if (base == kOrderMergeKernel || base == kOrderTakeKernel) {
    stage->factors = {fb::CudaFactor(order_words::kLines, kStridedRank, 1), fb::CudaFactor(order_words::kLength, 1, 1)};
    stage->items_per_block = kThreads;
    if (base == kOrderTakeKernel) {
      auto second = new_stage(StageEntry(1));
      second->factors = {fb::CudaFactor(order_words::kLines, kStridedRank, 1),
                         fb::CudaFactor(order_words::kKeep, 1, 1)};
      second->items_per_block = kThreads;
      out.stages.push_back(std::exchange(stage, std::move(second)));
    }
  } else if (base == kBincountKernel) {
    stage->factors = {fb::CudaFactor(bincount_words::kBins, 1, 1)};
    stage->items_per_block = kThreads;
    auto second = new_stage(StageEntry(1));
    second->factors = {fb::CudaFactor(bincount_words::kLength, 1, 1)};
    second->items_per_block = kThreads;
    out.stages.push_back(std::exchange(stage, std::move(second)));
  } else if (base == kWideNonzeroKernel || base == kWideMaskedSelectKernel || base == kWideRunsKernel) {
    // Counts of chunks; their sums, by one block; what is stored; for runs, their lengths.
    const bool runs = base == kWideRunsKernel;
    const std::vector<fb::CudaFactor> chunks = {runs
                                                    ? fb::CudaFactor(runs_words::kLength, 1, kChoiceChunk)
                                                    : fb::CudaFactor(choice_words::kSizes, kStridedRank, kChoiceChunk)};
    out.workspace_bytes = sizeof(int64_t);
    stage->factors = chunks;
    out.stages.push_back(std::exchange(stage, new_stage(StageEntry(1))));
    out.stages.push_back(std::exchange(stage, new_stage(StageEntry(2))));
    stage->factors = chunks;
    if (runs) {
      out.stages.push_back(std::exchange(stage, new_stage(StageEntry(3))));
      stage->factors = {fb::CudaFactor(runs_words::kRoom, 1, 1)};
      stage->items_per_block = kThreads;
    }
  } else if (base != kNonzeroKernel && base != kMaskedSelectKernel && base != kRunsKernel) {
    // An element for each thread. These words begin with the sizes.
    static_assert(int{random_words::kSizes} == 0 && int{search_words::kSizes} == 0);
    stage->factors = {fb::CudaFactor(random_words::kSizes, kStridedRank, 1)};
    stage->items_per_block = kThreads;
  }
  out.stages.push_back(std::move(stage));
  return out;
}

DType ElementOfSize(DType t) {
  switch (ItemSize(t)) {
    case 1:
      return DType::kUInt8;
    case 2:
      return DType::kInt16;
    case 4:
      return DType::kInt32;
    case 8:
      return DType::kInt64;
    default:
      return DType::kComplex128;
  }
}

LibraryKernel RandomKernelFor(fb::RandomKind kind, DType t) {
  switch (kind) {
    case fb::RandomKind::Uniform:
      return {kUniformKernel, {t}};
    case fb::RandomKind::Normal:
      return {kNormalKernel, {t}};
    case fb::RandomKind::Bernoulli:
      return {kBernoulliKernel, {t}};
    case fb::RandomKind::Randint:
      return {kRandintKernel, {t}};
    case fb::RandomKind::Exponential:
      return {kExponentialKernel, {t}};
    default:
      return {};  // a permutation is made by exchanges, one after the other
  }
}

namespace {

// Sort pairs of keys and places.
std::vector<LibraryKernel> LongOrder(DType t) { return {{kOrderPiecesKernel, {t}}, {kOrderMergeKernel, {}}}; }

}  // namespace

std::vector<LibraryKernel> LibraryKernelsFor(absl::string_view op, absl::Span<const std::optional<DType>> inputs,
                                             absl::Span<const std::optional<DType>> outputs) {
  if (inputs.empty() || outputs.empty() || !inputs[0]) return {};
  for (absl::string_view order : {"sort", "topk", "kthvalue", "median", "nanmedian"}) {
    if (op != order) continue;
    std::vector<LibraryKernel> kernels = LongOrder(*inputs[0]);
    kernels.push_back({kOrderTakeKernel, {*inputs[0]}});
    kernels.push_back({kOrderKernel, {*inputs[0]}});
    return kernels;
  }
  if (op == "unique" || op == "unique_count") {
    std::vector<LibraryKernel> kernels = LongOrder(*inputs[0]);
    kernels.push_back({kRunsKernel, {*inputs[0]}});
    kernels.push_back({kWideRunsKernel, {*inputs[0]}});
    return kernels;
  }
  if (op == "bincount") return {{kBincountKernel, {*inputs[0]}}};
  if (!outputs[0]) return {};
  if (op == "attention") {
    const bool has_mask = inputs.size() > 3 && inputs[3].has_value();
    const std::vector<DType> types = {*inputs[0], has_mask ? *inputs[3] : *inputs[0]};
    return {{kAttentionKernel, types}, {kTensorAttentionKernel, types}};
  }
  if (op == "nonzero") return {{kNonzeroKernel, {*inputs[0]}}, {kWideNonzeroKernel, {*inputs[0]}}};
  if (op == "masked_select") {
    const DType t = ElementOfSize(*inputs[0]);
    return {{kMaskedSelectKernel, {t}}, {kWideMaskedSelectKernel, {t}}};
  }
  if (op == "searchsorted" && inputs.size() > 1 && inputs[1]) {
    return {{kSearchKernel, {*inputs[0], *inputs[1], *outputs[0]}}};
  }
  const std::vector<DType> types = {*inputs[0], *outputs[0]};
  if (op == "matmul") return {{kProductKernel, types}, {kSplitProductKernel, types}, {kWideProductKernel, types}};
  if (op == "convolution") return {{kConvolutionKernel, types}, {kWideConvolutionKernel, types}};
  return {};
}

std::vector<LibraryKernel> LibraryKernelsOf(const fb::BundleT& bundle) {
  Collector c;
  c.Bundle(bundle);
  return c.Take();
}

}  // namespace smelt
