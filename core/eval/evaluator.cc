#include "smelt/core/eval/evaluator.h"

#include <cstring>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/cause.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/eval/interpreter.h"
#include "smelt/core/eval/kernels.h"
#include "smelt/core/tensor/region.h"

namespace smelt {

uint64_t EvalGenerator::Next() {
  // splitmix64
  state_ += 0x9e3779b97f4a7c15u;
  uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

double EvalGenerator::NextUniform() { return static_cast<double>(Next() >> 40) * 0x1p-24; }

double EvalGenerator::NextNormal() {
  const double u = 1 - NextUniform(), v = NextUniform();
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

namespace {

using eval_internal::State;
using Symbols = absl::flat_hash_map<std::string, int64_t>;

State MakeState(const EvalOptions& options) {
  State state;
  state.options = options;
  state.generator = options.generator != nullptr ? options.generator : std::make_shared<EvalGenerator>();
  return state;
}

// Returns the tensors of the weights: the caller's, or tensors over the graph's own storages.
absl::StatusOr<std::vector<Tensor>> WeightsOf(const Graph& g, const EvalOptions& options) {
  if (!options.weights.empty()) {
    if (options.weights.size() != g.weights.size())
      return absl::InvalidArgumentError(
          absl::StrCat("the graph has ", g.weights.size(), " weights, ", options.weights.size(), " are given"));
    return options.weights;
  }
  std::vector<Tensor> weights;
  for (const Weight& w : g.weights) {
    const std::shared_ptr<Storage>& storage = g.weight_storages[w.storage];
    if (storage->data() == nullptr && storage->bytes() > 0)
      return absl::FailedPreconditionError(absl::StrCat("weight \"", w.name, "\" has no contents here"));
    weights.push_back(Tensor(storage, w.dtype, w.geometry));
  }
  return weights;
}

// Returns the inputs in the graph's order from the user's arguments and the weights.
absl::StatusOr<std::vector<EvalValue>> Inputs(const Graph& g, absl::Span<const EvalValue> args,
                                              absl::Span<const Tensor> weights) {
  std::vector<EvalValue> inputs;
  size_t next = 0;
  for (const InputInfo& info : g.input_infos) {
    if (info.kind == InputInfo::Kind::kWeight) {
      inputs.push_back(EvalValue(weights[info.weight]));
    } else if (next < args.size()) {
      inputs.push_back(args[next++]);
    } else {
      return absl::InvalidArgumentError(absl::StrCat(args.size(), " arguments are given, the graph takes more"));
    }
  }
  if (next != args.size())
    return absl::InvalidArgumentError(absl::StrCat(args.size(), " arguments are given, the graph takes ", next));
  return inputs;
}

absl::StatusOr<Geometry> Evaluated(const SymbolicGeometry& g, const Symbols& symbols) {
  Geometry out;
  for (const Expr& e : g.sizes) {
    SMELT_ASSIGN_OR_RETURN(int64_t v, e.Evaluate(symbols));
    out.sizes.push_back(v);
  }
  for (const Expr& e : g.strides) {
    SMELT_ASSIGN_OR_RETURN(int64_t v, e.Evaluate(symbols));
    out.strides.push_back(v);
  }
  SMELT_ASSIGN_OR_RETURN(out.offset, g.offset.Evaluate(symbols));
  return out;
}

// One call of a pure graph.
class ConventionRun {
 public:
  ConventionRun(const Graph& g, const Convention& convention, absl::Span<const EvalValue> args,
                const EvalOptions& options)
      : g_(g), c_(convention), args_(args.begin(), args.end()), state_(MakeState(options)) {
    state_.pure = true;
  }

  absl::StatusOr<EvalResult> Run() {
    SMELT_RETURN_IF_ERROR(DropDuplicates());
    SMELT_ASSIGN_OR_RETURN(weights_, WeightsOf(g_, state_.options));
    SMELT_RETURN_IF_ERROR(CheckOverlaps());
    SMELT_ASSIGN_OR_RETURN(std::vector<EvalValue> inputs, Prologue());
    // Symbols are bound to the caller's own tensors, whose offsets count.
    SMELT_ASSIGN_OR_RETURN(std::vector<EvalValue> originals, Inputs(g_, distinct_, weights_));
    Symbols symbols;
    SMELT_RETURN_IF_ERROR(eval_internal::BindSymbols(g_, originals, symbols));
    SMELT_ASSIGN_OR_RETURN(outs_, eval_internal::RunGraph(state_, g_, inputs, symbols, &symbols_));
    return Epilogue();
  }

 private:
  absl::Status DropDuplicates() {
    const auto& inner = c_.duplicates.inner_of_outer;
    if (inner.size() != args_.size())
      return absl::InvalidArgumentError(
          absl::StrCat(args_.size(), " arguments are given, the convention has ", inner.size()));
    for (size_t i = 0; i < inner.size(); ++i) {
      const int d = inner[i].value();
      if (d == static_cast<int>(distinct_.size())) {
        distinct_.push_back(args_[i]);
      } else if (d < 0 || d > static_cast<int>(distinct_.size())) {
        return absl::InvalidArgumentError("the duplicates layer is not in order");
      } else if (args_[i].IsTensor()) {
        const Tensor &a = distinct_[d].tensor(), &b = args_[i].tensor();
        if (!a.IsSame(b) && (a.storage() != b.storage() || a.dtype() != b.dtype() || !(a.geometry() == b.geometry())))
          return absl::FailedPreconditionError(
              absl::StrCat("argument ", i, " must be the same tensor as an earlier one"));
      }
    }
    if (c_.overlaps.memory_of.size() != distinct_.size())
      return absl::InvalidArgumentError("the overlaps layer has another number of arguments");
    return absl::OkStatus();
  }

  // Arguments that the convention assumes to be in different memories may share bytes only if nothing writes them.
  absl::Status CheckOverlaps() const {
    absl::flat_hash_set<int> written, resized;
    for (const MutatedMemory& m : c_.mutations.memories) {
      written.insert(m.memory.value());
      if (m.resized) resized.insert(m.memory.value());
    }
    for (size_t d = 0; d < distinct_.size(); ++d) {
      if (!distinct_[d].IsTensor() || !resized.contains(c_.overlaps.memory_of[d].value())) continue;
      // The memory behind it was assumed to be new memory.
      const Tensor& t = distinct_[d].tensor();
      if (t.offset() != 0 || t.geometry().Span().second * ItemSize(t.dtype()) != t.storage()->bytes())
        return absl::UnimplementedError("an argument is resized whose storage holds more than it");
    }
    for (size_t i = 0; i < distinct_.size(); ++i) {
      if (!distinct_[i].IsTensor()) continue;
      const Tensor& a = distinct_[i].tensor();
      for (size_t k = i + 1; k < distinct_.size(); ++k) {
        if (!distinct_[k].IsTensor()) continue;
        const Tensor& b = distinct_[k].tensor();
        const int ma = c_.overlaps.memory_of[i].value(), mb = c_.overlaps.memory_of[k].value();
        if (ma == mb || a.storage() != b.storage() || (!written.contains(ma) && !written.contains(mb))) continue;
        if (OverlapsConcrete(a.geometry(), ItemSize(a.dtype()), b.geometry(), ItemSize(b.dtype())) !=
            Overlap::kDisjoint) {
          return absl::FailedPreconditionError(
              absl::StrCat("arguments ", i, " and ", k, " share memory that is written; this plan takes them apart"));
        }
      }
      for (const Tensor& w : weights_) {
        if (w.storage() == a.storage() && a.storage()->bytes() > 0)
          return absl::FailedPreconditionError(absl::StrCat("argument ", i, " shares memory with the model's state"));
      }
    }
    return absl::OkStatus();
  }

  static int64_t Bytes(const Tensor& t) { return t.offset() * ItemSize(t.dtype()); }

  // Copies each memory, so that nothing is modified before everything has been computed. A memory that holds several
  // arguments consists of their storages, one after the other.
  absl::StatusOr<std::vector<EvalValue>> Prologue() {
    std::vector<EvalValue> inner = distinct_;
    for (int m = 0; m < c_.overlaps.num_argument_memories; ++m) {
      absl::flat_hash_map<const Storage*, int64_t> begin;
      int64_t total = 0;
      for (size_t d = 0; d < distinct_.size(); ++d) {
        if (c_.overlaps.memory_of[d].value() != m) continue;
        if (!distinct_[d].IsTensor()) return absl::InvalidArgumentError(absl::StrCat("argument ", d, " is no tensor"));
        const Storage* s = distinct_[d].tensor().storage().get();
        if (begin.try_emplace(s, total).second) total += (s->bytes() + 63) / 64 * 64;
      }
      std::shared_ptr<Storage> memory = Storage::Allocate(total);
      bool first = true;
      for (size_t d = 0; d < distinct_.size(); ++d) {
        if (c_.overlaps.memory_of[d].value() != m) continue;
        const Tensor& t = distinct_[d].tensor();
        const int64_t at = begin[t.storage().get()];
        if (t.storage()->bytes() > 0) std::memcpy(memory->data() + at, t.storage()->data(), t.storage()->bytes());
        Geometry g = t.geometry();
        g.offset += at / ItemSize(t.dtype());
        inner[d] = EvalValue(Tensor(memory, t.dtype(), g));
        state_.argument_origins[static_cast<int>(d)] = at + Bytes(t);
        if (first) state_.origins[memory.get()] = at + Bytes(t);
        first = false;
        argument_of_memory_.try_emplace(m, static_cast<int>(d));
      }
      state_.kept.push_back(memory);
    }
    absl::flat_hash_map<const Storage*, std::shared_ptr<Storage>> copies;
    std::vector<Tensor> weights;
    for (const Tensor& w : weights_) {
      std::shared_ptr<Storage>& copy = copies[w.storage().get()];
      if (copy == nullptr) {
        copy = Storage::Allocate(w.storage()->bytes());
        if (copy->bytes() > 0) std::memcpy(copy->data(), w.storage()->data(), copy->bytes());
      }
      weights.push_back(Tensor(copy, w.dtype(), w.geometry()));
    }
    return Inputs(g_, inner, weights);
  }

  // A place in the caller's memory: its storage, and the byte from which geometry counts.
  struct Place {
    std::shared_ptr<Storage> storage;
    int64_t origin = 0;
  };
  absl::StatusOr<Place> PlaceOf(MemoryIndex m, int argument) const {
    const int i = m.value();
    if (i >= c_.overlaps.num_argument_memories) {
      const int storage = i - c_.overlaps.num_argument_memories;
      for (size_t w = 0; w < g_.weights.size(); ++w) {
        if (g_.weights[w].storage == storage) return Place{before_weights_[w].first, 0};
      }
      return absl::InvalidArgumentError(absl::StrCat("no weight lives in storage ", storage));
    }
    if (argument < 0) {
      auto it = argument_of_memory_.find(i);
      if (it == argument_of_memory_.end()) return absl::InvalidArgumentError("a memory without arguments");
      argument = it->second;
    }
    if (argument >= static_cast<int>(before_.size()))
      return absl::InvalidArgumentError(absl::StrCat("no argument ", argument));
    return Place{before_[argument].first, before_[argument].second};
  }
  absl::StatusOr<Tensor> TensorAt(const Place& place, const SymbolicGeometry& geometry) const {
    SMELT_ASSIGN_OR_RETURN(Geometry g, Evaluated(geometry, symbols_));
    if (place.origin % ItemSize(geometry.dtype) != 0)
      return WithCause(absl::InvalidArgumentError("memory is not aligned for its dtype"), Cause::kUnaligned);
    g.offset += place.origin / ItemSize(geometry.dtype);
    return Tensor(place.storage, geometry.dtype, std::move(g));
  }
  absl::StatusOr<Tensor> Out(GraphOutputIndex i) const {
    if (i.value() < 0 || i.value() >= static_cast<int>(outs_.size()) || !outs_[i.value()].IsTensor())
      return absl::InvalidArgumentError(absl::StrCat("graph output ", i.value(), " is no tensor"));
    return outs_[i.value()].tensor();
  }
  // Returns the storage of a memory that the graph made: the same for equal ids, and different for different ids.
  absl::StatusOr<std::shared_ptr<Storage>> FreshStorage(int memory, GraphOutputIndex contents) {
    auto it = fresh_.find(memory);
    if (it != fresh_.end()) return it->second;
    SMELT_ASSIGN_OR_RETURN(Tensor t, Out(contents));
    // An argument's value may stand for the contents, which begin at the argument.
    auto origin = state_.origins.find(t.storage().get());
    const int64_t begin = origin == state_.origins.end() ? 0 : origin->second;
    std::shared_ptr<Storage> copy = Storage::Allocate(t.storage()->bytes() - begin);
    if (copy->bytes() > 0) std::memcpy(copy->data(), t.storage()->data() + begin, copy->bytes());
    fresh_[memory] = copy;
    return copy;
  }

  // Follows the convention step by step: what was written goes to arguments and states, then geometries change, then
  // results are made. Each step reads the values of before the call, which are collected first.
  absl::StatusOr<EvalResult> Epilogue() {
    // Looks everything up before the geometry changes below, so that they do not affect each other.
    for (const EvalValue& d : distinct_) {
      before_.push_back(d.IsTensor() ? std::make_pair(d.tensor().storage(), Bytes(d.tensor()))
                                     : std::make_pair(std::shared_ptr<Storage>(), int64_t{0}));
    }
    for (const Tensor& w : weights_) before_weights_.push_back({w.storage(), 0});

    // Contents.
    struct Copy {
      Tensor to, from;
    };
    std::vector<Copy> copies;
    for (const MutatedMemory& m : c_.mutations.memories) {
      SMELT_ASSIGN_OR_RETURN(Tensor contents, Out(m.contents));
      for (size_t i = 0; i < m.written.size(); ++i) {
        const int from = i < m.written_from.size() ? m.written_from[i].value() : -1;
        SMELT_ASSIGN_OR_RETURN(Place place, PlaceOf(m.memory, from));
        SMELT_ASSIGN_OR_RETURN(Tensor to, TensorAt(place, m.written[i]));
        Place inside{contents.storage(), 0};
        if (from >= 0) {
          inside.origin = state_.argument_origins.at(from);
        } else if (auto it = state_.origins.find(contents.storage().get()); it != state_.origins.end()) {
          inside.origin = it->second;
        }
        SMELT_ASSIGN_OR_RETURN(Tensor source, TensorAt(inside, m.written[i]));
        if (!source.InBounds()) return absl::InternalError("a written region lies outside the contents");
        if (m.resized) {
          SMELT_ASSIGN_OR_RETURN(int64_t bytes, m.final_bytes.Evaluate(symbols_));
          SMELT_RETURN_IF_ERROR(place.storage->GrowTo(place.origin + bytes));
        }
        if (!to.InBounds()) return absl::InternalError("a written region lies outside the caller's memory");
        copies.push_back({to, source});
      }
    }
    for (const Copy& copy : copies) SMELT_RETURN_IF_ERROR(eval_internal::CopyInto(copy.to, copy.from));

    // Geometry.
    std::vector<std::pair<Tensor, Tensor>> changes;
    for (const MutatedInput& in : c_.mutations.inputs) {
      if (!in.geometry && !in.storage) continue;
      const int index = in.is_state ? in.state : in.arg.value();
      if (index < 0 || index >= static_cast<int>(in.is_state ? weights_.size() : distinct_.size()))
        return absl::InvalidArgumentError("a changed input that does not exist");
      const Tensor handle = in.is_state ? weights_[index] : distinct_[index].tensor();
      Place place;
      if (!in.storage) {
        place =
            in.is_state ? Place{before_weights_[index].first, 0} : Place{before_[index].first, before_[index].second};
      } else if (in.final_source == MutatedInput::Source::kMemory) {
        SMELT_ASSIGN_OR_RETURN(place, PlaceOf(in.final_memory, in.final_from.value()));
      } else {
        int memory = -2 - in.final_output.value();
        for (const OutputInfo& o : c_.outputs.outputs) {
          if (o.kind == OutputInfo::Kind::kAliasOfIntermediate && o.contents == in.final_output)
            memory = o.memory.value();
        }
        SMELT_ASSIGN_OR_RETURN(place.storage, FreshStorage(memory, in.final_output));
      }
      SMELT_ASSIGN_OR_RETURN(Tensor now, TensorAt(place, in.final_geometry));
      changes.push_back({handle, now});
    }
    for (auto& [handle, now] : changes) {
      handle.SetStorage(now.storage());
      handle.SetDType(now.dtype());
      handle.SetGeometry(now.geometry());
    }

    EvalResult result;
    for (const OutputInfo& o : c_.outputs.outputs) {
      switch (o.kind) {
        case OutputInfo::Kind::kIsArgument:
          if (o.argument.value() < 0 || o.argument.value() >= static_cast<int>(args_.size()))
            return absl::InvalidArgumentError("an output is an argument that does not exist");
          result.outputs.push_back(args_[o.argument.value()]);
          break;
        case OutputInfo::Kind::kIsState:
          if (o.state < 0 || o.state >= static_cast<int>(weights_.size()))
            return absl::InvalidArgumentError("an output is a state that does not exist");
          result.outputs.push_back(EvalValue(weights_[o.state]));
          break;
        case OutputInfo::Kind::kAliasOfMemory: {
          const int caller = o.argument.value();
          SMELT_ASSIGN_OR_RETURN(Place place,
                                 PlaceOf(o.memory, caller >= 0 ? c_.duplicates.inner_of_outer[caller].value() : -1));
          SMELT_ASSIGN_OR_RETURN(Tensor t, TensorAt(place, o.geometry));
          if (!t.InBounds()) return absl::InternalError("an output lies outside the memory it aliases");
          result.outputs.push_back(EvalValue(t));
          break;
        }
        case OutputInfo::Kind::kAliasOfIntermediate: {
          SMELT_ASSIGN_OR_RETURN(std::shared_ptr<Storage> storage, FreshStorage(o.memory.value(), o.contents));
          SMELT_ASSIGN_OR_RETURN(Tensor t, TensorAt({storage, 0}, o.geometry));
          if (!t.InBounds()) return absl::InternalError("an output lies outside the storage it shares");
          result.outputs.push_back(EvalValue(t));
          break;
        }
        case OutputInfo::Kind::kFresh: {
          SMELT_ASSIGN_OR_RETURN(Tensor t, Out(o.contents));
          result.outputs.push_back(EvalValue(eval_internal::CopyWithStrides(t, t.strides())));
          break;
        }
        case OutputInfo::Kind::kScalar:
          if (o.contents.value() < 0 || o.contents.value() >= static_cast<int>(outs_.size()))
            return absl::InvalidArgumentError("an output that does not exist");
          result.outputs.push_back(outs_[o.contents.value()]);
          break;
        case OutputInfo::Kind::kConstant: {
          SMELT_ASSIGN_OR_RETURN(int64_t v, o.constant.Evaluate(symbols_));
          result.outputs.push_back(EvalValue(v));
          break;
        }
        case OutputInfo::Kind::kNone:
          result.outputs.push_back(EvalValue());
          break;
      }
    }
    return result;
  }

  const Graph& g_;
  const Convention& c_;
  std::vector<EvalValue> args_, distinct_;
  State state_;
  std::vector<Tensor> weights_;
  Symbols symbols_;
  std::vector<EvalValue> outs_;
  absl::flat_hash_map<int, int> argument_of_memory_;
  std::vector<std::pair<std::shared_ptr<Storage>, int64_t>> before_, before_weights_;
  absl::flat_hash_map<int, std::shared_ptr<Storage>> fresh_;
};

}  // namespace

std::vector<Tensor> CopyWeights(const Graph& g) {
  std::vector<std::shared_ptr<Storage>> storages;
  for (const std::shared_ptr<Storage>& s : g.weight_storages) {
    std::shared_ptr<Storage> copy = Storage::Allocate(s->bytes());
    if (s->data() != nullptr && s->bytes() > 0) std::memcpy(copy->data(), s->data(), s->bytes());
    storages.push_back(std::move(copy));
  }
  std::vector<Tensor> weights;
  for (const Weight& w : g.weights) weights.push_back(Tensor(storages[w.storage], w.dtype, w.geometry));
  return weights;
}

absl::StatusOr<EvalResult> EvaluateGraph(const Graph& g, absl::Span<const EvalValue> args, const EvalOptions& options) {
  State state = MakeState(options);
  SMELT_ASSIGN_OR_RETURN(std::vector<Tensor> weights, WeightsOf(g, options));
  SMELT_ASSIGN_OR_RETURN(std::vector<EvalValue> inputs, Inputs(g, args, weights));
  for (const EvalValue& a : args) {
    if (!a.IsTensor()) continue;
    // In pure graphs the memory of an argument counts from the argument's own data.
    state.origins.try_emplace(a.tensor().storage().get(), a.tensor().offset() * ItemSize(a.tensor().dtype()));
  }
  EvalResult result;
  SMELT_ASSIGN_OR_RETURN(result.outputs, eval_internal::RunGraph(state, g, inputs));
  return result;
}

absl::StatusOr<std::vector<EvalValue>> EvaluateOp(OpName op, absl::Span<const EvalValue> args,
                                                  const EvalOptions& options) {
  State state = MakeState(options);
  return eval_internal::Run(state, op, args);
}

absl::StatusOr<EvalResult> RunConvention(const Graph& pure, const Convention& convention,
                                         absl::Span<const EvalValue> args, const EvalOptions& options) {
  return ConventionRun(pure, convention, args, options).Run();
}

}  // namespace smelt
