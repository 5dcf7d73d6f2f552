#include "smelt/schema/bundle.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "flatbuffers/flatbuffers.h"
#include "flatbuffers/util.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/core/tensor/layout_rule.h"
#include "smelt/schema/bundle_signature.h"
#include "smelt/schema/cuda_launch.h"

namespace smelt {
namespace {

constexpr int64_t kMaxMetadataBytes = int64_t{1} << 30;
constexpr int kMaxBlockDepth = 64;
constexpr int kMaxRank = 64;
// Bundle > Plan > Block > Step > Launch, or > Convention > layer > entry: 6 deep, and twice that if a plan holds the
// calls of an eager-order program. A method is one more.
constexpr int kMaxTableDepth = 16;
// The alignment that the writer uses. Elements of every dtype are then aligned.
constexpr int64_t kStorageAlignment = 64;
constexpr uint8_t kMaxOperandSharing = 4;  // the last value of OperandSharing, core/tensor/element_order.h

flatbuffers::Verifier VerifierOf(absl::Span<const uint8_t> bytes) {
  // A table takes at least 8 bytes.
  return flatbuffers::Verifier(bytes.data(), bytes.size(), kMaxTableDepth,
                               /*max_tables=*/static_cast<flatbuffers::uoffset_t>(bytes.size() / 4 + 16));
}

// Sums the lengths of all lists of strings, before anything else is verified. FlatBuffers' verifier reads such a list
// as often as tables refer to it: a million tables with one list of a million strings would take it an hour. It
// verifies all other vectors in constant time, or counts their elements as tables.
class StringLists {
 public:
  explicit StringLists(absl::Span<const uint8_t> bytes)
      : data_(bytes.data()), verifier_(VerifierOf(bytes)), left_(static_cast<int64_t>(bytes.size())) {}

  // Returns whether the lists hold at most as many strings as the file has bytes. Returns true also if the structure is
  // wrong, which the verifier will find.
  bool AreShort() {
    const size_t root = verifier_.VerifyOffset(0);
    if (root != 0) InTable(reinterpret_cast<const fb::Bundle*>(data_ + root), [&](const auto& b) { return Bundle(b); });
    return left_ >= 0;
  }

 private:
  using Strings = flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>;

  // The generated tables inherit it privately.
  template <typename T>
  static const flatbuffers::Table& TableOf(const T& t) {
    return reinterpret_cast<const flatbuffers::Table&>(t);
  }
  template <typename T, typename F>
  bool InTable(const T* t, F f) {
    return TableOf(*t).VerifyTableStart(verifier_) && f(*t) && left_ >= 0 && verifier_.EndTable();
  }
  template <typename T, typename P>
  bool HasList(const P& parent, flatbuffers::voffset_t field, const T* (P::*get)() const) {
    return TableOf(parent).VerifyOffset(verifier_, field) && verifier_.VerifyVector((parent.*get)());
  }
  template <typename T, typename P, typename F>
  bool Each(const P& parent, flatbuffers::voffset_t field,
            const flatbuffers::Vector<flatbuffers::Offset<T>>* (P::*get)() const, F f) {
    if (!HasList(parent, field, get)) return false;
    if ((parent.*get)() == nullptr) return true;
    for (const T* t : *(parent.*get)()) {
      if (!InTable(t, f)) return false;
    }
    return true;
  }
  template <typename P>
  bool Count(const P& parent, flatbuffers::voffset_t field, const Strings* (P::*get)() const) {
    if (!HasList(parent, field, get)) return false;
    if ((parent.*get)() != nullptr) left_ -= (parent.*get)()->size();
    return true;
  }

  bool Bundle(const fb::Bundle& b) {
    const auto target = [&](const fb::TargetCode& t) {
      return Count(t, fb::TargetCode::VT_FEATURES, &fb::TargetCode::features);
    };
    return Each(b, fb::Bundle::VT_TARGETS, &fb::Bundle::targets, target) &&
           Each(b, fb::Bundle::VT_PLANS, &fb::Bundle::plans, [&](const fb::Plan& p) { return Plan(p); }) &&
           Each(b, fb::Bundle::VT_METHODS, &fb::Bundle::methods, [&](const fb::Bundle& m) { return Bundle(m); });
  }
  bool Plan(const fb::Plan& p) {
    const auto block = [&](const fb::Block& b) {
      return Each(b, fb::Block::VT_STEPS, &fb::Block::steps, [&](const fb::Step& s) { return Step(s); });
    };
    if (!Each(p, fb::Plan::VT_BLOCKS, &fb::Plan::blocks, block)) return false;
    if (!TableOf(p).VerifyOffset(verifier_, fb::Plan::VT_EAGER)) return false;
    return p.eager() == nullptr || InTable(p.eager(), [&](const fb::EagerProgram& e) {
             return Each(e, fb::EagerProgram::VT_CALLS, &fb::EagerProgram::calls,
                         [&](const fb::Bundle& b) { return Bundle(b); });
           });
  }
  bool Step(const fb::Step& s) {
    const flatbuffers::voffset_t type = TableOf(s).GetOptionalFieldOffset(fb::Step::VT_STEP_TYPE);
    const size_t at = static_cast<size_t>(reinterpret_cast<const uint8_t*>(&s) - data_);
    if (type == 0 || !verifier_.Verify(at + type, 1) || s.step_type() != fb::StepUnion::LibraryCall) return true;
    if (!TableOf(s).VerifyOffset(verifier_, fb::Step::VT_STEP)) return false;
    return s.step() == nullptr || InTable(s.step_as_LibraryCall(), [&](const fb::LibraryCall& l) {
             return Count(l, fb::LibraryCall::VT_STRINGS, &fb::LibraryCall::strings);
           });
  }

  const uint8_t* data_;
  flatbuffers::Verifier verifier_;
  int64_t left_;
};

// Counts the memory that unpacking would allocate, and that loading would allocate for each plan. A hostile table can
// refer to one large vector a million times: the verifier, which sees each reference as valid, accepts that. It also
// accepts any alignment of a vector's elements of 8 bytes.
class UnpackBudget {
 public:
  explicit UnpackBudget(size_t bytes)
      : left_(static_cast<int64_t>(bytes) * 16 + (1 << 20)),
        plans_left_(static_cast<int64_t>(bytes) * 64 + (1 << 24)),
        methods_left_(static_cast<int64_t>(bytes) * 64 + (1 << 26)) {}
  bool exhausted() const { return left_ < 0; }
  bool plans_exhausted() const { return plans_left_ < 0; }
  bool methods_exhausted() const { return methods_left_ < 0; }
  bool misaligned() const { return misaligned_; }

  // `shared_states`: the storages and states of the bundle that `b` is a method of.
  void Add(const fb::Bundle& b, int64_t shared_states = 0) {
    Table();
    // A loaded plan lists the expressions that it needs, and has a few bytes of each argument, symbol and state.
    const auto size = [](const auto* list) { return list == nullptr ? int64_t{0} : int64_t{list->size()}; };
    const int64_t num_states = size(b.storages()) + size(b.states()) + shared_states;
    plans_left_ -=
        size(b.plans()) * (8 * size(b.exprs()) + 64 * size(b.args()) + 16 * (size(b.symbols()) + num_states));
    if (plans_exhausted()) return;
    Str(b.model_name());
    Vec(b.exprs());
    Str(b.graph_text());
    Str(b.refused_patterns());
    Each(b.symbols(), [&](const fb::SymbolDef& s) { Str(s.name()); });
    Each(b.args(), [&](const fb::ArgDef& a) {
      Str(a.name());
      Str(a.string_value());
      Vec(a.sizes());
      Vec(a.strides());
    });
    Each(b.outputs(), [&](const fb::OutputDef& o) { Str(o.name()), Str(o.node()), Vec(o.sizes()); });
    for (const auto* structure : {b.argument_structure(), b.result_structure()}) {
      Each(structure, [&](const fb::StructureNode& n) { Str(n.key()), Str(n.type()); });
    }
    const int64_t before_states = left_;
    Each(b.storages(), [](const fb::StateStorage&) {});
    Each(b.states(), [&](const fb::StateTensor& s) {
      Str(s.name());
      Vec(s.sizes());
      Vec(s.strides());
    });
    // Each method gets a copy of the states.
    const int64_t copied = before_states - left_, methods = size(b.methods());
    if (methods > 0 && copied > methods_left_ / methods) methods_left_ = -1;
    if (exhausted() || methods_exhausted()) return;
    methods_left_ -= copied * methods;
    Each(b.kernels(), [&](const fb::Kernel& k) {
      Str(k.key());
      Str(k.spec());
    });
    Each(b.targets(), [&](const fb::TargetCode& t) {
      Str(t.name());
      Str(t.triple());
      Strs(t.features());
      Each(t.kernels(), [&](const fb::TargetKernel& k) {
        Str(k.key());
        if (k.cuda() == nullptr) return;
        Table();
        Each(k.cuda()->stages(), [&](const fb::CudaStage& s) { Str(s.entry()), Vec(s.factors()); });
      });
    });
    Each(b.plans(), [&](const fb::Plan& p) { Add(p); });
    Each(b.custom_operators(), [&](const fb::CustomOperator& o) {
      Str(o.name()), Str(o.schema());
      Each(o.args(), [&](const fb::CustomArgument& a) { Str(a.name()); });
      Each(o.results(), [&](const fb::CustomResult& r) { Str(r.name()), Vec(r.shares()); });
    });
    Str(b.method());
    Each(b.methods(), [&](const fb::Bundle& m) { Add(m, num_states); });
  }

 private:
  void Add(const fb::EagerProgram& e) {
    Table();
    Vec(e.args()), Vec(e.states()), Vec(e.outputs()), Vec(e.resized_states());
    Each(e.tensors(), [&](const fb::EagerTensor& t) { Vec(t.sizes()); });
    Each(e.blocks(), [&](const fb::EagerBlock& b) {
      Vec(b.params()), Vec(b.results());
      Each(b.instrs(), [&](const fb::EagerInstr& i) {
        Table();
        Str(i.op()), Str(i.text()), Str(i.source());
        Vec(i.inputs()), Vec(i.outputs()), Vec(i.blocks()), Vec(i.layout_inputs()), Vec(i.targets());
        Vec(i.ints()), Vec(i.floats()), Vec(i.sharing()), Vec(i.layout_rule());
        Each(i.stated(),
             [&](const fb::StatedResult& r) { Each(r.tensors(), [&](const fb::StatedTensor& t) { Vec(t.sizes()); }); });
      });
    });
    Each(e.calls(), [&](const fb::Bundle& b) { Add(b); });
  }
  void Add(const fb::Plan& p) {
    if (p.eager() != nullptr) Add(*p.eager());
    if (const fb::Convention* c = p.convention()) {
      Table();
      if (c->duplicates()) Table(), Vec(c->duplicates()->inner_of_outer());
      if (c->overlaps()) Table(), Each(c->overlaps()->groups(), [&](const fb::OverlapGroup& g) { Vec(g.members()); });
      if (c->mutated()) Table(), Each(c->mutated()->inputs(), [&](const fb::MutatedInput& m) { Vec(m.written()); });
      if (c->outputs()) Table(), Each(c->outputs()->outputs(), [](const fb::OutputRef&) {});
    }
    Each(p.guards(), [&](const fb::Guard& g) { Str(g.message()), Str(g.source()); });
    Each(p.slots(), [](const fb::Slot&) {});
    Each(p.views(), [&](const fb::View& v) { Vec(v.sizes()), Vec(v.strides()); });
    Each(p.prologue_checks(), [&](const fb::Check& c) { Str(c.message()), Str(c.source()); });
    Vec(p.result_rule());
    Vec(p.written_args());
    Vec(p.written_states());
    Each(p.blocks(), [&](const fb::Block& b) {
      Each(b.steps(), [&](const fb::Step& s) {
        Str(s.source());
        Table();
        if (const fb::Launch* l = s.step_as_Launch()) Vec(l->words()), Vec(l->reads()), Vec(l->writes());
        if (const fb::LibraryCall* l = s.step_as_LibraryCall()) {
          Str(l->op());
          Vec(l->inputs()), Vec(l->outputs()), Vec(l->ints()), Vec(l->floats());
          Strs(l->strings());
        }
        if (const fb::Check* c = s.step_as_Check()) Str(c->message()), Str(c->source());
        if (const fb::ComputeNumber* c = s.step_as_ComputeNumber()) Vec(c->inputs());
      });
    });
  }
  void Table() { left_ -= 128; }
  void Str(const flatbuffers::String* s) {
    if (s) left_ -= s->size();
  }
  template <typename T>
  void Vec(const flatbuffers::Vector<T>* v) {
    if (!v) return;
    left_ -= static_cast<int64_t>(v->size()) * 24;
    const size_t alignment = alignof(std::remove_pointer_t<T>);
    if (v->size() > 0 && reinterpret_cast<uintptr_t>(v->Data()) % alignment != 0) misaligned_ = true;
  }
  void Strs(const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* v) {
    if (!v) return;
    for (const flatbuffers::String* s : *v) {
      if (exhausted()) return;
      Table();
      Str(s);
    }
  }
  template <typename T, typename F>
  void Each(const flatbuffers::Vector<flatbuffers::Offset<T>>* v, F f) {
    if (!v) return;
    for (const T* t : *v) {
      if (exhausted()) return;
      Table();
      f(*t);
    }
  }

  int64_t left_, plans_left_, methods_left_;
  bool misaligned_ = false;
};

absl::Status Bad(absl::string_view what) { return absl::DataLossError(std::string(what)); }

// Checks `index` of `count` things called `what`.
absl::Status InRange(int64_t index, size_t count, absl::string_view what) {
  if (index >= 0 && index < static_cast<int64_t>(count)) return absl::OkStatus();
  return Bad(absl::StrCat(what, " is ", index, ", of ", count));
}
absl::Status InRangeOrNone(int64_t index, size_t count, absl::string_view what) {
  return index == -1 ? absl::OkStatus() : InRange(index, count, what);
}

// Readers print strings as they are, and JSON has no others.
absl::Status Text(const std::string& text, absl::string_view what) {
  const char* at = text.c_str();
  while (at < text.c_str() + text.size()) {
    if (flatbuffers::FromUTF8(&at) < 0) return Bad(absl::StrCat(what, " is not UTF-8"));
  }
  return absl::OkStatus();
}
absl::Status Texts(const std::vector<std::string>& texts, absl::string_view what) {
  for (const std::string& text : texts) SMELT_RETURN_IF_ERROR(Text(text, what));
  return absl::OkStatus();
}
// A key names files and symbols.
absl::Status Key(absl::string_view key) {
  const bool is_hex = std::all_of(key.begin(), key.end(), [](char c) { return absl::ascii_isxdigit(c); });
  return is_hex && key.size() <= 64 ? absl::OkStatus() : Bad("its key is no hexadecimal SHA-256");
}

template <typename T, typename F>
absl::Status EachOf(const std::vector<T>& items, absl::string_view what, F verify) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (absl::Status s = verify(items[i]); !s.ok()) return Annotate(s, absl::StrCat(what, " ", i));
  }
  return absl::OkStatus();
}

class Verifier {
 public:
  Verifier(const fb::BundleT& b, const Container* c)
      : b_(b), c_(c), part_(Part::kWhole), kernels_(b.kernels), storages_(b.storages), states_(b.states) {}

  absl::Status Run() {
    if (b_.format > kMethodsFormat) {
      return absl::UnimplementedError(
          absl::StrCat("has bundle format ", b_.format, "; this program reads up to ", kMethodsFormat));
    }
    if (b_.format < 1) return Bad("bundle format is 0");
    SMELT_RETURN_IF_ERROR(Methods());
    if (b_.abi != kKernelAbi) {
      return absl::UnimplementedError(absl::StrCat("has kernel ABI ", b_.abi, "; this program has ", kKernelAbi));
    }
    SMELT_RETURN_IF_ERROR(Text(b_.model_name, "the model's name"));
    SMELT_RETURN_IF_ERROR(Text(b_.graph_text, "the graph's text"));
    SMELT_RETURN_IF_ERROR(Text(b_.refused_patterns, "the reason of refused patterns"));
    SMELT_RETURN_IF_ERROR(Exprs());
    SMELT_RETURN_IF_ERROR(EachOf(b_.symbols, "symbol", [&](const auto& s) { return Symbol(*s); }));
    SMELT_RETURN_IF_ERROR(EachOf(b_.args, "argument", [&](const auto& a) { return Arg(*a); }));
    SMELT_RETURN_IF_ERROR(EachOf(b_.outputs, "output", [&](const auto& o) { return Output(*o); }));
    SMELT_RETURN_IF_ERROR(Annotate(Structure(b_.argument_structure, b_.args.size()), "structure of the arguments"));
    SMELT_RETURN_IF_ERROR(Annotate(Structure(b_.result_structure, b_.outputs.size()), "structure of the results"));
    SMELT_RETURN_IF_ERROR(EachOf(b_.storages, "state storage", [&](const auto& s) { return Storage(*s); }));
    SMELT_RETURN_IF_ERROR(StoragesAreApart());
    SMELT_RETURN_IF_ERROR(EachOf(b_.states, "state", [&](const auto& s) { return State(*s); }));
    SMELT_RETURN_IF_ERROR(EachOf(b_.kernels, "kernel", [&](const auto& k) {
      SMELT_RETURN_IF_ERROR(Key(k->key));
      SMELT_RETURN_IF_ERROR(Text(k->spec, "its spec"));
      return k->num_words >= 0 && k->num_words <= 1 << 20 ? absl::OkStatus()
                                                          : Bad(absl::StrCat("num_words is ", k->num_words));
    }));
    SMELT_RETURN_IF_ERROR(EachOf(b_.targets, "target", [&](const auto& t) { return Target(*t); }));
    SMELT_RETURN_IF_ERROR(
        EachOf(b_.custom_operators, "custom operator", [&](const auto& o) { return CustomOperator(*o); }));
    SMELT_RETURN_IF_ERROR(EachOf(b_.plans, "plan", [&](const auto& p) { return Plan(*p); }));
    for (const auto& m : b_.methods) {
      SMELT_RETURN_IF_ERROR(
          Annotate(Verifier(*m, *this, Part::kMethod).Run(), absl::StrCat("method \"", m->method, "\"")));
    }
    return absl::OkStatus();
  }

 private:
  enum class Part {
    kWhole,
    kMethod,  // of a bundle, whose kernels, storages and states it uses
    kCall,    // of an eager-order program: it uses its kernels, and has no states
  };
  Verifier(const fb::BundleT& b, const Verifier& outer, Part part)
      : b_(b),
        c_(nullptr),
        part_(part),
        kernels_(outer.kernels_),
        storages_(part == Part::kMethod ? outer.storages_ : b.storages),
        states_(part == Part::kMethod ? outer.states_ : b.states) {}

  // Checks that the bundle is one program, or several that have none of what is the bundle's.
  absl::Status Methods() const {
    if (!b_.method.empty() && !IsMethodName(b_.method)) return Bad("the method's name is no identifier");
    if ((b_.format == kMethodsFormat) != !b_.methods.empty())
      return Bad(absl::StrCat("has bundle format ", b_.format, " and ", b_.methods.size(), " methods"));
    if (b_.methods.empty()) return absl::OkStatus();
    if (part_ != Part::kWhole) return Bad("has methods inside a method or a call");
    if (!b_.plans.empty() || !b_.exprs.empty() || !b_.symbols.empty() || !b_.args.empty() || !b_.outputs.empty() ||
        !b_.custom_operators.empty() || !b_.method.empty()) {
      return Bad("has methods beside a program of its own");
    }
    std::vector<absl::string_view> names;
    for (const auto& m : b_.methods) {
      if (!IsMethodName(m->method)) return Bad("the name of a method is no identifier");
      if (!m->storages.empty() || !m->states.empty() || !m->kernels.empty() || !m->targets.empty())
        return Bad("a method has states or kernels of its own");
      names.push_back(m->method);
    }
    std::sort(names.begin(), names.end());
    if (std::adjacent_find(names.begin(), names.end()) != names.end()) return Bad("two methods have one name");
    return absl::OkStatus();
  }

  absl::Status Expr(int e, absl::string_view what) const {
    return InRange(e, b_.exprs.size(), absl::StrCat(what, " (expression)"));
  }
  absl::Status Exprs(const std::vector<int>& list, absl::string_view what) const {
    for (int e : list) SMELT_RETURN_IF_ERROR(Expr(e, what));
    return absl::OkStatus();
  }

  absl::Status Exprs() {
    // depends_on_data_: whether a Data symbol occurs, known only while the plan runs.
    depends_on_data_.resize(b_.exprs.size());
    for (size_t i = 0; i < b_.exprs.size(); ++i) {
      const fb::ExprNode& n = b_.exprs[i];
      const std::string where = absl::StrCat("expression ", i);
      if (n.op() > fb::ExprOp::MAX) return Bad(absl::StrCat(where, ": its op is unknown"));
      if (n.op() == fb::ExprOp::Constant) continue;
      if (n.op() == fb::ExprOp::Symbol) {
        SMELT_RETURN_IF_ERROR(Annotate(InRange(n.a(), b_.symbols.size(), "symbol"), where));
        depends_on_data_[i] = b_.symbols[n.a()]->source == fb::SymbolSource::Data;
        continue;
      }
      const auto operand = [&](int o) {
        if (o >= 0 && o < static_cast<int>(i)) {
          if (depends_on_data_[o]) depends_on_data_[i] = true;
          return absl::OkStatus();
        }
        return Bad(absl::StrCat(where, ": operand ", o, " is no earlier expression"));
      };
      SMELT_RETURN_IF_ERROR(operand(n.a()));
      if (n.op() != fb::ExprOp::Not) SMELT_RETURN_IF_ERROR(operand(n.b()));
      if (n.op() == fb::ExprOp::Select) SMELT_RETURN_IF_ERROR(operand(n.c()));
    }
    return absl::OkStatus();
  }

  absl::Status DTypeOf(uint8_t dtype) const {
    return dtype < kNumDTypes ? absl::OkStatus() : Bad(absl::StrCat("dtype is ", int{dtype}));
  }

  absl::Status Symbol(const fb::SymbolDefT& s) const {
    using S = fb::SymbolSource;
    SMELT_RETURN_IF_ERROR(Text(s.name, "its name"));
    if (s.source > S::MAX) return Bad("its source is unknown");
    if (s.min > s.max) return Bad(absl::StrCat(s.name, ": its range is empty"));
    if (s.scale == 0) return Bad(absl::StrCat(s.name, ": scale is 0"));
    if (s.source == S::Data) return absl::OkStatus();
    if (s.source == S::StateOffset) return InRange(s.arg, states_.size(), absl::StrCat(s.name, ": state"));
    SMELT_RETURN_IF_ERROR(InRange(s.arg, b_.args.size(), absl::StrCat(s.name, ": argument")));
    const fb::ArgDefT& a = *b_.args[s.arg];
    if (s.source == S::ArgInt) {
      return a.kind == fb::ArgKind::Int || a.kind == fb::ArgKind::Bool
                 ? absl::OkStatus()
                 : Bad(absl::StrCat(s.name, ": argument ", s.arg, " is no integer"));
    }
    if (a.kind != fb::ArgKind::Tensor) return Bad(absl::StrCat(s.name, ": argument ", s.arg, " is no tensor"));
    if (s.source == S::ArgSize || s.source == S::ArgStride) {
      return InRange(s.dim, a.sizes.size(), absl::StrCat(s.name, ": dim"));
    }
    return absl::OkStatus();
  }

  absl::Status Arg(const fb::ArgDefT& a) const {
    SMELT_RETURN_IF_ERROR(Text(a.name, "its name"));
    SMELT_RETURN_IF_ERROR(Text(a.string_value, "its value"));
    if (a.kind > fb::ArgKind::MAX) return Bad("its kind is unknown");
    if (a.kind == fb::ArgKind::Int && a.value != -1) {
      SMELT_RETURN_IF_ERROR(InRange(a.value, b_.exprs.size(), "value"));
      if (depends_on_data_[a.value]) return Bad("its value depends on data");
    }
    if (a.kind != fb::ArgKind::Tensor) return absl::OkStatus();
    SMELT_RETURN_IF_ERROR(DTypeOf(a.dtype));
    if (a.sizes.size() > kMaxRank) return Bad(absl::StrCat("its rank is ", a.sizes.size()));
    if (a.strides.size() != a.sizes.size()) return Bad("it has not as many strides as sizes");
    SMELT_RETURN_IF_ERROR(Exprs(a.sizes, "size"));
    SMELT_RETURN_IF_ERROR(Exprs(a.strides, "stride"));
    for (const std::vector<int>* list : {&a.sizes, &a.strides}) {
      for (int e : *list) {
        if (depends_on_data_[e]) return Bad("its type depends on data");
      }
    }
    return absl::OkStatus();
  }

  absl::Status Output(const fb::OutputDefT& o) const {
    SMELT_RETURN_IF_ERROR(Text(o.name, "its name"));
    SMELT_RETURN_IF_ERROR(Text(o.node, "its node's name"));
    if (o.kind > fb::ArgKind::MAX) return Bad("its kind is unknown");
    SMELT_RETURN_IF_ERROR(DTypeOf(o.dtype));
    if (o.sizes.size() > kMaxRank) return Bad(absl::StrCat("its rank is ", o.sizes.size()));
    for (int e : o.sizes) SMELT_RETURN_IF_ERROR(InRangeOrNone(e, b_.exprs.size(), "size (expression)"));
    return absl::OkStatus();
  }

  static absl::Status Structure(const std::vector<std::unique_ptr<fb::StructureNodeT>>& nodes, size_t leaves) {
    if (nodes.empty()) return absl::OkStatus();
    SMELT_RETURN_IF_ERROR(EachOf(nodes, "node", [](const auto& n) {
      if (n->kind > fb::StructureKind::MAX) return Bad("its kind is unknown");
      if (n->key_kind > fb::StructureKey::MAX) return Bad("the kind of its key is unknown");
      SMELT_RETURN_IF_ERROR(Text(n->key, "its key"));
      return Text(n->type, "its type");
    }));
    const absl::Status s = CheckStructure(StructureOf(nodes), leaves);
    return s.ok() ? s : Bad(s.message());
  }

  absl::Status Storage(const fb::StateStorageT& s) const {
    if (s.bytes < 0 || s.segment_offset < 0) return Bad("its bytes or offset are negative");
    if (s.bytes == 0 || c_ == nullptr) return absl::OkStatus();
    SMELT_RETURN_IF_ERROR(InRange(s.segment, c_->segments().size(), "segment"));
    const Segment& segment = c_->segments()[s.segment];
    if (segment.kind != SegmentKind::kWeights) return Bad(absl::StrCat("segment ", s.segment, " holds no weights"));
    if (s.segment_offset > segment.size || s.bytes > segment.size - s.segment_offset) {
      return Bad(absl::StrCat(s.bytes, " bytes at ", s.segment_offset, " do not lie in segment ", s.segment, " of ",
                              segment.size, " bytes"));
    }
    if (s.segment_offset % kStorageAlignment != 0) {
      return Bad(absl::StrCat("its offset ", s.segment_offset, " is no multiple of ", kStorageAlignment));
    }
    return absl::OkStatus();
  }

  // An instance copies storages that are written. Storages that share bytes would take memory as often as they are
  // listed. Equal ones that no call writes are mapped and may lie at one place.
  absl::Status StoragesAreApart() const {
    if (c_ == nullptr) return absl::OkStatus();
    std::vector<int> order;
    for (size_t i = 0; i < storages_.size(); ++i) {
      if (storages_[i]->bytes > 0) order.push_back(static_cast<int>(i));
    }
    const auto place = [&](int i) { return std::pair(storages_[i]->segment, storages_[i]->segment_offset); };
    std::sort(order.begin(), order.end(), [&](int a, int b) { return place(a) < place(b); });
    for (size_t i = 1; i < order.size(); ++i) {
      const fb::StateStorageT &before = *storages_[order[i - 1]], &s = *storages_[order[i]];
      if (before.segment == s.segment && before.segment_offset == s.segment_offset && before.bytes == s.bytes &&
          !before.is_mutated && !s.is_mutated) {
        continue;
      }
      if (before.segment == s.segment && before.bytes > s.segment_offset - before.segment_offset) {
        return Bad(absl::StrCat("state storages ", order[i - 1], " and ", order[i], " share bytes"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status State(const fb::StateTensorT& s) const {
    SMELT_RETURN_IF_ERROR(Text(s.name, "its name"));
    const std::string who = absl::StrCat("\"", s.name, "\"");
    if (s.kind > fb::StateKind::MAX) return Bad(absl::StrCat(who, ": its kind is unknown"));
    SMELT_RETURN_IF_ERROR(DTypeOf(s.dtype));
    SMELT_RETURN_IF_ERROR(Annotate(InRange(s.storage, storages_.size(), "storage"), who));
    if (s.sizes.size() != s.strides.size() || s.sizes.size() > kMaxRank) return Bad(absl::StrCat(who, ": bad rank"));
    // Checks the bounds, counted in elements, with checked arithmetic, also for a tensor without elements, where a size
    // of 0 counts as 1. A tensor with strides of 0 has more elements than its storage.
    const int64_t item = ItemSize(static_cast<DType>(s.dtype));
    int64_t elements = item, low = s.offset, high = s.offset;
    bool empty = false;
    for (size_t d = 0; d < s.sizes.size(); ++d) {
      if (s.sizes[d] < 0) return Bad(absl::StrCat(who, ": size ", d, " is ", s.sizes[d]));
      if (s.sizes[d] == 0) empty = true;
    }
    for (size_t d = 0; d < s.sizes.size(); ++d) {
      const int64_t size = std::max<int64_t>(s.sizes[d], 1);
      int64_t reach;
      if (__builtin_mul_overflow(elements, size, &elements) || __builtin_mul_overflow(size - 1, s.strides[d], &reach) ||
          __builtin_add_overflow(reach < 0 ? low : high, reach, reach < 0 ? &low : &high)) {
        return Bad(absl::StrCat(who, ": its geometry overflows"));
      }
    }
    const int64_t limit = storages_[s.storage]->bytes / item;
    if (empty ? s.offset < 0 || s.offset > INT64_MAX / 16 : low < 0 || high >= limit) {
      return Bad(absl::StrCat(who, ": it reaches elements ", low, " to ", high, " of storage ", s.storage,
                              ", which has ", limit));
    }
    return absl::OkStatus();
  }

  absl::Status CodeSegment(int number, bool is_ptx, absl::string_view target, absl::string_view what) const {
    SMELT_RETURN_IF_ERROR(InRange(number, c_->segments().size(), absl::StrCat(target, ": ", what)));
    if (c_->segments()[number].kind != SegmentKind::kCode) {
      return Bad(absl::StrCat(target, ": segment ", number, " holds no code"));
    }
    // The driver reads PTX up to a zero.
    if (is_ptx && (c_->bytes(number).empty() || c_->bytes(number).back() != 0)) {
      return Bad(absl::StrCat(target, ": segment ", number, " is no PTX that ends with a zero"));
    }
    return absl::OkStatus();
  }
  absl::Status Target(const fb::TargetCodeT& t) const {
    SMELT_RETURN_IF_ERROR(Text(t.name, "its name"));
    SMELT_RETURN_IF_ERROR(Text(t.triple, "its triple"));
    SMELT_RETURN_IF_ERROR(Texts(t.features, "a feature"));
    for (const auto& k : t.kernels) SMELT_RETURN_IF_ERROR(Key(k->key));
    if (t.kernels.size() != b_.kernels.size()) {
      return Bad(absl::StrCat(t.name, ": it has ", t.kernels.size(), " kernels, the bundle ", b_.kernels.size()));
    }
    if (t.features.size() > 1000) return Bad(absl::StrCat(t.name, ": too many features"));
    if (t.compute_capability < 0 || t.compute_capability > 10'000) {
      return Bad(absl::StrCat(t.name, ": its compute capability is ", t.compute_capability));
    }
    for (size_t i = 0; i < t.kernels.size(); ++i) {
      if (t.kernels[i]->cuda == nullptr) continue;
      if (absl::Status s = VerifyCudaKernel(*t.kernels[i]->cuda, b_.kernels[i]->num_words); !s.ok()) {
        return Annotate(s, absl::StrCat(t.name, ": kernel ", i));
      }
    }
    if (c_ == nullptr) return absl::OkStatus();
    if (t.ptx_segment != -1) SMELT_RETURN_IF_ERROR(CodeSegment(t.ptx_segment, /*is_ptx=*/true, t.name, "PTX segment"));
    int64_t image = 0;
    if (!t.kernels.empty()) {
      SMELT_RETURN_IF_ERROR(CodeSegment(t.image_segment, t.is_ptx, t.name, "image segment"));
      image = c_->segments()[t.image_segment].size;
    }
    return EachOf(t.kernels, absl::StrCat(t.name, ": kernel"), [&](const auto& k) {
      if (k->offset < 0 || k->size <= 0 || k->offset >= image || k->size > image - k->offset) {
        return Bad(absl::StrCat(k->size, " bytes at ", k->offset, " do not lie in the image of ", image, " bytes"));
      }
      return absl::OkStatus();
    });
  }

  absl::Status Plan(const fb::PlanT& p) {
    if (p.variant > fb::VariantKind::MAX) return Bad("its variant is unknown");
    if (p.other_strides > fb::OtherStrides::MAX) return Bad("its rule for other strides is unknown");
    // Steps give registers their values.
    size_t steps = 0;
    for (const auto& block : p.blocks) steps += block->steps.size();
    if (p.num_registers < 0 || p.num_registers > 1 << 20 || p.num_registers / 16 > static_cast<int64_t>(steps)) {
      return Bad(absl::StrCat("it has ", p.num_registers, " registers for ", steps, " steps"));
    }
    SMELT_RETURN_IF_ERROR(Convention(p));
    SMELT_RETURN_IF_ERROR(EachOf(p.guards, "guard", [&](const auto& g) {
      SMELT_RETURN_IF_ERROR(Text(g->message, "its message"));
      SMELT_RETURN_IF_ERROR(Text(g->source, "its source"));
      SMELT_RETURN_IF_ERROR(Expr(g->expr, "condition"));
      return depends_on_data_[g->expr] ? Bad("its condition depends on data") : absl::OkStatus();
    }));
    SMELT_RETURN_IF_ERROR(EachOf(p.slots, "slot", [&](const auto& s) { return Slot(*s); }));
    SMELT_RETURN_IF_ERROR(EachOf(p.views, "view", [&](const auto& v) {
      SMELT_RETURN_IF_ERROR(InRange(v->slot, p.slots.size(), "slot"));
      SMELT_RETURN_IF_ERROR(DTypeOf(v->dtype));
      if (v->sizes.size() != v->strides.size() || v->sizes.size() > kMaxRank) return Bad("bad rank");
      SMELT_RETURN_IF_ERROR(Exprs(v->sizes, "size"));
      SMELT_RETURN_IF_ERROR(Exprs(v->strides, "stride"));
      return Expr(v->offset, "offset");
    }));
    if (p.convention->mutated != nullptr) {
      for (const auto& m : p.convention->mutated->inputs) {
        if (m->final_view >= 0 && p.slots[p.views[m->final_view]->slot]->kind == fb::SlotKind::Arena) {
          return Bad(absl::StrCat("mutated input ", m->arg, " ends in the arena, which the next call overwrites"));
        }
      }
    }
    SMELT_RETURN_IF_ERROR(EachOf(p.prologue_checks, "prologue check", [&](const auto& c) { return Check(p, *c); }));
    SMELT_RETURN_IF_ERROR(Expr(p.arena_bytes, "arena bytes"));
    if (depends_on_data_[p.arena_bytes]) return Bad("the arena's size depends on data");
    for (int a : p.written_args) {
      SMELT_RETURN_IF_ERROR(InRange(a, b_.args.size(), "written argument"));
      if (b_.args[a]->kind != fb::ArgKind::Tensor) return Bad(absl::StrCat("written argument ", a, " is no tensor"));
    }
    for (int s : p.written_states) {
      SMELT_RETURN_IF_ERROR(InRange(s, storages_.size(), "written state"));
      if (!storages_[s]->is_mutated) return Bad(absl::StrCat("written state ", s, " is not marked as mutated"));
    }
    if (!p.result_rule.empty()) SMELT_RETURN_IF_ERROR(VerifyLayoutRule(p.result_rule, b_.args.size()));
    if (p.blocks.empty()) return Bad("it has no block");
    entered_.assign(p.blocks.size(), false);
    SMELT_RETURN_IF_ERROR(Block(p, 0, 1));
    SMELT_RETURN_IF_ERROR(AllAreEntered());
    return p.eager == nullptr ? absl::OkStatus() : Annotate(Eager(*p.eager), "eager-order program");
  }

  // Readers walk the list of blocks. They would read a block that no step enters unverified.
  absl::Status AllAreEntered() const {
    const auto it = std::find(entered_.begin(), entered_.end(), false);
    return it == entered_.end() ? absl::OkStatus()
                                : Bad(absl::StrCat("block ", it - entered_.begin(), " is never entered"));
  }

  absl::Status Values(const fb::EagerProgramT& e, const std::vector<int>& list, absl::string_view what) const {
    for (int v : list) SMELT_RETURN_IF_ERROR(InRangeOrNone(v, e.num_values, what));
    return absl::OkStatus();
  }

  absl::Status Eager(const fb::EagerProgramT& e) {
    if (part_ == Part::kCall) return Bad("a call that holds an eager-order program itself");
    if (e.num_values < 0 || e.num_values > 1 << 24 || e.num_values / 16 > Definitions(e)) {
      return Bad(absl::StrCat("it has ", e.num_values, " values for ", Definitions(e), " definitions"));
    }
    for (int s : e.resized_states) SMELT_RETURN_IF_ERROR(InRange(s, states_.size(), "resized state"));
    if (e.args.size() != b_.args.size() || e.states.size() != states_.size() || e.outputs.size() != b_.outputs.size()) {
      return Bad("its arguments, states and outputs are not the signature's");
    }
    SMELT_RETURN_IF_ERROR(Values(e, e.args, "argument's value"));
    SMELT_RETURN_IF_ERROR(Values(e, e.states, "state's value"));
    for (int v : e.outputs) SMELT_RETURN_IF_ERROR(InRange(v, e.num_values, "output's value"));
    SMELT_RETURN_IF_ERROR(EachOf(e.tensors, "tensor", [&](const auto& t) {
      SMELT_RETURN_IF_ERROR(InRange(t->value, e.num_values, "value"));
      SMELT_RETURN_IF_ERROR(InRange(t->storage, storages_.size(), "storage"));
      SMELT_RETURN_IF_ERROR(DTypeOf(t->dtype));
      if (t->sizes.size() > kMaxRank) return Bad("bad rank");
      int64_t bytes = ItemSize(static_cast<DType>(t->dtype));
      bool empty = false;
      for (int64_t n : t->sizes) {
        empty = empty || n == 0;
        if (n < 0 || __builtin_mul_overflow(bytes, std::max<int64_t>(n, 1), &bytes)) {
          return Bad("a size is out of range");
        }
      }
      return empty || bytes <= storages_[t->storage]->bytes ? absl::OkStatus() : Bad("it is larger than its storage");
    }));
    SMELT_RETURN_IF_ERROR(EachOf(e.calls, "call", [&](const auto& c) {
      if (!c->storages.empty() || !c->states.empty() || !c->kernels.empty() || !c->targets.empty() ||
          !c->custom_operators.empty() || c->plans.size() != 1) {
        return Bad("a call has one plan, and no states, kernels and operators of its own");
      }
      return Verifier(*c, *this, Part::kCall).Run();
    }));
    if (e.blocks.empty()) return Bad("it has no block");
    entered_.assign(e.blocks.size(), false);
    SMELT_RETURN_IF_ERROR(EagerBlock(e, 0, 1));
    return AllAreEntered();
  }

  // The number is at least that of the program's values, except for a few that nothing defines.
  static int64_t Definitions(const fb::EagerProgramT& e) {
    size_t n = e.args.size() + e.states.size() + e.tensors.size() + e.outputs.size() + 1;
    for (const auto& block : e.blocks) {
      n += block->params.size() + block->results.size() + block->instrs.size();
      for (const auto& i : block->instrs) n += i->inputs.size() + i->outputs.size();
    }
    return static_cast<int64_t>(n);
  }

  static absl::Status CustomOperator(const fb::CustomOperatorT& o) {
    // Names are printed, and looked up among those that the program has registered.
    const auto is_plain = [](char c) { return absl::ascii_isalnum(c) || c == '_' || c == ':' || c == '.'; };
    if (o.name.empty() || o.name.size() > 1000 || !std::all_of(o.name.begin(), o.name.end(), is_plain))
      return Bad("its name is no operator's");
    SMELT_RETURN_IF_ERROR(Text(o.schema, "its schema"));
    SMELT_RETURN_IF_ERROR(EachOf(o.args, "argument", [](const auto& a) { return Text(a->name, "its name"); }));
    return EachOf(o.results, "result", [&](const auto& r) {
      if (r->kind > fb::CustomResultKind::MAX) return Bad("its kind is unknown");
      for (int a : r->shares)
        SMELT_RETURN_IF_ERROR(InRange(a, o.args.size(), "the argument that it shares memory with"));
      if (r->is_argument && (r->shares.size() != 1 || r->kind != fb::CustomResultKind::Tensor))
        return Bad("it is an argument, but it is not said which");
      return Text(r->name, "its name");
    });
  }

  absl::Status CustomCall(const fb::EagerInstrT& i) const {
    SMELT_RETURN_IF_ERROR(InRange(i.custom, b_.custom_operators.size(), "custom operator"));
    const fb::CustomOperatorT& o = *b_.custom_operators[i.custom];
    if (i.inputs.size() != o.args.size()) return Bad("it gives other arguments than the operator takes");
    if (i.outputs.size() != o.results.size() || i.stated.size() != o.results.size())
      return Bad("it takes other results than the operator gives");
    return EachOf(i.stated, "result", [&](const auto& r) {
      const size_t at = static_cast<size_t>(&r - i.stated.data());
      const bool tensor = o.results[at]->kind == fb::CustomResultKind::Tensor;
      if (tensor && r->tensors.size() != 1) return Bad(absl::StrCat("it states ", r->tensors.size(), " types"));
      return EachOf(r->tensors, "tensor", [&](const auto& t) {
        SMELT_RETURN_IF_ERROR(DTypeOf(t->dtype));
        if (t->sizes.size() > kMaxRank) return Bad("bad rank");
        for (int e : t->sizes) SMELT_RETURN_IF_ERROR(InRangeOrNone(e, b_.exprs.size(), "size (expression)"));
        return absl::OkStatus();
      });
    });
  }

  absl::Status EagerBlock(const fb::EagerProgramT& e, int index, int depth) {
    SMELT_RETURN_IF_ERROR(InRange(index, e.blocks.size(), "block"));
    if (depth > kMaxBlockDepth) return Bad("its blocks are nested too deeply");
    if (entered_[index]) return Bad(absl::StrCat("block ", index, " occurs twice"));
    entered_[index] = true;
    const fb::EagerBlockT& b = *e.blocks[index];
    for (int v : b.params) SMELT_RETURN_IF_ERROR(InRange(v, e.num_values, "parameter"));
    for (int v : b.results) SMELT_RETURN_IF_ERROR(InRange(v, e.num_values, "result"));
    return EachOf(b.instrs, "instruction", [&](const auto& i) { return EagerInstr(e, *i, depth); });
  }

  // Checks the fields that all instructions have, then those of each kind, on which the numbers of blocks, inputs and
  // outputs depend.
  absl::Status EagerInstr(const fb::EagerProgramT& e, const fb::EagerInstrT& i, int depth) {
    using K = fb::EagerKind;
    if (i.kind > K::MAX || i.layout > fb::EagerLayout::MAX) return Bad("its kind is unknown");
    for (const std::string* text : {&i.op, &i.text, &i.source})
      SMELT_RETURN_IF_ERROR(Text(*text, "one of its strings"));
    if (i.sharing.size() > i.inputs.size() || (!i.sharing.empty() && i.kind == K::Compute && i.targets.empty())) {
      return Bad("it says how operands share memory that it does not have");
    }
    for (uint8_t rule : i.sharing) {
      if (rule > kMaxOperandSharing) return Bad("its rule for operands is unknown");
    }
    for (int v : i.inputs) SMELT_RETURN_IF_ERROR(InRange(v, e.num_values, "input"));
    SMELT_RETURN_IF_ERROR(Values(e, i.outputs, "output"));
    SMELT_RETURN_IF_ERROR(Values(e, i.layout_inputs, "layout input"));
    SMELT_RETURN_IF_ERROR(Values(e, i.targets, "target"));
    SMELT_RETURN_IF_ERROR(InRangeOrNone(i.expr, b_.exprs.size(), "expression"));
    SMELT_RETURN_IF_ERROR(InRangeOrNone(i.symbol, b_.symbols.size(), "symbol"));
    SMELT_RETURN_IF_ERROR(InRangeOrNone(i.call, e.calls.size(), "call"));
    if (i.symbol >= 0 && b_.symbols[i.symbol]->source != fb::SymbolSource::Data) {
      return Bad(absl::StrCat("symbol ", i.symbol, " does not come from data"));
    }
    const size_t want_blocks = i.kind == K::If || i.kind == K::While     ? 2
                               : i.kind == K::Loop || i.kind == K::Group ? 1
                                                                         : 0;
    if (i.blocks.size() != want_blocks) return Bad(absl::StrCat("it has ", i.blocks.size(), " blocks"));
    for (int b : i.blocks) SMELT_RETURN_IF_ERROR(EagerBlock(e, b, depth + 1));
    const auto at_least = [&](size_t inputs, size_t outputs) {
      return i.inputs.size() >= inputs && i.outputs.size() >= outputs ? absl::OkStatus()
                                                                      : Bad("it lacks inputs or outputs");
    };
    switch (i.kind) {
      case K::Custom:
        return CustomCall(i);
      case K::None:
      case K::String:
      case K::IntList:
      case K::FloatList:
      case K::BoolList:
        return at_least(0, 1);
      case K::Int:
      case K::Bool:
        return i.ints.size() == 1 ? at_least(0, 1) : Bad("it lacks its number");
      case K::Float:
        return i.floats.size() == 1 ? at_least(0, 1) : Bad("it lacks its number");
      case K::Size:
        return i.expr >= 0 ? at_least(0, 1) : Bad("it lacks its expression");
      case K::View:
        return at_least(1, 1);
      case K::ViewInPlace:
      case K::Set:
      case K::Resize:
        return at_least(1, 0);
      case K::Copy:
        return at_least(2, 0);
      case K::Group:
        if (i.sharing.size() != i.inputs.size()) return Bad("it does not say how its operands may share memory");
        for (size_t k = 0; k < std::min(i.outputs.size(), i.targets.size()); ++k) {
          if ((i.outputs[k] < 0) == (i.targets[k] < 0)) return Bad("a result has no place, or two");
        }
        [[fallthrough]];
      case K::Compute:
        if (i.call < 0) return Bad("it calls nothing");
        if (e.calls[i.call]->args.size() != i.inputs.size()) return Bad("it gives other arguments than the call takes");
        if (e.calls[i.call]->outputs.size() != i.outputs.size() || i.targets.size() != i.outputs.size()) {
          return Bad("it takes other results than the call gives");
        }
        if ((i.flat || i.layout != fb::EagerLayout::AsComputed) && i.layout_inputs.empty())
          return Bad("nothing says its layout");
        if (i.layout == fb::EagerLayout::Rule)
          SMELT_RETURN_IF_ERROR(VerifyLayoutRule(i.layout_rule, i.layout_inputs.size()));
        return absl::OkStatus();
      case K::Number:
        return absl::OkStatus();
      case K::If: {
        SMELT_RETURN_IF_ERROR(at_least(1, 0));
        for (int b : i.blocks) {
          const fb::EagerBlockT& block = *e.blocks[b];
          if (block.results.size() != i.outputs.size() || block.params.size() + 1 > i.inputs.size()) {
            return Bad("a branch has other parameters or results");
          }
        }
        return absl::OkStatus();
      }
      case K::Loop: {
        const fb::EagerBlockT& block = *e.blocks[i.blocks[0]];
        const size_t n = i.outputs.size();
        return i.inputs.size() == n + 2 && block.params.size() == n + 1 && block.results.size() == n + 1
                   ? absl::OkStatus()
                   : Bad("the body has other parameters or results");
      }
      case K::While: {
        const fb::EagerBlockT &cond = *e.blocks[i.blocks[0]], &body = *e.blocks[i.blocks[1]];
        return i.inputs.size() >= i.outputs.size() && cond.params.size() == i.inputs.size() &&
                       body.params.size() == i.inputs.size() && cond.results.size() == 1 &&
                       body.results.size() == i.outputs.size()
                   ? absl::OkStatus()
                   : Bad("a block has other parameters or results");
      }
    }
    return Bad("its kind is unknown");
  }

  // Checks the layers of the convention from the outermost on: the indices of each count what the layer before it
  // leaves.
  absl::Status Convention(const fb::PlanT& p) {
    if (p.convention == nullptr) return Bad("it has no calling convention");
    const fb::ConventionT& c = *p.convention;
    first_outer_.clear();
    if (c.duplicates == nullptr || c.duplicates->inner_of_outer.empty()) {
      for (size_t i = 0; i < b_.args.size(); ++i) first_outer_.push_back(static_cast<int>(i));
    } else {
      const std::vector<int>& map = c.duplicates->inner_of_outer;
      if (map.size() != b_.args.size()) {
        return Bad(absl::StrCat("the duplicates layer has ", map.size(), " arguments, the signature ", b_.args.size()));
      }
      for (size_t i = 0; i < map.size(); ++i) {
        const int next = static_cast<int>(first_outer_.size());
        if (map[i] < 0 || map[i] > next)
          return Bad(absl::StrCat("the duplicates layer maps argument ", i, " to ", map[i]));
        if (map[i] == next) {
          first_outer_.push_back(static_cast<int>(i));
        } else if (b_.args[i]->kind != fb::ArgKind::Tensor || ArgOfInner(map[i]).kind != fb::ArgKind::Tensor) {
          return Bad(absl::StrCat("the duplicates layer joins argument ", i, ", which is no tensor"));
        }
      }
    }
    const size_t inner = first_outer_.size();
    if (c.overlaps != nullptr) {
      SMELT_RETURN_IF_ERROR(EachOf(c.overlaps->groups, "overlap group", [&](const auto& g) {
        for (int m : g->members) SMELT_RETURN_IF_ERROR(InRange(m, inner, "member"));
        return absl::OkStatus();
      }));
    }
    if (c.mutated != nullptr) {
      SMELT_RETURN_IF_ERROR(EachOf(c.mutated->inputs, "mutated input", [&](const auto& m) {
        SMELT_RETURN_IF_ERROR(InRange(m->arg, m->is_state ? states_.size() : inner, "index"));
        if (m->is_state && !storages_[states_[m->arg]->storage]->is_mutated) {
          return Bad(absl::StrCat("the storage of state ", m->arg, " is not marked as mutated"));
        }
        if (!m->is_state && ArgOfInner(m->arg).kind != fb::ArgKind::Tensor) return Bad("it is no tensor");
        if (m->flags > 15) return Bad(absl::StrCat("flags are ", int{m->flags}));
        const bool needs_view =
            (m->flags & (static_cast<int>(fb::MutationKind::Geometry) | static_cast<int>(fb::MutationKind::Storage))) !=
            0;
        SMELT_RETURN_IF_ERROR(needs_view ? InRange(m->final_view, p.views.size(), "final view")
                                         : InRangeOrNone(m->final_view, p.views.size(), "final view"));
        SMELT_RETURN_IF_ERROR(InRangeOrNone(m->final_bytes, b_.exprs.size(), "final bytes"));
        if (m->flags & static_cast<int>(fb::MutationKind::Resized)) {
          SMELT_RETURN_IF_ERROR(Expr(m->final_bytes, "final bytes"));
          if (depends_on_data_[m->final_bytes]) return Bad("final bytes depend on data");
        }
        for (int v : m->written) SMELT_RETURN_IF_ERROR(InRange(v, p.views.size(), "written view"));
        return absl::OkStatus();
      }));
    }
    if (c.outputs == nullptr || c.outputs->outputs.size() != b_.outputs.size()) {
      return Bad(absl::StrCat("the outputs layer has ", c.outputs == nullptr ? 0 : c.outputs->outputs.size(),
                              " outputs, the signature ", b_.outputs.size()));
    }
    return EachOf(c.outputs->outputs, "output", [&](const auto& o) {
      using K = fb::OutputKind;
      // This includes fields that this kind does not use, because a reader may look at them.
      SMELT_RETURN_IF_ERROR(InRangeOrNone(o->view, p.views.size(), "view"));
      SMELT_RETURN_IF_ERROR(InRangeOrNone(o->expr, b_.exprs.size(), "value"));
      switch (o->kind) {
        case K::IsArg:
          return InRange(o->index, b_.args.size(), "argument");
        case K::IsState:
          SMELT_RETURN_IF_ERROR(InRange(o->index, states_.size(), "state"));
          return storages_[states_[o->index]->storage]->is_mutated
                     ? absl::OkStatus()
                     : Bad("the state it hands out is not marked as mutated");
        case K::AliasOfArg:
        case K::AliasOfState:
        case K::AliasOfIntermediate:
        case K::Fresh: {
          SMELT_RETURN_IF_ERROR(InRange(o->view, p.views.size(), "view"));
          const int slot = p.views[o->view]->slot;
          if (slot < 0 || slot >= static_cast<int>(p.slots.size())) return absl::OkStatus();  // reported with the view
          const fb::SlotT& s = *p.slots[slot];
          if (s.kind == fb::SlotKind::Arena) return Bad("it lives in the arena, which the next call overwrites");
          if (s.kind == fb::SlotKind::StateStorage && s.index >= 0 && s.index < static_cast<int>(storages_.size()) &&
              !storages_[s.index]->is_mutated) {
            return Bad("the state it lives in is not marked as mutated");
          }
          return absl::OkStatus();
        }
        case K::Scalar:
          if (o->scalar_kind != fb::ArgKind::Int && o->scalar_kind != fb::ArgKind::Float &&
              o->scalar_kind != fb::ArgKind::Bool) {
            return Bad("its scalar kind is none of int, float, bool");
          }
          return o->expr >= 0 ? Expr(o->expr, "value") : InRange(o->index, p.num_registers, "register");
        case K::None:
          return absl::OkStatus();
      }
      return Bad("its kind is unknown");
    });
  }

  const fb::ArgDefT& ArgOfInner(int inner) const { return *b_.args[first_outer_[inner]]; }

  absl::Status Slot(const fb::SlotT& s) const {
    using K = fb::SlotKind;
    SMELT_RETURN_IF_ERROR(InRangeOrNone(s.offset, b_.exprs.size(), "offset"));
    SMELT_RETURN_IF_ERROR(InRangeOrNone(s.bytes, b_.exprs.size(), "bytes"));
    switch (s.kind) {
      case K::ArgStorage:
        SMELT_RETURN_IF_ERROR(InRange(s.index, first_outer_.size(), "argument"));
        return ArgOfInner(s.index).kind == fb::ArgKind::Tensor
                   ? absl::OkStatus()
                   : Bad(absl::StrCat("argument ", s.index, " is no tensor"));
      case K::StateStorage:
        return InRange(s.index, storages_.size(), "storage");
      case K::Arena:
        SMELT_RETURN_IF_ERROR(Expr(s.offset, "offset"));
        SMELT_RETURN_IF_ERROR(Expr(s.bytes, "bytes"));
        if (depends_on_data_[s.offset] || depends_on_data_[s.bytes])
          return Bad("its place in the arena depends on data");
        return absl::OkStatus();
      case K::Fresh:
      case K::Heap:
        return Expr(s.bytes, "bytes");
    }
    return Bad("its kind is unknown");
  }

  absl::Status View(const fb::PlanT& p, int v, absl::string_view what) const {
    return InRange(v, p.views.size(), what);
  }
  // A view that is written must not lie in a state that is mapped read-only.
  absl::Status Written(const fb::PlanT& p, int v, absl::string_view what) const {
    SMELT_RETURN_IF_ERROR(View(p, v, what));
    const fb::SlotT& s = *p.slots[p.views[v]->slot];
    if (s.kind == fb::SlotKind::StateStorage && !storages_[s.index]->is_mutated) {
      return Bad(absl::StrCat(what, " ", v, " lies in state storage ", s.index, ", which is not marked as mutated"));
    }
    return absl::OkStatus();
  }
  absl::Status Register(const fb::PlanT& p, int r, absl::string_view what = "register") const {
    return InRange(r, p.num_registers, what);
  }

  absl::Status Check(const fb::PlanT& p, const fb::CheckT& c) const {
    using K = fb::CheckKind;
    SMELT_RETURN_IF_ERROR(Text(c.message, "its message"));
    SMELT_RETURN_IF_ERROR(Text(c.source, "its source"));
    switch (c.kind) {
      case K::NotZero:
        return Expr(c.a, "condition");
      case K::NoPartialOverlap:
      case K::NoOverlap:
      case K::Apart:
      case K::WholeOrApart:
        SMELT_RETURN_IF_ERROR(View(p, c.b, "view"));
        return View(p, c.a, "view");
      case K::NoInternalOverlap:
      case K::NoSharedPlaces:
      case K::InBounds:
        return View(p, c.a, "view");
      case K::IndexInRange:
      case K::WrappedIndexInRange: {
        SMELT_RETURN_IF_ERROR(View(p, c.a, "view"));
        const DType t = static_cast<DType>(p.views[c.a]->dtype);
        if (t != DType::kInt64 && t != DType::kInt32) return Bad("indices that are no integers");
        return Expr(c.b, "limit");
      }
      case K::DataTrue:
        return Register(p, c.a);
    }
    return Bad("its kind is unknown");
  }

  // Each block has one parent: a tree, so that a run of it is bounded by its loops.
  absl::Status Block(const fb::PlanT& p, int index, int depth) {
    if (depth > kMaxBlockDepth) return Bad(absl::StrCat("blocks are nested deeper than ", kMaxBlockDepth));
    if (entered_[index]) return Bad(absl::StrCat("block ", index, " is entered from two places"));
    entered_[index] = true;
    const auto& steps = p.blocks[index]->steps;
    for (size_t i = 0; i < steps.size(); ++i) {
      if (absl::Status s = Step(p, *steps[i], depth); !s.ok()) {
        return Annotate(s, absl::StrCat("block ", index, ": step ", i));
      }
      const fb::LibraryCallT* call = steps[i]->step.AsLibraryCall();
      if (call != nullptr && call->epilogue &&
          (call->outputs.empty() || call->outputs[0] < 0 || i + 1 == steps.size() ||
           steps[i + 1]->step.type != fb::StepUnion::Launch || steps[i + 1]->step.AsLaunch()->sequential)) {
        return Bad(absl::StrCat("block ", index, ": step ", i, " has an epilogue, but no launch follows"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Child(const fb::PlanT& p, int index, int depth, absl::string_view what) {
    if (index == -1) return absl::OkStatus();
    SMELT_RETURN_IF_ERROR(InRange(index, p.blocks.size(), what));
    return Block(p, index, depth + 1);
  }

  // A case for each kind of step, which checks the fields of that kind.
  absl::Status Step(const fb::PlanT& p, const fb::StepT& step, int depth) {
    using U = fb::StepUnion;
    SMELT_RETURN_IF_ERROR(Text(step.source, "its source"));
    switch (step.step.type) {
      case U::NONE:
        break;
      case U::Launch: {
        const fb::LaunchT& l = *step.step.AsLaunch();
        SMELT_RETURN_IF_ERROR(InRange(l.kernel, kernels_.size(), "kernel"));
        if (l.words.size() != static_cast<size_t>(kernels_[l.kernel]->num_words)) {
          return Bad(absl::StrCat("launch of kernel ", l.kernel, " has ", l.words.size(), " words, the kernel takes ",
                                  kernels_[l.kernel]->num_words));
        }
        for (const fb::Word& w : l.words) SMELT_RETURN_IF_ERROR(Word(p, w));
        SMELT_RETURN_IF_ERROR(Expr(l.tiles, "tiles"));
        SMELT_RETURN_IF_ERROR(Expr(l.bytes, "bytes"));
        for (int v : l.reads) SMELT_RETURN_IF_ERROR(View(p, v, "read view"));
        for (int v : l.writes) SMELT_RETURN_IF_ERROR(Written(p, v, "written view"));
        return absl::OkStatus();
      }
      case U::LibraryCall: {
        const fb::LibraryCallT& l = *step.step.AsLibraryCall();
        SMELT_RETURN_IF_ERROR(Text(l.op, "its operator"));
        SMELT_RETURN_IF_ERROR(Texts(l.strings, "an attribute"));
        for (int v : l.inputs) SMELT_RETURN_IF_ERROR(InRangeOrNone(v, p.views.size(), "input"));
        for (int v : l.outputs) {
          if (v != -1) SMELT_RETURN_IF_ERROR(Written(p, v, "output"));
        }
        return Exprs(l.ints, "attribute");
      }
      case U::Copy: {
        const fb::CopyT& c = *step.step.AsCopy();
        SMELT_RETURN_IF_ERROR(View(p, c.src, "source"));
        SMELT_RETURN_IF_ERROR(Written(p, c.dst, "destination"));
        if (p.views[c.src]->dtype != p.views[c.dst]->dtype) return Bad("a copy between two dtypes");
        if (p.views[c.src]->sizes.size() != p.views[c.dst]->sizes.size()) return Bad("a copy between two ranks");
        return absl::OkStatus();
      }
      case U::Check:
        return Check(p, *step.step.AsCheck());
      case U::ReadScalar: {
        const fb::ReadScalarT& r = *step.step.AsReadScalar();
        SMELT_RETURN_IF_ERROR(View(p, r.view, "view"));
        SMELT_RETURN_IF_ERROR(Register(p, r.register_));
        if (r.symbol == -1) return absl::OkStatus();
        SMELT_RETURN_IF_ERROR(InRange(r.symbol, b_.symbols.size(), "symbol"));
        return b_.symbols[r.symbol]->source == fb::SymbolSource::Data
                   ? absl::OkStatus()
                   : Bad(absl::StrCat("symbol ", r.symbol, " does not come from data"));
      }
      case U::Alloc: {
        const int slot = step.step.AsAlloc()->slot;
        SMELT_RETURN_IF_ERROR(InRange(slot, p.slots.size(), "slot"));
        const fb::SlotKind kind = p.slots[slot]->kind;
        return kind == fb::SlotKind::Heap || kind == fb::SlotKind::Fresh
                   ? absl::OkStatus()
                   : Bad(absl::StrCat("slot ", slot, " cannot be allocated by a step"));
      }
      case U::If: {
        const fb::IfT& f = *step.step.AsIf();
        SMELT_RETURN_IF_ERROR(Register(p, f.predicate, "predicate"));
        SMELT_RETURN_IF_ERROR(Child(p, f.then_block, depth, "then block"));
        return Child(p, f.else_block, depth, "else block");
      }
      case U::While: {
        const fb::WhileT& w = *step.step.AsWhile();
        SMELT_RETURN_IF_ERROR(InRangeOrNone(w.predicate, p.num_registers, "predicate"));
        SMELT_RETURN_IF_ERROR(InRangeOrNone(w.counter, p.num_registers, "counter"));
        SMELT_RETURN_IF_ERROR(InRangeOrNone(w.max_trips, b_.exprs.size(), "trip limit"));
        if (w.predicate == -1 && w.max_trips == -1) return Bad("a loop without predicate and limit never ends");
        SMELT_RETURN_IF_ERROR(Child(p, w.cond_block, depth, "condition block"));
        return Child(p, w.body_block, depth, "body block");
      }
      case U::Random: {
        const fb::RandomT& r = *step.step.AsRandom();
        if (r.kind > fb::RandomKind::MAX) return Bad("its distribution is unknown");
        SMELT_RETURN_IF_ERROR(Written(p, r.out, "output"));
        SMELT_RETURN_IF_ERROR(InRangeOrNone(r.p0_register, p.num_registers, "p0"));
        SMELT_RETURN_IF_ERROR(InRangeOrNone(r.p1_register, p.num_registers, "p1"));
        return InRangeOrNone(r.probabilities, p.views.size(), "probabilities");
      }
      case U::SetRegister: {
        const fb::SetRegisterT& s = *step.step.AsSetRegister();
        SMELT_RETURN_IF_ERROR(Register(p, s.register_));
        SMELT_RETURN_IF_ERROR(InRangeOrNone(s.expr, b_.exprs.size(), "expression"));
        if (s.arg == -1) return absl::OkStatus();
        SMELT_RETURN_IF_ERROR(InRange(s.arg, b_.args.size(), "argument"));
        return IsScalar(s.arg);
      }
      case U::ComputeNumber: {
        const fb::ComputeNumberT& c = *step.step.AsComputeNumber();
        if (c.function > fb::NumberFunction::MAX) return Bad("its function is unknown");
        const size_t operands = OperandsOf(c.function);
        if (c.inputs.size() != operands) {
          return Bad(absl::StrCat(c.inputs.size(), " operands of ", fb::EnumNameNumberFunction(c.function), ", ",
                                  operands, " expected"));
        }
        for (int r : c.inputs) SMELT_RETURN_IF_ERROR(Register(p, r));
        return Register(p, c.register_);
      }
    }
    return Bad("its kind is unknown");
  }

  absl::Status IsScalar(int arg) const {
    const fb::ArgKind k = b_.args[arg]->kind;
    return k == fb::ArgKind::Int || k == fb::ArgKind::Float || k == fb::ArgKind::Bool
               ? absl::OkStatus()
               : Bad(absl::StrCat("argument ", arg, " is no number"));
  }

  absl::Status Word(const fb::PlanT& p, const fb::Word& w) const {
    using K = fb::WordKind;
    switch (w.kind()) {
      case K::Expr:
        return Expr(w.a(), "word");
      case K::Address:
        SMELT_RETURN_IF_ERROR(InRange(w.a(), p.slots.size(), "slot of an address"));
        return Expr(w.b(), "offset of an address");
      case K::IntConst:
      case K::FloatConst:
        return absl::OkStatus();
      case K::ArgScalar:
        SMELT_RETURN_IF_ERROR(InRange(w.a(), b_.args.size(), "argument of a word"));
        return IsScalar(w.a());
      case K::DataScalar:
        return Register(p, w.a(), "register of a word");
    }
    return Bad("the kind of a word is unknown");
  }

  const fb::BundleT& b_;
  const Container* c_;
  const Part part_;
  // Those that plans refer to.
  const std::vector<std::unique_ptr<fb::KernelT>>& kernels_;
  const std::vector<std::unique_ptr<fb::StateStorageT>>& storages_;
  const std::vector<std::unique_ptr<fb::StateTensorT>>& states_;
  std::vector<bool> depends_on_data_;
  // The state of the plan that is being verified.
  std::vector<int> first_outer_;  // by inner argument: the first outer one
  std::vector<bool> entered_;     // by block
};

}  // namespace

std::string EncodeBundle(const fb::BundleT& bundle) {
  flatbuffers::FlatBufferBuilder builder(1 << 16);
  fb::FinishBundleBuffer(builder, fb::Bundle::Pack(builder, &bundle));
  return std::string(reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize());
}

absl::StatusOr<std::unique_ptr<fb::BundleT>> DecodeBundle(absl::Span<const uint8_t> bytes) {
  // The verifier asserts on sizes that its offsets cannot express, so the size comes first.
  if (bytes.size() < 16) return Bad(absl::StrCat("the metadata has ", bytes.size(), " bytes, too few"));
  if (static_cast<int64_t>(bytes.size()) > kMaxMetadataBytes) {
    return Bad(absl::StrCat("the metadata has ", bytes.size(), " bytes; at most ", kMaxMetadataBytes, " are possible"));
  }
  if (!fb::BundleBufferHasIdentifier(bytes.data()))
    return Bad("the metadata is not of a bundle: its identifier differs");
  if (!StringLists(bytes).AreShort()) return Bad("the metadata refers to the same strings over and over");
  flatbuffers::Verifier verifier = VerifierOf(bytes);
  if (!fb::VerifyBundleBuffer(verifier)) return Bad("the metadata is not a well-formed FlatBuffer");
  const fb::Bundle* root = fb::GetBundle(bytes.data());
  UnpackBudget budget(bytes.size());
  budget.Add(*root);
  if (budget.exhausted()) return Bad("the metadata refers to the same bytes over and over");
  if (budget.plans_exhausted()) return Bad("the metadata has more plans than expressions and arguments allow");
  if (budget.methods_exhausted()) return Bad("the metadata has more methods than its states allow");
  if (budget.misaligned()) return Bad("elements of a vector in the metadata are not aligned");
  return std::unique_ptr<fb::BundleT>(root->UnPack());
}

namespace {

// Vectors of tables: an absent element cannot come from UnPack, but can from a builder.
template <typename T>
bool Complete(const std::vector<T>& v) {
  return std::all_of(v.begin(), v.end(), [](const auto& p) { return p != nullptr; });
}

bool IsWhole(const fb::BundleT& bundle);

bool IsWhole(const fb::PlanT& p) {
  bool whole =
      Complete(p.slots) && Complete(p.views) && Complete(p.blocks) && Complete(p.guards) && Complete(p.prologue_checks);
  for (size_t k = 0; whole && k < p.blocks.size(); ++k) {
    whole = Complete(p.blocks[k]->steps);
    // A union whose type is set but whose table is missing.
    for (size_t i = 0; whole && i < p.blocks[k]->steps.size(); ++i) {
      whole = p.blocks[k]->steps[i]->step.value != nullptr;
    }
  }
  if (whole && p.convention != nullptr) {
    const fb::ConventionT& c = *p.convention;
    if (c.overlaps) whole = whole && Complete(c.overlaps->groups);
    if (c.mutated) whole = whole && Complete(c.mutated->inputs);
    if (c.outputs) whole = whole && Complete(c.outputs->outputs);
  }
  if (!whole || p.eager == nullptr) return whole;
  whole = Complete(p.eager->tensors) && Complete(p.eager->blocks) && Complete(p.eager->calls);
  for (size_t k = 0; whole && k < p.eager->blocks.size(); ++k) {
    whole = Complete(p.eager->blocks[k]->instrs);
    for (size_t i = 0; whole && i < p.eager->blocks[k]->instrs.size(); ++i) {
      for (const auto& stated : p.eager->blocks[k]->instrs[i]->stated)
        whole = whole && stated != nullptr && Complete(stated->tensors);
    }
  }
  for (size_t k = 0; whole && k < p.eager->calls.size(); ++k) whole = IsWhole(*p.eager->calls[k]);
  return whole;
}

bool IsWhole(const fb::BundleT& bundle) {
  bool whole = Complete(bundle.symbols) && Complete(bundle.args) && Complete(bundle.outputs) &&
               Complete(bundle.storages) && Complete(bundle.states) && Complete(bundle.plans) &&
               Complete(bundle.kernels) && Complete(bundle.targets) && Complete(bundle.argument_structure) &&
               Complete(bundle.result_structure) && Complete(bundle.custom_operators) && Complete(bundle.methods);
  for (const auto& o : bundle.custom_operators) whole = whole && Complete(o->args) && Complete(o->results);
  for (size_t i = 0; whole && i < bundle.plans.size(); ++i) whole = IsWhole(*bundle.plans[i]);
  for (size_t i = 0; whole && i < bundle.targets.size(); ++i) whole = Complete(bundle.targets[i]->kernels);
  for (size_t i = 0; whole && i < bundle.methods.size(); ++i) whole = IsWhole(*bundle.methods[i]);
  return whole;
}

}  // namespace

absl::Status VerifyBundle(const fb::BundleT& bundle, const Container* container) {
  if (!IsWhole(bundle)) return Bad("a table is missing where one is listed");
  return Verifier(bundle, container).Run();
}

bool IsMethodName(absl::string_view name) {
  const auto is_letter = [](char c) { return absl::ascii_isalpha(c) || c == '_'; };
  return !name.empty() && name.size() <= 100 && is_letter(name[0]) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return is_letter(c) || absl::ascii_isdigit(c); });
}

absl::Status CheckMethodNames(absl::Span<const std::string> names) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (!IsMethodName(names[i])) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", names[i], "\" is no name of a method: letters, digits and _ expected"));
    }
    if (std::find(names.begin(), names.begin() + i, names[i]) != names.begin() + i)
      return absl::InvalidArgumentError(absl::StrCat("two methods are called \"", names[i], "\""));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<fb::BundleT>> LoadBundle(const Container& container) {
  const int metadata = container.Find(SegmentKind::kMetadata);
  if (metadata < 0) return absl::DataLossError(absl::StrCat(container.name(), ": has no metadata segment"));
  SMELT_ASSIGN_OR_RETURN(std::unique_ptr<fb::BundleT> bundle,
                         Annotate(DecodeBundle(container.bytes(metadata)), container.name()));
  SMELT_RETURN_IF_ERROR(Annotate(VerifyBundle(*bundle, &container), container.name()));
  for (const auto& m : bundle->methods) {
    for (const auto& s : bundle->storages) m->storages.push_back(std::make_unique<fb::StateStorageT>(*s));
    for (const auto& s : bundle->states) m->states.push_back(std::make_unique<fb::StateTensorT>(*s));
  }
  return bundle;
}

}  // namespace smelt
