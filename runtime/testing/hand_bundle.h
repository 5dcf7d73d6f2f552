// Bundles written by hand, for tests of the runtime without a compiler: their kernels are a few instructions in this
// file.
//
//   HandBundle b;
//   b.Arg("x", DType::kFloat32, {b.Const(4)}, {b.Const(1)});
//   HandPlan p = b.Plan();
//   int x = p.View(p.ArgSlot(0), {b.Const(4)}, {b.Const(1)});
//   ...
//   std::shared_ptr<const Program> program = b.Load();
#ifndef SMELT_RUNTIME_TESTING_HAND_BUNDLE_H_
#define SMELT_RUNTIME_TESTING_HAND_BUNDLE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "smelt/core/base/check.h"
#include "smelt/core/tensor/tensor.h"
#include "smelt/runtime/program.h"
#include "smelt/schema/bundle.h"

namespace smelt {

// The kernels of every hand-made bundle. Their tiles are elements, float32, contiguous.
enum HandKernel {
  kAddOne = 0,  // words {n, in, out}
  kRelu = 1,    // words {n, in, out}
  kFail = 2,    // words {}: reports an index out of range
  kScale = 3,   // words {n, in, out, factor: double}
  kLess = 4,    // words {in, limit: int64, out}: *out (bool) = *in < limit
};

// The kernels begin at the same offsets on each architecture.
#if defined(__aarch64__)
inline constexpr const char* kHandTarget = "aarch64";
inline constexpr const char* kHandTriple = "aarch64-unknown-linux-gnu";
inline constexpr const char* kHandFeature = "neon";  // which each machine has
alignas(4) inline const uint32_t kHandCode[] = {
    // ldp x4, x5, [x0, #8]; fmov s1, #1.0; loop: cmp x1, x2; b.ge end; ldr s0, [x4, x1, lsl #2]; fadd s0, s0, s1;
    // str s0, [x5, x1, lsl #2]; add x1, x1, #1; b loop; end: ret
    0xa9409404, 0x1e2e1001, 0xeb02003f, 0x540000ca, 0xbc617880, 0x1e212800,  // add_one
    0xbc2178a0, 0x91000421, 0x17fffffa, 0xd65f03c0, 0xd503201f, 0xd503201f,  //
    0xa9409404, 0x2f00e401, 0xeb02003f, 0x540000ca, 0xbc617880, 0x1e214800,  // relu: movi d1, #0; fmax
    0xbc2178a0, 0x91000421, 0x17fffffa, 0xd65f03c0, 0xd503201f, 0xd503201f,  //
    0xd2800024, 0xf9000064, 0xd65f03c0, 0xd503201f,                          // fail: mov x4, #1; str x4, [x3]; ret
    0xa9409404, 0xfd400c01, 0x1e624021, 0xeb02003f, 0x540000ca, 0xbc617880,  // scale: ldr d1, [x0, #24]; fcvt s1, d1
    0x1e210800, 0xbc2178a0, 0x91000421, 0x17fffffa, 0xd65f03c0, 0xd503201f,  //
    0xf9400004, 0xf9400406, 0x9e2200c1, 0xf9400805, 0xbd400080, 0x1e212000,  // less: scvtf s1, x6; fcmp s0, s1
    0x1a9f57e6, 0x390000a6, 0xd65f03c0,                                      // cset w6, mi; strb w6, [x5]; ret
};
#else
inline constexpr const char* kHandTarget = "x86-64";
inline constexpr const char* kHandTriple = "x86_64-unknown-linux-gnu";
inline constexpr const char* kHandFeature = "sse2";  // which each machine has
inline const uint8_t kHandCode[] = {
    0x4c, 0x8b, 0x47, 0x08, 0x4c, 0x8b, 0x4f, 0x10, 0xb8, 0x00, 0x00, 0x80, 0x3f, 0x66, 0x0f, 0x6e,  // add_one
    0xc8, 0x48, 0x39, 0xd6, 0x7d, 0x15, 0xf3, 0x41, 0x0f, 0x10, 0x04, 0xb0, 0xf3, 0x0f, 0x58, 0xc1,  //
    0xf3, 0x41, 0x0f, 0x11, 0x04, 0xb1, 0x48, 0xff, 0xc6, 0xeb, 0xe6, 0xc3, 0x0f, 0x1f, 0x40, 0x00,  //
    0x4c, 0x8b, 0x47, 0x08, 0x4c, 0x8b, 0x4f, 0x10, 0x0f, 0x57, 0xc9, 0x48, 0x39, 0xd6, 0x7d, 0x15,  // relu
    0xf3, 0x41, 0x0f, 0x10, 0x04, 0xb0, 0xf3, 0x0f, 0x5f, 0xc1, 0xf3, 0x41, 0x0f, 0x11, 0x04, 0xb1,  //
    0x48, 0xff, 0xc6, 0xeb, 0xe6, 0xc3, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00,  //
    0x48, 0xc7, 0x01, 0x01, 0x00, 0x00, 0x00, 0xc3, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00,  // fail
    0x4c, 0x8b, 0x47, 0x08, 0x4c, 0x8b, 0x4f, 0x10, 0xf2, 0x0f, 0x5a, 0x4f, 0x18, 0x48, 0x39, 0xd6,  // scale
    0x7d, 0x15, 0xf3, 0x41, 0x0f, 0x10, 0x04, 0xb0, 0xf3, 0x0f, 0x59, 0xc1, 0xf3, 0x41, 0x0f, 0x11,  //
    0x04, 0xb1, 0x48, 0xff, 0xc6, 0xeb, 0xe6, 0xc3, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00,  //
    0x4c, 0x8b, 0x07, 0xf3, 0x48, 0x0f, 0x2a, 0x4f, 0x08, 0x4c, 0x8b, 0x4f, 0x10, 0xf3, 0x41, 0x0f,  // less
    0x10, 0x00, 0x0f, 0x2e, 0xc8, 0x41, 0x0f, 0x97, 0x01, 0xc3,
};
#endif

class HandPlan;

class HandBundle {
 public:
  HandBundle() {
    b_.format = kBundleFormat;
    b_.abi = kKernelAbi;
    b_.model_name = "hand";
    const std::pair<int, int> kernels[] = {{0x00, 3}, {0x30, 3}, {0x60, 0}, {0x70, 4}, {0xa0, 3}};  // offset, words
    auto target = std::make_unique<fb::TargetCodeT>();
    target->name = kHandTarget;
    target->triple = kHandTriple;
    for (auto [offset, words] : kernels) {
      auto k = std::make_unique<fb::KernelT>();
      k->num_words = words;
      b_.kernels.push_back(std::move(k));
      auto t = std::make_unique<fb::TargetKernelT>();
      t->offset = offset;
      t->size = 8;
      target->kernels.push_back(std::move(t));
    }
    b_.targets.push_back(std::move(target));
  }

  fb::BundleT& raw() { return b_; }

  int Node(fb::ExprOp op, int a = 0, int b = 0, int c = 0, int64_t constant = 0) {
    b_.exprs.emplace_back(op, a, b, c, constant);
    return static_cast<int>(b_.exprs.size()) - 1;
  }
  int Const(int64_t v) { return Node(fb::ExprOp::Constant, 0, 0, 0, v); }
  std::vector<int> Consts(const std::vector<int64_t>& list) {
    std::vector<int> out;
    for (int64_t v : list) out.push_back(Const(v));
    return out;
  }
  int Mul(int a, int b) { return Node(fb::ExprOp::Mul, a, b); }
  // Makes a symbol as an expression; its number is symbols().size() - 1.
  int Symbol(std::string name, fb::SymbolSource source, int arg = 0, int dim = 0, int64_t min = 0,
             int64_t max = INT64_MAX) {
    auto s = std::make_unique<fb::SymbolDefT>();
    s->name = std::move(name);
    s->source = source;
    s->arg = arg;
    s->dim = dim;
    s->min = min;
    s->max = max;
    b_.symbols.push_back(std::move(s));
    return Node(fb::ExprOp::Symbol, static_cast<int>(b_.symbols.size()) - 1);
  }

  int TensorArg(std::string name, DType dtype, std::vector<int> sizes, std::vector<int> strides) {
    auto a = std::make_unique<fb::ArgDefT>();
    a->name = std::move(name);
    a->kind = fb::ArgKind::Tensor;
    a->dtype = static_cast<uint8_t>(dtype);
    a->sizes = std::move(sizes);
    a->strides = std::move(strides);
    b_.args.push_back(std::move(a));
    return static_cast<int>(b_.args.size()) - 1;
  }
  // Adds a contiguous float32 argument of one dim.
  int VectorArg(std::string name, int size) { return TensorArg(std::move(name), DType::kFloat32, {size}, {Const(1)}); }
  int ScalarArg(std::string name, fb::ArgKind kind) {
    auto a = std::make_unique<fb::ArgDefT>();
    a->name = std::move(name);
    a->kind = kind;
    b_.args.push_back(std::move(a));
    return static_cast<int>(b_.args.size()) - 1;
  }
  void Output(std::string name, fb::ArgKind kind = fb::ArgKind::Tensor) {
    auto o = std::make_unique<fb::OutputDefT>();
    o->name = std::move(name);
    o->kind = kind;
    b_.outputs.push_back(std::move(o));
  }
  // Adds a state with its own storage, contiguous float32 of one dim; returns its number.
  int State(std::string name, const std::vector<float>& values, bool mutated) {
    auto storage = std::make_unique<fb::StateStorageT>();
    storage->segment = 1;
    storage->segment_offset = static_cast<int64_t>(weights_.size());
    storage->bytes = static_cast<int64_t>(values.size() * 4);
    storage->is_mutated = mutated;
    weights_.append(reinterpret_cast<const char*>(values.data()), values.size() * 4);
    weights_.resize((weights_.size() + 63) / 64 * 64);
    b_.storages.push_back(std::move(storage));
    auto s = std::make_unique<fb::StateTensorT>();
    s->name = std::move(name);
    s->kind = fb::StateKind::Buffer;
    s->storage = static_cast<int>(b_.storages.size()) - 1;
    s->dtype = static_cast<uint8_t>(DType::kFloat32);
    s->sizes = {static_cast<int64_t>(values.size())};
    s->strides = {1};
    b_.states.push_back(std::move(s));
    return static_cast<int>(b_.states.size()) - 1;
  }

  HandPlan Plan(fb::VariantKind variant = fb::VariantKind::Distinct);

  // Adds the other bundle's program as a method. Its states and kernels are those of this bundle, under their numbers.
  fb::BundleT& Method(std::string name, HandBundle&& program) {
    b_.format = kMethodsFormat;
    b_.methods.push_back(std::make_unique<fb::BundleT>(std::move(program.b_)));
    fb::BundleT& m = *b_.methods.back();
    m.method = std::move(name);
    m.kernels.clear();
    m.targets.clear();
    m.storages.clear();
    m.states.clear();
    return m;
  }

  // Returns the container's bytes. Segments: 0 code, 1 weights, 2 metadata.
  std::string Pack() {
    for (auto& t : b_.targets) t->image_segment = 0;
    ContainerWriter w = ContainerWriter::InMemory(ContentKind::kBundle);
    SMELT_CHECK_OK(w.Add(SegmentKind::kCode,
                         absl::Span<const uint8_t>(reinterpret_cast<const uint8_t*>(kHandCode), sizeof kHandCode))
                       .status());
    SMELT_CHECK_OK(w.Add(SegmentKind::kWeights, weights_).status());
    SMELT_CHECK_OK(w.Add(SegmentKind::kMetadata, EncodeBundle(b_)).status());
    absl::StatusOr<std::string> bytes = w.FinishToString();
    SMELT_CHECK_OK(bytes.status());
    return *std::move(bytes);
  }
  absl::StatusOr<std::shared_ptr<const Program>> TryLoad(const ProgramOptions& options = {}) {
    const std::string bytes = Pack();
    return Program::LoadFromMemory(
        absl::Span<const uint8_t>(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()), options, "hand.smb");
  }
  std::shared_ptr<const Program> Load(const ProgramOptions& options = {}) {
    auto p = TryLoad(options);
    SMELT_CHECK_OK(p.status());
    return *std::move(p);
  }
  std::unique_ptr<Instance> Instantiate() {
    auto i = Instance::Create(Load());
    SMELT_CHECK_OK(i.status());
    return *std::move(i);
  }

 private:
  fb::BundleT b_;
  std::string weights_;
};

class HandPlan {
 public:
  HandPlan(HandBundle* b, fb::PlanT* p) : b_(b), p_(p) {}
  fb::PlanT& raw() { return *p_; }

  int Slot(fb::SlotKind kind, int index, int bytes = -1, int offset = -1) {
    auto s = std::make_unique<fb::SlotT>();
    s->kind = kind;
    s->index = index;
    s->bytes = bytes;
    s->offset = offset;
    p_->slots.push_back(std::move(s));
    return static_cast<int>(p_->slots.size()) - 1;
  }
  int ArgSlot(int arg) { return Slot(fb::SlotKind::ArgStorage, arg); }
  int StateSlot(int storage) { return Slot(fb::SlotKind::StateStorage, storage); }
  int FreshSlot(int bytes) { return Slot(fb::SlotKind::Fresh, 0, bytes); }
  int HeapSlot(int bytes) { return Slot(fb::SlotKind::Heap, 0, bytes); }
  int ArenaSlot(int offset, int bytes) { return Slot(fb::SlotKind::Arena, 0, bytes, offset); }
  int View(int slot, std::vector<int> sizes, std::vector<int> strides, int offset = -1, DType dtype = DType::kFloat32) {
    auto v = std::make_unique<fb::ViewT>();
    v->slot = slot;
    v->dtype = static_cast<uint8_t>(dtype);
    v->sizes = std::move(sizes);
    v->strides = std::move(strides);
    v->offset = offset >= 0 ? offset : b_->Const(0);
    p_->views.push_back(std::move(v));
    return static_cast<int>(p_->views.size()) - 1;
  }
  // Adds a contiguous vector of float32 at the slot's origin.
  int Vector(int slot, int size) { return View(slot, {size}, {b_->Const(1)}); }

  template <typename T>
  T* Step(int block = 0, std::string source = "model.py:1") {
    while (static_cast<int>(p_->blocks.size()) <= block) p_->blocks.push_back(std::make_unique<fb::BlockT>());
    auto s = std::make_unique<fb::StepT>();
    s->source = std::move(source);
    s->step.Set(T());
    T* out = static_cast<T*>(s->step.value);
    p_->blocks[block]->steps.push_back(std::move(s));
    return out;
  }
  // Adds out = kernel(in), both contiguous float32 vectors at their slots' origins.
  fb::LaunchT* Launch(HandKernel kernel, int size, int in_view, int out_view, int block = 0) {
    auto* l = Step<fb::LaunchT>(block);
    l->kernel = kernel;
    l->tiles = size;
    l->bytes = b_->Mul(size, b_->Const(8));
    if (kernel == kFail) {
      l->tiles = b_->Const(1);
      return l;
    }
    l->words.emplace_back(fb::WordKind::Expr, size, 0, 0);
    l->words.push_back(Address(in_view));
    l->words.push_back(Address(out_view));
    l->reads = {in_view};
    l->writes = {out_view};
    return l;
  }
  fb::Word Address(int view) {
    const fb::ViewT& v = *p_->views[view];
    const int item = ItemSize(static_cast<DType>(v.dtype));
    return fb::Word(fb::WordKind::Address, v.slot, b_->Mul(v.offset, b_->Const(item)), 0);
  }
  void Copy(int src, int dst, bool copy_back) {
    auto* c = Step<fb::CopyT>();
    c->src = src;
    c->dst = dst;
    c->copy_back = copy_back;
  }
  fb::OutputRefT* Output(fb::OutputKind kind, int index = -1, int view = -1) {
    auto o = std::make_unique<fb::OutputRefT>();
    o->kind = kind;
    o->index = index;
    o->view = view;
    p_->convention->outputs->outputs.push_back(std::move(o));
    return p_->convention->outputs->outputs.back().get();
  }
  fb::MutatedInputT* Mutated(int arg, int flags, int final_view = -1, bool is_state = false) {
    if (p_->convention->mutated == nullptr) p_->convention->mutated = std::make_unique<fb::MutatedInputsLayerT>();
    auto m = std::make_unique<fb::MutatedInputT>();
    m->arg = arg;
    m->flags = static_cast<uint8_t>(flags);
    m->final_view = final_view;
    m->is_state = is_state;
    p_->convention->mutated->inputs.push_back(std::move(m));
    return p_->convention->mutated->inputs.back().get();
  }
  void Identify(std::vector<int> inner_of_outer) {
    p_->convention->duplicates = std::make_unique<fb::DuplicatesLayerT>();
    p_->convention->duplicates->inner_of_outer = std::move(inner_of_outer);
  }
  void MayOverlap(std::vector<int> members, bool same_storage = false) {
    if (p_->convention->overlaps == nullptr) p_->convention->overlaps = std::make_unique<fb::OverlapsLayerT>();
    auto g = std::make_unique<fb::OverlapGroupT>();
    g->members = std::move(members);
    g->same_storage = same_storage;
    p_->convention->overlaps->groups.push_back(std::move(g));
  }

 private:
  HandBundle* b_;
  fb::PlanT* p_;
};

inline HandPlan HandBundle::Plan(fb::VariantKind variant) {
  auto p = std::make_unique<fb::PlanT>();
  p->variant = variant;
  p->convention = std::make_unique<fb::ConventionT>();
  p->convention->outputs = std::make_unique<fb::OutputsLayerT>();
  p->arena_bytes = Const(0);
  p->blocks.push_back(std::make_unique<fb::BlockT>());
  b_.plans.push_back(std::move(p));
  return HandPlan(this, b_.plans.back().get());
}

inline Tensor VectorOf(const std::vector<float>& values) {
  Tensor t = Tensor::Empty(DType::kFloat32, {static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), t.data_as<float>());
  return t;
}
// For contiguous tensors only.
inline std::vector<float> FloatsOf(const Tensor& t) {
  const Tensor dense = t.Clone();
  return std::vector<float>(dense.data_as<float>(), dense.data_as<float>() + dense.NumElements());
}

}  // namespace smelt

#endif  // SMELT_RUNTIME_TESTING_HAND_BUNDLE_H_
