// Hostile bundles with correct digests: loading gives a program or an error for any contents. No crash, no hang, no
// excessive memory. (Nothing is run: running a bundle runs its code.)
#include <cstring>
#include <functional>
#include <tuple>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/runtime/program.h"
#include "smelt/runtime/testing/hand_bundle.h"
#include "smelt/schema/bundle_signature.h"

namespace smelt {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

uint64_t g_state = 88172645463325252u;
uint64_t Random() {
  g_state ^= g_state << 13;
  g_state ^= g_state >> 7;
  return g_state ^= g_state << 17;
}
int64_t Odd() {
  static constexpr int64_t kValues[] = {
      0, 1, -1, 2, 7, 1 << 20, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, 1ll << 33, -(1ll << 40), 3, 64};
  return Random() % 3 == 0 ? static_cast<int64_t>(Random() % 40) : kValues[Random() % std::size(kValues)];
}

// A bundle with one of everything.
HandBundle Everything() {
  HandBundle b;
  const int n = b.Symbol("n", fb::SymbolSource::ArgSize, 0, 0);
  const int u = b.Symbol("u0", fb::SymbolSource::Data);
  const int one = b.Const(1), two = b.Const(2);
  b.VectorArg("x", n);
  b.VectorArg("y", n);
  b.ScalarArg("s", fb::ArgKind::Float);
  b.ScalarArg("k", fb::ArgKind::Int);
  b.State("w", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18}, false);
  b.State("buffer", {1, 2}, true);
  b.Output("a");
  b.Output("b");
  b.Output("c", fb::ArgKind::Int);
  b.Output("d");
  for (fb::VariantKind variant : {fb::VariantKind::Distinct, fb::VariantKind::Duplicate}) {
    HandPlan p = b.Plan(variant);
    const bool same = variant == fb::VariantKind::Duplicate;
    p.raw().num_registers = 4;
    p.raw().arena_bytes = b.Const(4096);
    if (same)
      p.Identify({0, 0, 1, 2});
    else
      p.MayOverlap({0, 1});
    auto g = std::make_unique<fb::GuardT>();
    g->expr = b.Node(fb::ExprOp::Le, one, b.Node(fb::ExprOp::FloorDiv, n, two));
    p.raw().guards.push_back(std::move(g));
    const int x = p.Vector(p.ArgSlot(0), n), y = same ? x : p.Vector(p.ArgSlot(1), n);
    const int z = p.Vector(p.FreshSlot(b.Mul(n, b.Const(4))), n);
    const int w = p.View(p.StateSlot(0), b.Consts({3, 6}), b.Consts({6, 1}));
    const int a = p.View(p.ArenaSlot(b.Const(0), b.Const(96)), b.Consts({8, 3}), b.Consts({3, 1}));
    const int c = p.View(p.ArenaSlot(b.Const(128), b.Const(192)), b.Consts({8, 6}), b.Consts({6, 1}));
    const int image = p.View(p.ArenaSlot(b.Const(512), b.Const(200)), b.Consts({1, 2, 5, 5}), b.Consts({50, 25, 5, 1}));
    const int kernel = p.View(p.StateSlot(0), b.Consts({1, 2, 3, 3}), b.Consts({18, 9, 3, 1}));
    const int result =
        p.View(p.ArenaSlot(b.Const(1024), b.Const(100)), b.Consts({1, 1, 5, 5}), b.Consts({25, 25, 5, 1}));
    const int count = p.View(p.ArenaSlot(b.Const(2048), b.Const(8)), {}, {}, -1, DType::kInt64);
    const int buffer = p.Vector(p.StateSlot(1), two);
    const int heap = p.HeapSlot(b.Mul(u, b.Const(8)));
    const int where = p.View(heap, {u, one}, {one, one}, -1, DType::kInt64);
    p.Launch(kAddOne, n, x, z);
    auto* l = p.Launch(kScale, n, y, y);
    l->words.emplace_back(fb::WordKind::ArgScalar, 2, 1, 0);
    const auto call = [&](std::string op, std::vector<int> in, std::vector<int> out, std::vector<int64_t> ints) {
      auto* k = p.Step<fb::LibraryCallT>();
      k->op = std::move(op);
      k->inputs = std::move(in);
      k->outputs = std::move(out);
      k->ints = b.Consts(ints);
    };
    call("matmul", {a, w, -1}, {c}, {});
    call("convolution", {image, kernel, -1}, {result}, {1, 1, 1, 1, 1, 1, 0, 0, 0, 1});
    call("count_nonzero", {x}, {count}, {});
    auto* r = p.Step<fb::ReadScalarT>();
    r->view = count;
    r->register_ = 0;
    r->symbol = 1;
    p.Step<fb::AllocT>()->slot = heap;
    call("nonzero", {x}, {where}, {});
    auto* loop = p.Step<fb::WhileT>();
    loop->predicate = 0;
    loop->counter = 1;
    loop->max_trips = two;
    loop->body_block = 1;
    loop->cond_block = -1;
    p.Launch(kAddOne, two, buffer, buffer, 1);
    auto* f = p.Step<fb::IfT>(1);
    f->predicate = 0;
    f->then_block = 2;
    f->else_block = -1;
    auto* random = p.Step<fb::RandomT>(2);
    random->out = buffer;
    auto* set = p.Step<fb::SetRegisterT>(2);
    set->register_ = 2;
    set->expr = u;
    auto* compute = p.Step<fb::ComputeNumberT>(2);
    compute->register_ = 3;
    compute->function = fb::NumberFunction::pow;
    compute->inputs = {2, 0};
    p.Copy(z, x, true);
    auto* check = p.Step<fb::CheckT>();
    check->kind = fb::CheckKind::NoInternalOverlap;
    check->a = x;
    p.Mutated(0, 1)->written = {x};
    p.Mutated(1, 3, buffer, /*is_state=*/true);
    p.raw().written_args = same ? std::vector<int>{0, 1} : std::vector<int>{0};
    p.raw().written_states = {1};
    p.Output(fb::OutputKind::IsArg, 0);
    p.Output(fb::OutputKind::Fresh, -1, z);
    p.Output(fb::OutputKind::Scalar, 0);
    p.Output(fb::OutputKind::IsState, 1);
  }
  b.raw().graph_text = "graph():\n  return ()";
  using Kind = StructureNode::Kind;
  using Key = StructureNode::Key;
  const StructureNode leaf;
  b.raw().result_structure = StructureTables({{Kind::kTuple, Key::kIndex, "", false, "", 3},
                                              leaf,
                                              {Kind::kDict, Key::kIndex, "", false, "", 2},
                                              {Kind::kLeaf, Key::kName, "z", false, "", 0},
                                              {Kind::kLeaf, Key::kNumber, "7", false, "", 0},
                                              {Kind::kObject, Key::kIndex, "", false, "a.Class", 2},
                                              {Kind::kLeaf, Key::kName, "state", false, "", 0},
                                              {Kind::kNone, Key::kName, "nothing", false, "", 0}});
  return b;
}

absl::Status Load(const std::string& bytes) {
  auto p = Program::LoadFromMemory(
      absl::Span<const uint8_t>(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()), {}, "bad.smb");
  if (!p.ok()) return p.status();
  return Instance::Create(*p).status();
}

void ExpectHandled(const absl::Status& s) {
  using C = absl::StatusCode;
  const bool fine = s.ok() || s.code() == C::kDataLoss || s.code() == C::kUnimplemented ||
                    s.code() == C::kInvalidArgument || s.code() == C::kFailedPrecondition ||
                    s.code() == C::kResourceExhausted;
  EXPECT_TRUE(fine) << s;
  if (!s.ok()) {
    EXPECT_THAT(s.message(), HasSubstr("bad.smb"));
  }
}

TEST(UntrustedTest, TheBundleThatIsMutatedIsItselfFine) {
  const absl::Status s = Load(Everything().Pack());
  EXPECT_TRUE(s.ok()) << s;
}

TEST(UntrustedTest, AThousandMutationsOfBytesWithTheRightDigests) {
  const std::string good = Everything().Pack();
  auto container = Container::FromMemory(
      absl::Span<const uint8_t>(reinterpret_cast<const uint8_t*>(good.data()), good.size()), ContentKind::kBundle);
  ASSERT_TRUE(container.ok());
  const Segment metadata = (*container)->segments()[2];
  int loaded = 0;
  for (int round = 0; round < 1500; ++round) {
    std::string bad = good;
    const int changes = 1 + static_cast<int>(Random() % 4);
    for (int k = 0; k < changes; ++k) {
      const size_t at = static_cast<size_t>(metadata.offset) + Random() % static_cast<size_t>(metadata.size);
      switch (Random() % 3) {
        case 0:
          bad[at] = static_cast<char>(Random());
          break;
        case 1: {
          const int32_t v = static_cast<int32_t>(Odd());
          if (at + 4 <= static_cast<size_t>(metadata.offset + metadata.size)) std::memcpy(&bad[at & ~size_t{3}], &v, 4);
          break;
        }
        default:
          bad[at] ^= static_cast<char>(1 << Random() % 8);
      }
    }
    ResealContainer(bad);
    const absl::Status s = Load(bad);
    ExpectHandled(s);
    loaded += s.ok();
  }
  EXPECT_GT(loaded, 0);  // else the mutations test one check only
}

TEST(UntrustedTest, AThousandMutationsOfFieldsWithTheRightDigests) {
  int loaded = 0, refused = 0;
  for (int round = 0; round < 1500; ++round) {
    HandBundle hand = Everything();
    fb::BundleT& b = hand.raw();
    fb::PlanT& p = *b.plans[Random() % b.plans.size()];
    const auto pick = [](auto& v) -> auto& { return v[Random() % v.size()]; };
    const auto number = [&](std::vector<int>& v) {
      if (!v.empty()) pick(v) = static_cast<int>(Odd());
    };
    fb::StepT& step = *pick(pick(p.blocks)->steps);
    const int value = static_cast<int>(Odd());
    switch (Random() % 26) {
      case 0: {
        fb::ExprNode& e = pick(b.exprs);
        e = fb::ExprNode(static_cast<fb::ExprOp>(Random() % 20), value, static_cast<int>(Odd()),
                         static_cast<int>(Odd()), Odd());
        break;
      }
      case 1:
      case 2:
      case 3:
        // Changes constants to unusual sizes.
        for (fb::ExprNode& e : b.exprs) {
          if (e.op() == fb::ExprOp::Constant && Random() % 8 == 0) e = fb::ExprNode(e.op(), 0, 0, 0, Odd());
        }
        break;
      case 4:
        pick(b.symbols)->arg = value;
        break;
      case 5:
        pick(b.symbols)->dim = value;
        break;
      case 6:
        pick(b.symbols)->source = static_cast<fb::SymbolSource>(Random() % 9);
        break;
      case 7:
        pick(b.symbols)->scale = Odd();
        break;
      case 8:
        number(pick(b.args)->sizes);
        if (Random() % 4 == 0) pick(b.args)->value = value;
        break;
      case 9:
        pick(b.args)->kind = static_cast<fb::ArgKind>(Random() % 9);
        break;
      case 10:
        pick(b.storages)->bytes = Odd();
        break;
      case 11:
        pick(b.storages)->segment = value;
        break;
      case 12:
        pick(b.storages)->segment_offset = Odd();
        break;
      case 13: {
        fb::StateTensorT& s = *pick(b.states);
        pick(s.sizes) = Odd();
        if (Random() % 2) pick(s.strides) = Odd();
        if (Random() % 2) s.offset = Odd();
        break;
      }
      case 14:
        pick(b.states)->storage = value;
        break;
      case 15:
        pick(b.storages)->is_mutated = !pick(b.storages)->is_mutated;
        break;
      case 16:
        pick(p.slots)->index = value;
        break;
      case 17:
        pick(p.slots)->kind = static_cast<fb::SlotKind>(Random() % 6);
        break;
      case 18: {
        fb::ViewT& v = *pick(p.views);
        Random() % 2 ? (void)(v.slot = value) : Random() % 2 ? number(v.sizes) : (void)(v.offset = value);
        break;
      }
      case 19:
        pick(b.kernels)->num_words = value;
        break;
      case 20:
        pick(b.targets[0]->kernels)->offset = Odd();
        break;
      case 21:
        pick(b.targets[0]->kernels)->size = Odd();
        break;
      case 22:
        if (auto* l = step.step.AsLaunch()) {
          Random() % 2 ? (void)(l->kernel = value) : (void)(l->tiles = value);
          if (!l->words.empty()) pick(l->words) = fb::Word(static_cast<fb::WordKind>(Random() % 7), value, value, 0);
          number(l->writes);
        }
        break;
      case 23:
        if (auto* l = step.step.AsLibraryCall()) Random() % 2 ? number(l->inputs) : number(l->ints);
        if (auto* w = step.step.AsWhile())
          Random() % 2 ? w->body_block = value : w->cond_block = static_cast<int>(Random() % 3);
        if (auto* f = step.step.AsIf()) f->then_block = static_cast<int>(Random() % 3), f->else_block = value;
        if (auto* r = step.step.AsReadScalar()) Random() % 2 ? r->view = value : r->symbol = value;
        break;
      case 24: {
        fb::OutputRefT& o = *pick(p.convention->outputs->outputs);
        o.kind = static_cast<fb::OutputKind>(Random() % 9);
        Random() % 2 ? o.index = value : o.view = value;
        break;
      }
      default: {
        fb::MutatedInputT& m = *pick(p.convention->mutated->inputs);
        Random() % 2 ? (void)(m.arg = value) : (void)(m.final_view = value);
        m.flags = static_cast<uint8_t>(Random());
        if (p.convention->duplicates) number(p.convention->duplicates->inner_of_outer);
        number(p.written_args);
      }
    }
    const absl::Status s = Load([&] {
      std::string bytes = hand.Pack();
      return bytes;
    }());
    ExpectHandled(s);
    (s.ok() ? loaded : refused)++;
  }
  EXPECT_GT(loaded, 100);
  EXPECT_GT(refused, 300);
}

// Returns the message of loading Everything() after `change`.
std::string MessageAfter(const std::function<void(fb::BundleT&)>& change) {
  HandBundle hand = Everything();
  change(hand.raw());
  return std::string(Load(hand.Pack()).message());
}

TEST(UntrustedTest, ErrorsNameThePlaceAndTheField) {
  EXPECT_THAT(MessageAfter([](fb::BundleT& b) { b.plans[1]->views[0]->slot = 99; }),
              HasSubstr("bad.smb: plan 1: view 0: slot is 99, of "));
  EXPECT_THAT(MessageAfter([](fb::BundleT& b) { b.plans[0]->blocks[0]->steps[0]->step.AsLaunch()->words.pop_back(); }),
              HasSubstr("plan 0: block 0: step 0: launch of kernel 0 has 2 words, the kernel takes 3"));
  EXPECT_THAT(MessageAfter([](fb::BundleT& b) { b.exprs[0] = fb::ExprNode(fb::ExprOp::Add, 0, 0, 0, 0); }),
              HasSubstr("expression 0: operand 0 is no earlier expression"));
  EXPECT_THAT(MessageAfter([](fb::BundleT& b) { b.states[0]->sizes = {19}; }),
              HasSubstr("state 0: \"w\": it reaches elements 0 to 18 of storage 0, which has 18"));
  EXPECT_THAT(MessageAfter([](fb::BundleT& b) { b.storages[1]->bytes = 4096; }), HasSubstr("do not lie in segment 1"));
  EXPECT_THAT(
      MessageAfter([](fb::BundleT& b) { b.targets[0]->kernels[4]->size = 4000; }),
      HasSubstr(std::string("target 0: ") + kHandTarget + ": kernel 4: 4000 bytes at 160 do not lie in the image"));
  EXPECT_THAT(MessageAfter([](fb::BundleT& b) { b.plans[0]->blocks[1]->steps[1]->step.AsIf()->then_block = 0; }),
              HasSubstr("block 0 is entered from two places"));
  EXPECT_THAT(MessageAfter([](fb::BundleT& b) { b.storages[1]->is_mutated = false; }),
              HasSubstr("not marked as mutated"));
  EXPECT_THAT(MessageAfter([](fb::BundleT& b) { b.format = 3; }), HasSubstr("has bundle format 3"));
}

TEST(UntrustedTest, MetadataThatRefersToTheSameBytesOverAndOverIsRefused) {
  // One View table listed 50,000 times, each of which would unpack to as many sizes.
  flatbuffers::FlatBufferBuilder f;
  std::vector<int> sizes(50000, 0);
  const auto vector = f.CreateVector(sizes);
  const auto view = fb::CreateView(f, 0, 0, vector, vector, 0);
  const auto views = f.CreateVector(std::vector<flatbuffers::Offset<fb::View>>(50000, view));
  fb::PlanBuilder plan(f);
  plan.add_views(views);
  const auto plans = f.CreateVector(std::vector<flatbuffers::Offset<fb::Plan>>(1, plan.Finish()));
  fb::BundleBuilder bundle(f);
  bundle.add_format(1);
  bundle.add_plans(plans);
  fb::FinishBundleBuffer(f, bundle.Finish());
  const auto decoded = DecodeBundle(absl::Span<const uint8_t>(f.GetBufferPointer(), f.GetSize()));
  EXPECT_EQ(decoded.status().code(), absl::StatusCode::kDataLoss);
}

template <typename T>
T& AppendBlock(fb::PlanT& plan) {
  auto step = std::make_unique<fb::StepT>();
  step->step.Set(T());
  T* out = static_cast<T*>(step->step.value);
  plan.blocks.push_back(std::make_unique<fb::BlockT>());
  plan.blocks.back()->steps.push_back(std::move(step));
  return *out;
}

fb::EagerProgramT& AddEagerPlan(fb::BundleT& b) {
  auto plan = std::make_unique<fb::PlanT>(*b.plans[0]);
  plan->variant = fb::VariantKind::EagerOrder;
  plan->eager = std::make_unique<fb::EagerProgramT>();
  fb::EagerProgramT& e = *plan->eager;
  e.num_values = 1;
  e.args.assign(b.args.size(), -1);
  e.states.assign(b.states.size(), -1);
  e.outputs.assign(b.outputs.size(), 0);
  e.blocks.push_back(std::make_unique<fb::EagerBlockT>());
  b.plans.push_back(std::move(plan));
  return e;
}

TEST(UntrustedTest, ABlockThatNoStepEntersIsRefused) {
  // Each would make loading or inspecting write or read outside of memory.
  EXPECT_THAT(MessageAfter([](fb::BundleT& b) { AppendBlock<fb::AllocT>(*b.plans[0]).slot = 100'000'000; }),
              HasSubstr("plan 0: block 3 is never entered"));
  EXPECT_THAT(MessageAfter([](fb::BundleT& b) { AppendBlock<fb::LibraryCallT>(*b.plans[1]).outputs = {0, 7000}; }),
              HasSubstr("plan 1: block 3 is never entered"));
  EXPECT_EQ(MessageAfter([](fb::BundleT& b) { AddEagerPlan(b); }), "");
  EXPECT_THAT(MessageAfter([](fb::BundleT& b) {
                auto instruction = std::make_unique<fb::EagerInstrT>();
                instruction->expr = 100'000'000;
                fb::EagerProgramT& e = AddEagerPlan(b);
                e.blocks.push_back(std::make_unique<fb::EagerBlockT>());
                e.blocks.back()->instrs.push_back(std::move(instruction));
              }),
              HasSubstr("plan 2: eager-order program: block 1 is never entered"));
}

TEST(UntrustedTest, BlocksOfACallInAnEagerOrderProgramAreVerifiedToo) {
  EXPECT_THAT(MessageAfter([](fb::BundleT& b) {
                auto call = std::make_unique<fb::BundleT>();
                call->format = b.format;
                call->abi = b.abi;
                call->exprs = {fb::ExprNode(fb::ExprOp::Constant, 0, 0, 0, 0)};
                auto plan = std::make_unique<fb::PlanT>();
                plan->convention = std::make_unique<fb::ConventionT>();
                plan->convention->outputs = std::make_unique<fb::OutputsLayerT>();
                plan->blocks.push_back(std::make_unique<fb::BlockT>());
                AppendBlock<fb::AllocT>(*plan).slot = 100'000'000;
                call->plans.push_back(std::move(plan));
                AddEagerPlan(b).calls.push_back(std::move(call));
              }),
              HasSubstr("plan 2: eager-order program: call 0: plan 0: block 1 is never entered"));
}

// Adds testops::f(Tensor(a!) x, int n) -> (Tensor(a!), Tensor[]) and a call of it.
fb::EagerInstrT& AddCustomCall(fb::BundleT& b) {
  auto op = std::make_unique<fb::CustomOperatorT>();
  op->name = "testops::f";
  for (int i = 0; i < 2; ++i) {
    op->args.push_back(std::make_unique<fb::CustomArgumentT>());
    op->results.push_back(std::make_unique<fb::CustomResultT>());
  }
  op->args[0]->writes = true;
  op->results[0]->shares = {0};
  op->results[0]->is_argument = true;
  op->results[1]->kind = fb::CustomResultKind::Tensors;
  b.custom_operators.push_back(std::move(op));
  auto call = std::make_unique<fb::EagerInstrT>();
  call->kind = fb::EagerKind::Custom;
  call->custom = 0;
  call->inputs = {0, 0};
  call->outputs = {-1, 0};
  for (int i = 0; i < 2; ++i) {
    call->stated.push_back(std::make_unique<fb::StatedResultT>());
    call->stated[i]->tensors.push_back(std::make_unique<fb::StatedTensorT>());
    call->stated[i]->tensors[0]->sizes = {0, -1};
  }
  fb::EagerBlockT& block = *AddEagerPlan(b).blocks[0];
  block.instrs.push_back(std::move(call));
  return *block.instrs[0];
}

TEST(UntrustedTest, CallsOfCustomOperatorsAreVerified) {
  // The right one lacks only an implementation.
  EXPECT_THAT(MessageAfter([](fb::BundleT& b) { AddCustomCall(b); }), HasSubstr("no implementation of: testops::f"));
  const std::vector<std::pair<std::function<void(fb::BundleT&, fb::EagerInstrT&)>, std::string>> damages = {
      {[](fb::BundleT&, fb::EagerInstrT& i) { i.custom = -1; }, "custom operator is -1, of 1"},
      {[](fb::BundleT&, fb::EagerInstrT& i) { i.custom = 100'000'000; }, "custom operator is 100000000, of 1"},
      {[](fb::BundleT&, fb::EagerInstrT& i) { i.inputs = {0}; }, "other arguments than the operator takes"},
      {[](fb::BundleT&, fb::EagerInstrT& i) { i.outputs = {0}; }, "other results than the operator gives"},
      {[](fb::BundleT&, fb::EagerInstrT& i) { i.stated.pop_back(); }, "other results than the operator gives"},
      {[](fb::BundleT&, fb::EagerInstrT& i) { i.stated[0]->tensors.clear(); }, "it states 0 types"},
      {[](fb::BundleT&, fb::EagerInstrT& i) { i.stated[1]->tensors[0]->dtype = 77; }, "dtype"},
      {[](fb::BundleT&, fb::EagerInstrT& i) { i.stated[1]->tensors[0]->sizes = {1 << 30}; }, "size (expression)"},
      {[](fb::BundleT&, fb::EagerInstrT& i) { i.stated[1]->tensors[0]->sizes.assign(65, 0); }, "bad rank"},
      {[](fb::BundleT& b, fb::EagerInstrT&) { b.custom_operators[0]->name = "a\nb"; }, "its name is no operator's"},
      {[](fb::BundleT& b, fb::EagerInstrT&) { b.custom_operators[0]->schema = "\xff"; }, "is not UTF-8"},
      {[](fb::BundleT& b, fb::EagerInstrT&) { b.custom_operators[0]->results[0]->shares = {2}; },
       "shares memory with is 2, of 2"},
      {[](fb::BundleT& b, fb::EagerInstrT&) { b.custom_operators[0]->results[1]->is_argument = true; },
       "it is an argument, but it is not said which"},
      {[](fb::BundleT& b, fb::EagerInstrT&) {
         b.custom_operators[0]->results[1]->kind = static_cast<fb::CustomResultKind>(9);
       },
       "its kind is unknown"},
  };
  for (const auto& [damage, message] : damages) {
    EXPECT_THAT(MessageAfter([&](fb::BundleT& b) { damage(b, AddCustomCall(b)); }), HasSubstr(message));
  }
}

TEST(UntrustedTest, StringsThatAreNotUtf8AreRefused) {
  const std::vector<std::function<std::string&(fb::BundleT&)>> strings = {
      [](fb::BundleT& b) -> std::string& { return b.model_name; },
      [](fb::BundleT& b) -> std::string& { return b.graph_text; },
      [](fb::BundleT& b) -> std::string& { return b.refused_patterns; },
      [](fb::BundleT& b) -> std::string& { return b.symbols[0]->name; },
      [](fb::BundleT& b) -> std::string& { return b.args[1]->name; },
      [](fb::BundleT& b) -> std::string& { return b.args[0]->string_value; },
      [](fb::BundleT& b) -> std::string& { return b.outputs[2]->name; },
      [](fb::BundleT& b) -> std::string& { return b.outputs[1]->node; },
      [](fb::BundleT& b) -> std::string& { return b.result_structure[3]->key; },
      [](fb::BundleT& b) -> std::string& { return b.result_structure[5]->type; },
      [](fb::BundleT& b) -> std::string& { return b.states[1]->name; },
      [](fb::BundleT& b) -> std::string& { return b.kernels[0]->spec; },
      [](fb::BundleT& b) -> std::string& { return b.targets[0]->name; },
      [](fb::BundleT& b) -> std::string& { return b.targets[0]->triple; },
      [](fb::BundleT& b) -> std::string& { return b.targets[0]->features.emplace_back(); },
      [](fb::BundleT& b) -> std::string& { return b.plans[0]->guards[0]->message; },
      [](fb::BundleT& b) -> std::string& { return b.plans[1]->guards[0]->source; },
      [](fb::BundleT& b) -> std::string& { return b.plans[0]->blocks[1]->steps[0]->source; },
      [](fb::BundleT& b) -> std::string& { return b.plans[0]->blocks[0]->steps[2]->step.AsLibraryCall()->op; },
      [](fb::BundleT& b) -> std::string& {
        return b.plans[0]->blocks[0]->steps[2]->step.AsLibraryCall()->strings.emplace_back();
      },
      [](fb::BundleT& b) -> std::string& {
        fb::EagerBlockT& block = *AddEagerPlan(b).blocks[0];
        block.instrs.push_back(std::make_unique<fb::EagerInstrT>());
        return block.instrs[0]->text;
      },
  };
  for (size_t i = 0; i < strings.size(); ++i) {
    // A lone continuation byte, truncated, overlong, a surrogate, beyond the last character.
    for (const char* text : {"\xff", "\x80", "a\xc3", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80"}) {
      EXPECT_THAT(MessageAfter([&](fb::BundleT& b) { strings[i](b) = text; }), HasSubstr("is not UTF-8")) << i;
    }
    EXPECT_THAT(MessageAfter([&](fb::BundleT& b) {
                  strings[i](b) =
                      "gr\xc3\xb6\xc3\x9f"
                      "er \xf0\x9f\x98\x80";
                }),
                Not(HasSubstr("is not UTF-8")))
        << i;
  }
}

TEST(UntrustedTest, StructuresThatDoNotFitTheValuesAreRefused) {
  EXPECT_THAT(MessageAfter([](fb::BundleT& b) { b.result_structure.pop_back(); }),
              HasSubstr("structure of the results: it ends before its last node"));
  EXPECT_THAT(MessageAfter([](fb::BundleT& b) { b.result_structure[7]->kind = fb::StructureKind::Leaf; }),
              HasSubstr("structure of the results: it has 5 leaves for 4 values"));
  EXPECT_THAT(MessageAfter([](fb::BundleT& b) { b.result_structure[2]->children = -1; }), HasSubstr("-1 children"));
  EXPECT_THAT(MessageAfter([](fb::BundleT& b) { b.result_structure[2]->children = INT_MAX; }),
              HasSubstr("ends before its last node"));
  EXPECT_THAT(MessageAfter([](fb::BundleT& b) { b.argument_structure = StructureTables({StructureNode()}); }),
              HasSubstr("structure of the arguments: it has 1 leaves for 4 values"));
  EXPECT_THAT(MessageAfter([](fb::BundleT& b) { b.result_structure[2]->kind = static_cast<fb::StructureKind>(7); }),
              HasSubstr("node 2: its kind is unknown"));
  EXPECT_THAT(MessageAfter([](fb::BundleT& b) { b.result_structure[2]->key_kind = static_cast<fb::StructureKey>(3); }),
              HasSubstr("node 2: the kind of its key is unknown"));
}

TEST(UntrustedTest, TypesOfResultsAreVerified) {
  EXPECT_THAT(MessageAfter([](fb::BundleT& b) { b.outputs[0]->sizes = {0, -1, 7000}; }),
              HasSubstr("output 0: size (expression) is 7000"));
  EXPECT_EQ(MessageAfter([](fb::BundleT& b) { b.outputs[0]->sizes = {0, -1}; }), "");
  EXPECT_THAT(MessageAfter([](fb::BundleT& b) { b.outputs[0]->sizes.assign(65, 0); }), HasSubstr("its rank is 65"));
  EXPECT_THAT(MessageAfter([](fb::BundleT& b) { b.outputs[0]->dtype = 99; }), HasSubstr("output 0: "));
}

TEST(UntrustedTest, StoragesThatShareBytesOrAreNotAlignedAreRefused) {
  EXPECT_THAT(MessageAfter([](fb::BundleT& b) { b.storages[1]->segment_offset = 64; }),
              HasSubstr("state storages 0 and 1 share bytes"));
  EXPECT_THAT(MessageAfter([](fb::BundleT& b) { b.storages[1]->segment_offset = 129; }),
              HasSubstr("state storage 1: its offset 129 is no multiple of 64"));
}

TEST(UntrustedTest, CountsThatTheFileDoesNotBearOutAreRefused) {
  EXPECT_THAT(MessageAfter([](fb::BundleT& b) { b.plans[0]->num_registers = 1 << 20; }),
              HasSubstr("plan 0: it has 1048576 registers for 16 steps"));
  EXPECT_THAT(MessageAfter([](fb::BundleT& b) { AddEagerPlan(b).num_values = 1 << 24; }),
              HasSubstr("it has 16777216 values for 11 definitions"));
  EXPECT_THAT(MessageAfter([](fb::BundleT& b) { AddEagerPlan(b).resized_states = {2}; }),
              HasSubstr("resized state is 2, of 2"));
}

TEST(UntrustedTest, FieldsThatNoPlanUsesAreVerifiedAllTheSame) {
  EXPECT_THAT(MessageAfter([](fb::BundleT& b) { b.plans[0]->other_strides = static_cast<fb::OtherStrides>(9); }),
              HasSubstr("plan 0: its rule for other strides is unknown"));
  EXPECT_THAT(MessageAfter([](fb::BundleT& b) { b.kernels[0]->key = "<script>"; }),
              HasSubstr("kernel 0: its key is no hexadecimal SHA-256"));
  EXPECT_THAT(MessageAfter([](fb::BundleT& b) {
                fb::EagerProgramT& e = AddEagerPlan(b);
                e.blocks[0]->instrs.push_back(std::make_unique<fb::EagerInstrT>());
                e.blocks[0]->instrs[0]->kind = fb::EagerKind::None;
                e.blocks[0]->instrs[0]->outputs = {0};
                e.blocks[0]->instrs[0]->sharing = {1};
              }),
              HasSubstr("it says how operands share memory that it does not have"));
  // Without elements, but its sizes overflow.
  EXPECT_THAT(MessageAfter([](fb::BundleT& b) {
                b.states[0]->sizes = {0, int64_t{1} << 40, int64_t{1} << 40};
                b.states[0]->strides = {1, 1, 1};
              }),
              HasSubstr("state 0: \"w\": its geometry overflows"));
}

TEST(UntrustedTest, AListOfStringsThatManyTablesNameIsRefusedAtOnce) {
  // FlatBuffers' verifier would visit 10^10 strings.
  constexpr int kMany = 100'000;
  flatbuffers::FlatBufferBuilder f;
  const auto feature = f.CreateString("avx2");
  const auto features = f.CreateVector(std::vector<flatbuffers::Offset<flatbuffers::String>>(kMany, feature));
  std::vector<flatbuffers::Offset<fb::TargetCode>> targets;
  for (int i = 0; i < kMany; ++i) {
    fb::TargetCodeBuilder target(f);
    target.add_features(features);
    targets.push_back(target.Finish());
  }
  const auto list = f.CreateVector(targets);
  fb::BundleBuilder bundle(f);
  bundle.add_format(1);
  bundle.add_targets(list);
  fb::FinishBundleBuffer(f, bundle.Finish());
  const auto decoded = DecodeBundle(absl::Span<const uint8_t>(f.GetBufferPointer(), f.GetSize()));
  EXPECT_EQ(decoded.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(decoded.status().message(), HasSubstr("the same strings over and over"));
}

TEST(UntrustedTest, PlansThatEachNeedAllExpressionsAreBounded) {
  // 5 MB that would load as 4 GB.
  HandBundle b;
  b.Const(0);
  for (int i = 1; i < 200'000; ++i) b.Node(fb::ExprOp::Add, i - 1, i - 1);
  for (int i = 0; i < 500; ++i) b.Plan().raw().arena_bytes = 199'999;
  EXPECT_THAT(Load(b.Pack()).message(), HasSubstr("more plans than expressions and arguments allow"));
}

// A library call on a state of one float, expanded, and on arguments, all of these sizes.
HandBundle MatmulOf(int64_t m, int64_t k, int64_t n) {
  HandBundle b;
  b.State("w", {1}, false);
  const auto sizes = [&](int64_t rows, int64_t columns) { return b.Consts({rows, columns}); };
  b.TensorArg("x", DType::kFloat32, sizes(m, k), b.Consts({k, 1}));
  b.TensorArg("y", DType::kFloat32, sizes(m, n), b.Consts({n, 1}));
  HandPlan p = b.Plan();
  const int w = p.View(p.StateSlot(0), sizes(k, n), b.Consts({0, 0}));
  const int x = p.View(p.ArgSlot(0), sizes(m, k), b.Consts({k, 1}));
  const int y = p.View(p.ArgSlot(1), sizes(m, n), b.Consts({n, 1}));
  auto* call = p.Step<fb::LibraryCallT>();
  call->op = "matmul";
  call->inputs = {x, w, -1};
  call->outputs = {y};
  return b;
}

TEST(UntrustedTest, LoadingPreparesNoLibraryCallOutOfProportionToTheFile) {
  // Packed it would take 4 TB; the other has 67 million tiles.
  for (auto [m, k, n] :
       {std::tuple(2, 1 << 20, 1 << 20), std::tuple(2, 1 << 15, 1 << 14), std::tuple(INT32_MAX, 2, 3)}) {
    auto program = MatmulOf(m, k, n).TryLoad();
    ASSERT_TRUE(program.ok()) << program.status();
    EXPECT_EQ((*program)->packed_weight_bytes(), 0);
  }
}

}  // namespace
}  // namespace smelt
