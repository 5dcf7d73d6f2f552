#include "smelt/tools/fuzz/run.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/alias/alias_db.h"
#include "smelt/core/base/cause.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/eval/evaluator.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/scalar_memory.h"
#include "smelt/core/op/write_rules.h"
#include "smelt/core/tensor/region.h"
#include "smelt/functionalize/argument_memories.h"
#include "smelt/functionalize/functionalize.h"
#include "smelt/functionalize/open_composites.h"
#include "smelt/pipeline/compile.h"
#include "smelt/pipeline/passes.h"
#include "smelt/runtime/program.h"
#include "smelt/runtime/strided.h"
#include "smelt/script/simplify_script.h"

namespace smelt {
namespace {

// --- comparing ---
// Elements of `dtype`, one after the other in both.
std::string DifferentValues(DType dtype, absl::string_view want, absl::string_view got) {
  if (want.size() != got.size()) return absl::StrCat(got.size(), " bytes instead of ", want.size());
  if (want == got) return "";
  const int step = IsComplex(dtype) ? ItemSize(dtype) / 2 : ItemSize(dtype);
  const int parts = IsComplex(dtype) ? 2 : 1;
  if (!IsFloating(dtype) && !IsComplex(dtype)) {
    for (size_t i = 0; i + step <= want.size(); i += step) {
      if (want.substr(i, step) == got.substr(i, step)) continue;
      int64_t w = 0, g = 0;
      std::memcpy(&w, want.data() + i, step);
      std::memcpy(&g, got.data() + i, step);
      // Any byte but 0 is true, and a program can make such bytes through a view of another type; a copy may change
      // them to 1.
      if (dtype == DType::kBool && w != 0 && g != 0) continue;
      return absl::StrCat("element ", i / step, " is ", g, " instead of ", w);
    }
    return "";
  }
  double largest = 0;
  for (size_t i = 0; i + step <= want.size(); i += step) {
    const double v = std::fabs(LoadDouble(want.data() + i, dtype));
    if (std::isfinite(v)) largest = std::max(largest, v);
  }
  const double tolerance = (IsHalf(dtype) ? 2e-2 : 2e-5) * std::max(1.0, largest);
  for (size_t i = 0; i + step <= want.size(); i += step) {
    const double w = LoadDouble(want.data() + i, dtype), g = LoadDouble(got.data() + i, dtype);
    if (w == g || (std::isnan(w) && std::isnan(g)) || std::fabs(w - g) <= tolerance) continue;
    return absl::StrCat("element ", i / step / parts, " is ", g, " instead of ", w);
  }
  return "";
}

absl::string_view Bytes(const Storage& s) { return absl::string_view(s.data(), static_cast<size_t>(s.bytes())); }
std::string Elements(const Tensor& t) {
  const Tensor dense = t.Clone();
  return std::string(static_cast<const char*>(dense.data()), dense.NumElements() * ItemSize(t.dtype()));
}

// The places of tensors in a form that two runs can compare: a storage is a number in order of first sight, arguments'
// and states' first. Also records which of the arguments and states a tensor is.
class Places {
 public:
  explicit Places(const Seen& seen) : seen_(seen) {
    for (const auto& s : seen.call.storages) Number(s.get());
    for (const Tensor& t : seen.states) Number(t.storage().get());
    known_ = static_cast<int>(numbers_.size());
  }
  std::string Of(const Tensor& t) {
    std::string out;
    for (int d = 0; d < t.rank(); ++d) {
      if (t.sizes()[d] > 1 && t.NumElements() > 0) absl::StrAppend(&out, d == 0 ? "" : ",", t.strides()[d]);
    }
    out = absl::StrCat("strides (", out, ")");
    if (t.storage()->bytes() == 0 || t.NumElements() == 0) return out;
    const int n = Number(t.storage().get());
    const int64_t at = t.offset() * ItemSize(t.dtype());
    // Offsets in fresh memory count only relative to each other.
    const int64_t begin = n < known_ ? 0 : first_.try_emplace(n, at).first->second;
    return absl::StrCat(out, n < known_ ? " in storage " : " in new storage ", n, " at byte ", at - begin);
  }
  std::string Identity(const Tensor& t) const {
    for (size_t i = 0; i < seen_.call.args.size(); ++i) {
      if (seen_.call.args[i].IsTensor() && seen_.call.args[i].tensor().IsSame(t)) return absl::StrCat("argument ", i);
    }
    for (size_t i = 0; i < seen_.states.size(); ++i) {
      if (seen_.states[i].IsSame(t)) return absl::StrCat("state ", i);
    }
    return "a new tensor";
  }

 private:
  int Number(const Storage* s) { return numbers_.try_emplace(s, static_cast<int>(numbers_.size())).first->second; }
  const Seen& seen_;
  std::map<const Storage*, int> numbers_;
  std::map<int, int64_t> first_;
  int known_ = 0;
};

std::string DifferentTensors(const Tensor& want, const Tensor& got, Places& want_places, Places& got_places) {
  if (want.dtype() != got.dtype()) return absl::StrCat(Name(got.dtype()), " instead of ", Name(want.dtype()));
  if (want.sizes() != got.sizes())
    return absl::StrCat("geometry ", got.geometry().ToString(), " instead of ", want.geometry().ToString());
  const std::string w = want_places.Of(want), g = got_places.Of(got);
  if (w != g) return absl::StrCat(g, " instead of ", w);
  const std::string wi = want_places.Identity(want), gi = got_places.Identity(got);
  if (wi != gi) return absl::StrCat(gi, " instead of ", wi);
  if (!got.InBounds()) return "reaches outside its storage";
  return DifferentValues(want.dtype(), Elements(want), Elements(got));
}

// --- the evaluator ---
std::vector<EvalValue> ToEval(const std::vector<Datum>& args) {
  std::vector<EvalValue> out;
  for (const Datum& d : args) {
    if (d.IsTensor()) {
      out.push_back(EvalValue(d.tensor()));
    } else if (d.IsInt()) {
      out.push_back(EvalValue(d.as_int()));
    } else if (d.IsFloat()) {
      out.push_back(EvalValue(d.as_float()));
    } else if (d.IsBool()) {
      out.push_back(EvalValue(d.as_bool()));
    } else {
      out.push_back(EvalValue());
    }
  }
  return out;
}
std::vector<Datum> ToDatums(const std::vector<EvalValue>& values) {
  std::vector<Datum> out;
  for (const EvalValue& v : values) {
    if (v.IsTensor()) {
      out.push_back(Datum(v.tensor()));
    } else if (v.IsInt()) {
      out.push_back(Datum(v.as_int()));
    } else if (v.IsDouble()) {
      out.push_back(Datum(v.as_double()));
    } else if (v.IsBool()) {
      out.push_back(Datum(v.as_bool()));
    } else {
      out.push_back(Datum());
    }
  }
  return out;
}

EvalOptions OptionsFor(const Sample& sample) {
  EvalOptions options;
  options.weights = CopyWeights(*sample.graph);
  options.generator = std::make_shared<EvalGenerator>(1);
  options.max_steps = 20000;
  return options;
}

Seen RunPure(const Sample& sample, const Graph& pure, const Convention& convention) {
  Seen seen;
  seen.call = Make(sample.call);
  EvalOptions options = OptionsFor(sample);
  seen.states = options.weights;
  auto result = RunConvention(pure, convention, ToEval(seen.call.args), options);
  seen.status = result.status();
  if (result.ok()) seen.outputs = ToDatums(result->outputs);
  return seen;
}

// --- which of the ways to functionalize fits a call ---
struct Pattern {
  bool duplicates = false, overlap = false, strides_differ = false;
  DuplicatesLayer layer;
};
Pattern PatternOf(const Sample& sample) {
  Pattern p;
  const MadeCall call = Make(sample.call);
  // as_strided may reach another argument's memory, too.
  bool absolute = false;
  for (NodeId n : sample.graph->AllNodes())
    absolute = absolute || absl::StrContains(sample.graph->node(n).op.name(), "as_strided");
  int next = 0;
  size_t input = 0;
  for (size_t i = 0; i < call.args.size(); ++i, ++input) {
    const Graph& g = *sample.graph;
    while (g.input_infos[input].kind != InputInfo::Kind::kUser) ++input;
    int same = -1;
    for (size_t k = 0; k < i && call.args[i].IsTensor(); ++k) {
      if (!call.args[k].IsTensor()) continue;
      const Tensor &a = call.args[i].tensor(), &b = call.args[k].tensor();
      if (a.IsSame(b)) {
        same = static_cast<int>(k);
        break;
      }
      p.overlap = p.overlap || (a.storage() == b.storage() &&
                                (absolute || OverlapsConcrete(a.geometry(), ItemSize(a.dtype()), b.geometry(),
                                                              ItemSize(b.dtype())) != Overlap::kDisjoint));
    }
    p.duplicates = p.duplicates || same >= 0;
    p.layer.inner_of_outer.push_back(same >= 0 ? p.layer.inner_of_outer[same] : DistinctIndex(next++));
    if (!call.args[i].IsTensor()) continue;
    const TensorType& t = g.value(g.inputs()[input]).type.tensor();
    for (int d = 0; d < t.rank() && d < call.args[i].tensor().rank(); ++d) {
      const auto stride = (*t.strides)[d].Constant();
      if (stride && *stride != call.args[i].tensor().strides()[d] && call.args[i].tensor().sizes()[d] != 1)
        p.strides_differ = true;
    }
  }
  return p;
}

// Returns true if the verdict is final.
bool Judge(const Sample& sample, const Seen& want, const Seen& got, const std::string& where, Verdict* v) {
  v->where = where;
  if (want.status.ok() && !got.status.ok()) {
    // The evaluator makes views before it knows which branch is taken.
    if (where != "bundle" && CauseOf(got.status) == Cause::kUnaligned) {
      v->outcome = Outcome::kSkipped;
      return true;
    }
    v->outcome = absl::IsFailedPrecondition(got.status) || CauseOf(got.status) == Cause::kOtherStrides
                     ? Outcome::kRefused
                     : (absl::IsUnimplemented(got.status) ? Outcome::kUnsupported : Outcome::kDifferent);
    v->what = std::string(got.status.message());
    return true;
  }
  // The evaluator may have written before it refuses; a bundle may not.
  const bool refused = !want.status.ok() && !got.status.ok() && where != "bundle";
  v->what = refused ? "" : Difference(sample, want, got);
  if (v->what.empty()) return false;
  v->outcome = Outcome::kDifferent;
  return true;
}

}  // namespace

std::string Difference(const Sample& sample, const Seen& want, const Seen& got) {
  if (!want.status.ok()) {
    // A program with shapes that do not fit would not be exported; nodes without uses may hide such shapes.
    const bool overlap = absl::StrContains(want.status.message(), "unsupported operation");
    if (!overlap && !absl::StrContains(want.status.message(), "out of range")) return "";
    if (got.status.ok()) return absl::StrCat("accepted, though eager execution refuses: ", want.status.message());
    // Facts that only the data decide are found while it runs.
    if (!overlap) return "";
    for (size_t s = 0; s < got.call.storages.size(); ++s) {
      if (Bytes(*got.call.storages[s]) != sample.call.storages[s].bytes)
        return absl::StrCat("storage ", s, " was modified by a refused call");
    }
    return "";
  }
  if (!got.status.ok()) return absl::StrCat("refused: ", got.status.message());
  if (want.outputs.size() != got.outputs.size())
    return absl::StrCat(got.outputs.size(), " outputs instead of ", want.outputs.size());
  Places want_places(want), got_places(got);
  for (size_t k = 0; k < want.outputs.size(); ++k) {
    const Datum &w = want.outputs[k], &g = got.outputs[k];
    std::string d;
    if (w.IsTensor() != g.IsTensor()) {
      d = "a tensor or none";
    } else if (w.IsTensor()) {
      d = DifferentTensors(w.tensor(), g.tensor(), want_places, got_places);
    } else if (w.IsInt() && (!g.IsInt() || g.as_int() != w.as_int())) {
      d = absl::StrCat("instead of ", w.as_int());
    } else if (w.IsBool() && (!g.IsBool() || g.as_bool() != w.as_bool())) {
      d = absl::StrCat("instead of ", w.as_bool());
    }
    if (!d.empty()) return absl::StrCat("output ", k, ": ", d);
  }
  for (size_t k = 0; k < want.call.args.size(); ++k) {
    if (!want.call.args[k].IsTensor()) continue;
    const std::string d =
        DifferentTensors(want.call.args[k].tensor(), got.call.args[k].tensor(), want_places, got_places);
    if (!d.empty()) return absl::StrCat("argument ", k, ": ", d);
  }
  for (size_t k = 0; k < want.states.size(); ++k) {
    const std::string d = DifferentTensors(want.states[k], got.states[k], want_places, got_places);
    if (!d.empty()) return absl::StrCat("state ", k, ": ", d);
  }
  for (size_t s = 0; s < want.call.storages.size(); ++s) {
    const std::string d =
        DifferentValues(sample.call.storages[s].dtype, Bytes(*want.call.storages[s]), Bytes(*got.call.storages[s]));
    if (!d.empty()) return absl::StrCat("storage ", s, ": ", d);
  }
  return "";
}

namespace {
// Finds results that are left open and visible only where bits are read as another dtype: which of two NaNs is
// returned, and the last place of elementary functions.
class BitsObserver : public EvalObserver {
 public:
  void OnNode(const Graph& g, NodeId n, absl::Span<const Tensor> read, absl::Span<const Tensor>) override {
    const std::string& name = g.node(n).op.name();
    bits_seen_ = bits_seen_ || g.node(n).op.full() == "aten::view.dtype";
    function_ = function_ || name == "aten::tanh" || name == "aten::sigmoid" || name == "aten::softmax";
    for (const Tensor& t : read) nan_ = nan_ || HasNan(t);
    undefined = undefined || (bits_seen_ && nan_);
  }

  static bool HasNan(const Tensor& t) {
    if (!IsFloating(t.dtype())) return false;
    const Tensor dense = t.Clone();
    const char* at = dense.storage()->data();
    for (int64_t i = 0; i < dense.NumElements(); ++i) {
      if (std::isnan(LoadScalar(t.dtype(), at + i * ItemSize(t.dtype())).f)) return true;
    }
    return false;
  }

  bool shows_last_places() const { return bits_seen_ && function_; }

  bool undefined = false;

 private:
  bool bits_seen_ = false, nan_ = false, function_ = false;
};
}  // namespace

Seen RunEagerly(const Sample& sample) {
  Seen seen;
  BitsObserver observer;
  seen.call = Make(sample.call);
  EvalOptions options = OptionsFor(sample);
  seen.states = options.weights;
  options.observer = &observer;
  auto result = EvaluateGraph(*sample.graph, ToEval(seen.call.args), options);
  seen.status = result.status();
  seen.shows_last_places = observer.shows_last_places();
  if (result.ok() && observer.undefined) seen.status = absl::UnimplementedError("the bits of a NaN");
  if (result.ok()) seen.outputs = ToDatums(result->outputs);
  return seen;
}

namespace {

bool ChangesGeometry(const Graph& g) {
  const std::vector<NodeId> nodes = g.AllNodes();
  return std::any_of(nodes.begin(), nodes.end(),
                     [&](NodeId n) { return GetOpInfo(g.node(n).op).kind == OpKind::kInplaceView; });
}

// Runs the evaluator on the graph after each pass. Returns true if the verdict is final.
bool RunPasses(const Sample& sample, const Seen& want, const Pattern& pattern, const RunOptions& options, Verdict* v) {
  std::unique_ptr<Graph> opened = sample.graph->Clone();
  SimplifyScript(*opened, /*inferred=*/true);
  auto open = OpenComposites(*opened);
  auto unsupported = [&](const absl::Status& s, const std::string& where) {
    v->where = where;
    v->what = std::string(s.message());
    // A call that PyTorch refuses may be refused when it is compiled.
    if (!absl::IsInternal(s) && !want.status.ok()) return true;
    // A plan for shared memory that cannot be made is refused when such a call is made.
    const bool variant = absl::StrContains(where, "(") && !absl::IsInternal(s);
    // A program without a pure form runs in eager order.
    v->outcome = absl::IsUnimplemented(s) || absl::IsInvalidArgument(s)
                     ? Outcome::kUnsupported
                     : (absl::IsFailedPrecondition(s) || variant ? Outcome::kRefused : Outcome::kDifferent);
    return true;
  };
  if (!open.ok()) return unsupported(open.status(), "open-composites");
  for (const bool overlapping : {false, true}) {
    FunctionalizeOptions f;
    if (overlapping) {
      if (!pattern.overlap && !options.all_variants) continue;
      // Guards state which strides such a plan accepts, and the evaluator does not know guards.
      if (pattern.strides_differ) continue;
      f.overlapping = true;
      f.symbolic_strides = !open->strides_decide;
    } else {
      if (pattern.overlap || pattern.strides_differ) continue;
      if (pattern.duplicates) f.duplicates = pattern.layer;
    }
    const bool merged = !overlapping && pattern.duplicates;
    std::unique_ptr<Graph> pure = merged ? sample.graph->Clone() : opened->Clone();
    if (merged) {
      MergeDuplicates(*pure, pattern.layer);
      if (auto s = OpenComposites(*pure); !s.ok()) return unsupported(s.status(), "open-composites (duplicates)");
    }
    PassContext context;
    context.Put(f);
    context.Get<AliasDb::Options>().distinct_inputs = !overlapping;
    const absl::Status functional = PassesOf({PassGroup::kPure}).Run(*pure, context);
    const std::string name = overlapping ? " (overlapping)" : pattern.duplicates ? " (duplicates)" : "";
    if (!functional.ok()) {
      // One tensor given twice belongs to another plan if geometry changes.
      if (overlapping && !pattern.overlap && !pattern.strides_differ) continue;
      return unsupported(functional, absl::StrCat(FailedPass(functional), name));
    }
    const Convention& c = context.Get<FunctionalizeResult>().convention;
    if (overlapping && pattern.duplicates && (!c.mutations.inputs.empty() || ChangesGeometry(*sample.graph))) continue;
    // A program without writes runs as it is, whoever shares memory.
    const Seen got = RunPure(sample, *pure, c);
    // A size that only a duplicate's type names, and that the bundle takes from the call.
    if (merged && absl::StrContains(got.status.message(), "has no value")) return false;
    // Such a call belongs to the eager-order plan.
    if (want.status.ok() && absl::IsUnimplemented(got.status) && CauseOf(got.status) == Cause::kDependsOnOrder)
      continue;
    if (Judge(sample, want, got, absl::StrCat("functionalize", name), v)) return true;
    const PassPipeline kernels = PassesOf({PassGroup::kExpand, PassGroup::kFuse, PassGroup::kLayout});
    if (absl::Status s = kernels.Run(*pure, context); !s.ok()) return unsupported(s, absl::StrCat(FailedPass(s), name));
    if (Judge(sample, want, RunPure(sample, *pure, c), absl::StrCat("fuse", name), v)) return true;
  }
  return false;
}

Seen RunBundle(const std::shared_ptr<const Program>& program, const Sample& sample) {
  Seen seen;
  seen.call = Make(sample.call);
  auto instance = Instance::Create(program);
  seen.status = instance.status();
  if (!instance.ok()) return seen;
  auto outputs = (*instance)->Run(seen.call.args);
  seen.status = outputs.status();
  if (!outputs.ok()) return seen;
  seen.outputs = *std::move(outputs);
  seen.variant = Name((*instance)->last_call().variant);
  // By the graph's numbers, because a bundle may list states in another order.
  for (const Weight& w : sample.graph->weights) {
    for (size_t i = 0; i < program->states().size(); ++i) {
      if (program->states()[i].name == w.name) seen.states.push_back((*instance)->state(static_cast<int>(i)));
    }
  }
  return seen;
}

// Writes a bundle at `path`, or returns the verdict that there is none.
bool Compile(const Sample& sample, const RunOptions& options, const std::string& path, Verdict* v) {
  CompileOptions compile;
  compile.targets = {kHostTarget};
  compile.cache = options.cache;
  compile.threads = 1;
  compile.only_eager_order = options.only_eager_order;
  const auto compiled = CompileToFile(*sample.graph, path, compile);
  v->where = "compile";
  if (compiled.ok()) return true;
  v->what = std::string(compiled.status().message());
  v->outcome = absl::IsUnimplemented(compiled.status()) || absl::IsInvalidArgument(compiled.status())
                   ? Outcome::kUnsupported
                   : Outcome::kDifferent;
  return false;
}

}  // namespace

Verdict RunSample(const Sample& sample, const RunOptions& options) {
  Verdict v;
  const Seen want = RunEagerly(sample);
  const std::string path = absl::StrCat(options.scratch, "/fuzz-", getpid(), ".smb");
  if (absl::IsUnimplemented(want.status) || absl::IsInternal(want.status) || absl::IsResourceExhausted(want.status)) {
    if (options.compiled && options.compiled_unjudged) {
      if (!Compile(sample, options, path, &v)) return v;
      std::remove(path.c_str());
    }
    v.outcome = Outcome::kSkipped;
    v.where = "eager";
    v.what = std::string(want.status.message());
    return v;
  }
  v.eager_refuses = !want.status.ok();
  const bool ended = options.evaluator && RunPasses(sample, want, PatternOf(sample), options, &v);
  // The bundle runs programs without a pure form, or without one for such a call, in eager order.
  if (!options.compiled || (ended && v.outcome == Outcome::kDifferent)) return v;
  v = Verdict();
  v.eager_refuses = !want.status.ok();
  if (!Compile(sample, options, path, &v)) return v;
  ProgramOptions load;
  load.threads = 1;
  auto program = Program::Load(path, load);
  std::remove(path.c_str());
  if (!program.ok()) {
    v.where = "load";
    v.what = std::string(program.status().message());
    v.outcome = Outcome::kDifferent;
    return v;
  }
  const Seen got = RunBundle(*program, sample);
  v.variant = got.variant;
  Judge(sample, want, got, "bundle", &v);
  if (v.outcome == Outcome::kDifferent && want.shows_last_places) v.outcome = Outcome::kSkipped;
  return v;
}

}  // namespace smelt
