#include "smelt/tools/fuzz/reduce.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/eval/evaluator.h"
#include "smelt/pipeline/complete_types.h"

namespace smelt {
namespace {

std::vector<int> UserInputs(const Graph& g) {
  std::vector<int> out;
  for (size_t i = 0; i < g.inputs().size(); ++i) {
    if (g.input_infos[i].kind == InputInfo::Kind::kUser) out.push_back(static_cast<int>(i));
  }
  return out;
}

// Bytes of a dense copy.
std::string DenseBytes(const Tensor& t) {
  const Tensor dense = t.Clone();
  return std::string(static_cast<const char*>(dense.data()), dense.NumElements() * ItemSize(t.dtype()));
}

std::vector<EvalValue> ArgumentsOf(const Call& call) {
  std::vector<EvalValue> args;
  for (const Datum& d : Make(call).args) {
    args.push_back(d.IsTensor()  ? EvalValue(d.tensor())
                   : d.IsInt()   ? EvalValue(d.as_int())
                   : d.IsFloat() ? EvalValue(d.as_float())
                   : d.IsBool()  ? EvalValue(d.as_bool())
                                 : EvalValue());
  }
  return args;
}

// Records every value of the top block in an eager run.
class Recorder : public EvalObserver {
 public:
  void OnValue(const Graph& g, ValueId v, const EvalValue& x) override {
    const NodeId def = g.value(v).def;
    if (g.node(def).parent != g.top() || !x.IsTensor() || !x.tensor().InBounds()) return;
    if (x.tensor().NumElements() > 1 << 16) return;
    values[v] = x.tensor().Clone();
  }
  absl::flat_hash_map<ValueId, Tensor> values;
};

class Reducer {
 public:
  Reducer(const Sample& sample, const std::function<bool(const Sample&)>& fails, int max_tries)
      : best_(sample.Clone()), fails_(fails), left_(max_tries) {
    // With an unknown operator, types are those that the model states.
    typed_ = CompleteTypes(*sample.Clone().graph, /*simplify=*/false).ok();
  }

  Sample Run() {
    bool progress = true;
    while (progress && left_ > 0) {
      progress = false;
      progress |= Outputs();
      progress |= Nodes();
      progress |= ControlFlow();
      progress |= Weights();
      progress |= Arguments();
      progress |= Constants();
      progress |= Sizes();
      progress |= Values();
    }
    return std::move(best_);
  }

 private:
  // Returns whether the candidate is a program and still fails. Then it becomes the best.
  bool Try(Sample candidate) {
    if (left_-- <= 0) return false;
    const bool typed = CompleteTypes(*candidate.graph, /*simplify=*/false).ok();
    if ((typed_ && !typed) || !VerifyGraph(*candidate.graph).ok()) return false;
    if (!typed || IsLarge(candidate)) {
      if (!fails_(candidate)) return false;
      best_ = std::move(candidate);
      return true;
    }
    // The candidate as it will be read again.
    auto again = Sample::Parse(candidate.ToString(), "candidate");
    if (!again.ok() || !fails_(*again)) return false;
    best_ = *std::move(again);
    return true;
  }
  // Returns whether the sample is too large to be printed and parsed with every try.
  static bool IsLarge(const Sample& s) {
    size_t bytes = 0;
    for (const CallStorage& storage : s.call.storages) bytes += storage.bytes.size();
    for (const auto& storage : s.graph->weight_storages) bytes += storage->bytes();
    return bytes > size_t{1} << 16;
  }

  bool Outputs() {
    bool progress = false;
    for (int i = static_cast<int>(best_.graph->outputs().size()) - 1; i >= 0; --i) {
      Sample c = best_.Clone();
      c.graph->EraseResult(c.graph->top(), i);
      progress |= Try(std::move(c));
    }
    for (const NodeId n : best_.graph->AllNodes()) {
      if (!best_.graph->IsLive(n) || best_.graph->node(n).op != "prim::If") continue;
      for (size_t k = best_.graph->node(n).outputs.size(); k-- > 0;) {
        if (!best_.graph->value(best_.graph->node(n).outputs[k]).uses.empty()) continue;
        Sample c = best_.Clone();
        for (BlockId b : c.graph->node(n).blocks) c.graph->EraseResult(b, static_cast<int>(k));
        c.graph->EraseNodeOutput(n, static_cast<int>(k));
        if (Try(std::move(c))) return true;  // ids are new
      }
    }
    return progress;
  }

  // --- nodes ---
  static bool IsQuiet(const Node& n) { return n.op == "prim::Constant"; }

  // Removes a node: its results become an argument of it, a constant, or a new argument of the call.
  bool Bypass(Sample& s, NodeId n, const absl::flat_hash_map<ValueId, Tensor>& recorded) {
    Graph& g = *s.graph;
    const std::vector<ValueId> outputs(g.node(n).outputs.begin(), g.node(n).outputs.end());
    for (ValueId v : outputs) {
      if (g.value(v).uses.empty()) continue;
      const Type& type = g.value(v).type;
      ValueId with;
      for (ValueId in : g.node(n).inputs) {
        if (g.value(in).type == type && (type.IsTensor() || type.kind() == TypeKind::kList)) {
          with = in;
          break;
        }
      }
      if (!with.valid() && type.kind() == TypeKind::kInt) with = InsertConstant(g, n, int64_t{0});
      if (!with.valid() && type.kind() == TypeKind::kBool) with = InsertConstant(g, n, true);
      if (!with.valid()) with = NewArgument(s, v, recorded);
      if (!with.valid()) return false;
      g.ReplaceAllUses(v, with);
    }
    g.Erase(n);
    return true;
  }
  ValueId NewArgument(Sample& s, ValueId v, const absl::flat_hash_map<ValueId, Tensor>& recorded) {
    Graph& g = *s.graph;
    auto it = recorded.find(v);
    if (it == recorded.end() || !g.value(v).type.IsTensor()) return ValueId();
    const Tensor& t = it->second;
    std::vector<Expr> sizes(t.sizes().begin(), t.sizes().end());
    const ValueId arg = g.AddInput("", Type::Tensor(t.dtype(), sizes, ContiguousStrides(sizes)));
    CallArg a;
    a.storage = static_cast<int>(s.call.storages.size());
    a.dtype = t.dtype();
    a.geometry = Geometry::Contiguous(t.sizes());
    s.call.storages.push_back({t.dtype(), DenseBytes(t)});
    s.call.args.push_back(std::move(a));
    return arg;
  }
  absl::flat_hash_map<ValueId, Tensor> Record() {
    Recorder recorder;
    EvalOptions options;
    options.observer = &recorder;
    options.weights = CopyWeights(*best_.graph);
    options.max_steps = 100000;
    (void)EvaluateGraph(*best_.graph, ArgumentsOf(best_.call), options);
    return std::move(recorder.values);
  }

  bool Nodes() {
    bool any = false;
    size_t chunk = std::max<size_t>(1, best_.graph->AllNodes().size() / 2);
    while (true) {
      bool progress = false;
      absl::flat_hash_map<ValueId, Tensor> recorded = Record();
      std::vector<NodeId> nodes = best_.graph->AllNodes();
      // Goes from the end, so that users of a node are removed before it.
      for (size_t end = nodes.size(); end > 0 && left_ > 0;) {
        const size_t begin = end > chunk ? end - chunk : 0;
        Sample c = best_.Clone();
        bool ok = true;
        for (size_t k = end; k-- > begin && ok;) {
          if (!c.graph->IsLive(nodes[k])) continue;
          const Node& node = c.graph->node(nodes[k]);
          if (IsQuiet(node)) {
            if (c.graph->value(node.outputs[0]).uses.empty()) c.graph->Erase(nodes[k]);
            continue;
          }
          ok = Bypass(c, nodes[k], recorded);
        }
        end = begin;
        if (ok && c.graph->num_nodes() < best_.graph->num_nodes() && Try(std::move(c))) {
          progress = any = true;
          // The ids are new.
          nodes = best_.graph->AllNodes();
          recorded = Record();
          end = std::min(end, nodes.size());
        }
      }
      if (chunk == 1 && !progress) return any;
      if (!progress || chunk > 8) chunk = std::max<size_t>(1, chunk / 2);
      if (left_ <= 0) return any;
    }
  }

  // --- control flow ---
  // Puts a block's nodes before its owner.
  static void Inline(Graph& g, NodeId n, BlockId b, absl::Span<const ValueId> params, std::vector<ValueId>* results) {
    const std::vector<ValueId> formal(g.params(b).begin(), g.params(b).end());
    for (size_t i = 0; i < formal.size() && i < params.size(); ++i) g.ReplaceAllUses(formal[i], params[i]);
    for (NodeId inner : g.Nodes(b)) g.MoveBefore(inner, n);
    results->assign(g.results(b).begin(), g.results(b).end());
  }
  bool ControlFlow() {
    bool progress = false;
    const size_t count = best_.graph->AllNodes().size();
    for (size_t k = 0; k < count; ++k) {
      for (int variant = 0; variant < 2; ++variant) {
        const std::vector<NodeId> nodes = best_.graph->AllNodes();
        if (k >= nodes.size()) return progress;
        Sample c = best_.Clone();
        Graph& g = *c.graph;
        const NodeId n = nodes[k];
        const std::string& name = g.node(n).op.name();
        const std::vector<ValueId> inputs(g.node(n).inputs.begin(), g.node(n).inputs.end());
        const std::vector<BlockId> blocks(g.node(n).blocks.begin(), g.node(n).blocks.end());
        std::vector<ValueId> results;
        size_t first = 0;
        if (name == "prim::If" || name == "smelt::cond") {
          Inline(g, n, blocks[variant], absl::MakeSpan(inputs).subspan(1), &results);
        } else if (name == "prim::Loop" && variant == 0) {
          std::vector<ValueId> params = {InsertConstant(g, n, int64_t{0})};
          params.insert(params.end(), inputs.begin() + 2, inputs.end());
          Inline(g, n, blocks[0], params, &results);
          first = 1;
        } else if (name == "smelt::while_loop" && variant == 0) {
          Inline(g, n, blocks[1], inputs, &results);
        } else {
          continue;
        }
        const std::vector<ValueId> outputs(g.node(n).outputs.begin(), g.node(n).outputs.end());
        for (size_t i = 0; i < outputs.size(); ++i) g.ReplaceAllUses(outputs[i], results[first + i]);
        g.Erase(n);
        progress |= Try(std::move(c));
      }
    }
    return progress;
  }

  // --- weights and arguments ---
  // A weight becomes an argument, so that the text says all.
  bool Weights() {
    bool progress = false;
    for (size_t i = 0; i < best_.graph->inputs().size(); ++i) {
      if (best_.graph->input_infos[i].kind != InputInfo::Kind::kWeight) continue;
      Sample c = best_.Clone();
      Graph& g = *c.graph;
      const int weight = g.input_infos[i].weight;
      const Weight w = g.weights[weight];
      // All weights of the storage.
      int user = 0;
      CallStorage storage{w.dtype,
                          std::string(g.weight_storages[w.storage]->data(), g.weight_storages[w.storage]->bytes())};
      const int number = static_cast<int>(c.call.storages.size());
      c.call.storages.push_back(std::move(storage));
      std::set<int> gone;
      for (size_t k = 0; k < g.inputs().size(); ++k) {
        InputInfo& info = g.input_infos[k];
        if (info.kind == InputInfo::Kind::kWeight && g.weights[info.weight].storage == w.storage) {
          CallArg a;
          a.storage = number;
          a.dtype = g.weights[info.weight].dtype;
          a.geometry = g.weights[info.weight].geometry;
          for (CallArg& other : c.call.args) other.same_as += other.same_as >= user;
          c.call.args.insert(c.call.args.begin() + user, std::move(a));
          gone.insert(info.weight);
          info = InputInfo();
        }
        user += info.kind == InputInfo::Kind::kUser;
      }
      EraseWeights(g, gone, w.storage);
      if (Try(std::move(c))) {
        progress = true;
        --i;
      }
    }
    // An input that is not used.
    for (size_t i = best_.graph->inputs().size(); i-- > 0;) {
      if (best_.graph->input_infos[i].kind != InputInfo::Kind::kWeight) continue;
      if (!best_.graph->value(best_.graph->inputs()[i]).uses.empty()) continue;
      Sample c = best_.Clone();
      Graph& g = *c.graph;
      const int weight = g.input_infos[i].weight, storage = g.weights[weight].storage;
      g.EraseParam(g.top(), static_cast<int>(i));
      int sharing = 0;
      for (const Weight& w : g.weights) sharing += w.storage == storage;
      EraseWeights(g, {weight}, sharing == 1 ? storage : -1);
      progress |= Try(std::move(c));
    }
    return progress;
  }
  static void EraseWeights(Graph& g, const std::set<int>& gone, int storage) {
    for (auto it = gone.rbegin(); it != gone.rend(); ++it) {
      g.weights.erase(g.weights.begin() + *it);
      for (InputInfo& info : g.input_infos) info.weight -= info.weight > *it;
    }
    if (storage < 0) return;
    g.weight_storages.erase(g.weight_storages.begin() + storage);
    for (Weight& w : g.weights) w.storage -= w.storage > storage;
  }

  bool Arguments() {
    bool progress = false;
    for (int i = static_cast<int>(best_.call.args.size()) - 1; i >= 0; --i) {
      const int input = UserInputs(*best_.graph)[i];
      if (best_.graph->value(best_.graph->inputs()[input]).uses.empty()) {
        Sample c = best_.Clone();
        c.graph->EraseParam(c.graph->top(), input);
        EraseArg(c.call, i);
        if (Try(std::move(c))) {
          progress = true;
          continue;
        }
      }
      if (best_.call.args[i].storage < 0) continue;
      // Gives it memory of its own, then a simple layout.
      if (best_.call.args[i].same_as >= 0 || IsShared(best_.call, i)) {
        Sample c = best_.Clone();
        Unshare(c.call, i);
        progress |= Try(std::move(c));
      }
      if (best_.call.args[i].same_as >= 0) continue;
      if (!best_.call.args[i].geometry.IsContiguous()) {
        Sample c = best_.Clone();
        const Tensor t = Make(c.call).args[i].tensor();
        Unshare(c.call, i);
        CallArg& a = c.call.args[i];
        a.geometry = Geometry::Contiguous(a.geometry.sizes);
        c.call.storages[a.storage].bytes = DenseBytes(t);
        Retype(c, i);
        progress |= Try(std::move(c));
      }
      if (best_.call.args[i].geometry.offset != 0) {
        Sample c = best_.Clone();
        c.call.args[i].geometry.offset = 0;
        progress |= Try(std::move(c));
      }
    }
    return progress;
  }
  static void EraseArg(Call& call, int i) {
    // The next argument that is the same tensor takes its place.
    int heir = -1;
    for (size_t k = i + 1; k < call.args.size(); ++k) {
      if (call.args[k].same_as != i) continue;
      if (heir < 0) {
        heir = static_cast<int>(k);
        call.args[k].same_as = -1;
      } else {
        call.args[k].same_as = heir;
      }
    }
    call.args.erase(call.args.begin() + i);
    for (CallArg& a : call.args) a.same_as -= a.same_as > i;
    DropStorages(call);
  }
  static void DropStorages(Call& call) {
    for (int s = static_cast<int>(call.storages.size()) - 1; s >= 0; --s) {
      bool used = false;
      for (const CallArg& a : call.args) used = used || a.storage == s;
      if (used) continue;
      call.storages.erase(call.storages.begin() + s);
      for (CallArg& a : call.args) a.storage -= a.storage > s;
    }
  }
  static bool IsShared(const Call& call, int i) {
    for (size_t k = 0; k < call.args.size(); ++k) {
      if (static_cast<int>(k) != i && call.args[k].storage == call.args[i].storage) return true;
    }
    return false;
  }
  static void Unshare(Call& call, int i) {
    CallArg& a = call.args[i];
    CallStorage copy = call.storages[a.storage];
    for (size_t k = i + 1; k < call.args.size(); ++k) {
      if (call.args[k].same_as == i) call.args[k].same_as = -1;
    }
    a.same_as = -1;
    a.storage = static_cast<int>(call.storages.size());
    call.storages.push_back(std::move(copy));
    DropStorages(call);
  }
  // Gives the input the type of its argument.
  static void Retype(Sample& s, int i) {
    const CallArg& a = s.call.args[i];
    const ValueId v = s.graph->inputs()[UserInputs(*s.graph)[i]];
    s.graph->SetType(v, Type::Tensor(a.dtype, std::vector<Expr>(a.geometry.sizes.begin(), a.geometry.sizes.end()),
                                     std::vector<Expr>(a.geometry.strides.begin(), a.geometry.strides.end())));
  }

  // --- numbers ---
  bool Constants() {
    bool progress = false;
    const size_t count = best_.graph->AllNodes().size();
    for (size_t k = 0; k < count; ++k) {
      for (int64_t simple : {0, 1}) {
        const std::vector<NodeId> nodes = best_.graph->AllNodes();
        if (k >= nodes.size()) return progress;
        const Node& node = best_.graph->node(nodes[k]);
        if (node.op != "prim::Constant") continue;
        const Attribute* value = node.FindAttribute("value");
        if (value == nullptr || !std::holds_alternative<int64_t>(*value)) continue;
        const int64_t now = std::get<int64_t>(*value);
        if (now == simple || (simple == 1 && now == 0)) continue;
        Sample c = best_.Clone();
        c.graph->SetAttribute(nodes[k], "value", simple);
        c.graph->SetExpr(c.graph->node(nodes[k]).outputs[0], Expr(simple));
        progress |= Try(std::move(c));
      }
    }
    return progress;
  }

  bool Sizes() {
    bool progress = false;
    // Shrinks one size after the other wherever it stands, then one dim of one argument.
    std::set<int64_t> sizes;
    for (const CallArg& a : best_.call.args) sizes.insert(a.geometry.sizes.begin(), a.geometry.sizes.end());
    for (auto it = sizes.rbegin(); it != sizes.rend(); ++it) {
      if (*it < 2) continue;
      for (int64_t to : {int64_t{1}, *it / 2, *it - 1}) {
        if (to < 1 || to == *it) continue;
        Sample c = best_.Clone();
        for (size_t i = 0; i < c.call.args.size(); ++i) {
          if (c.call.args[i].storage < 0) continue;
          for (int64_t& s : c.call.args[i].geometry.sizes) s = s == *it ? to : s;
          Retype(c, static_cast<int>(i));
        }
        if (Try(std::move(c))) {
          progress = true;
          break;
        }
      }
    }
    for (size_t i = 0; i < best_.call.args.size(); ++i) {
      for (size_t d = 0; d < best_.call.args[i].geometry.sizes.size(); ++d) {
        if (best_.call.args[i].storage < 0 || best_.call.args[i].geometry.sizes[d] < 2) continue;
        Sample c = best_.Clone();
        --c.call.args[i].geometry.sizes[d];
        Retype(c, static_cast<int>(i));
        progress |= Try(std::move(c));
      }
    }
    return progress;
  }

  bool Values() {
    bool progress = false;
    for (size_t s = 0; s < best_.call.storages.size(); ++s) {
      int64_t need = 0;
      for (const CallArg& a : best_.call.args) {
        if (a.storage == static_cast<int>(s)) need = std::max(need, a.geometry.Span().second * ItemSize(a.dtype));
      }
      const int item = ItemSize(best_.call.storages[s].dtype);
      need = (need + item - 1) / item * item;
      if (need < static_cast<int64_t>(best_.call.storages[s].bytes.size())) {
        Sample c = best_.Clone();
        c.call.storages[s].bytes.resize(need);
        progress |= Try(std::move(c));
      }
      if (best_.call.storages[s].dtype != DType::kFloat32) continue;
      std::string simple;
      for (size_t k = 0; k < best_.call.storages[s].bytes.size() / 4; ++k) {
        const float x = static_cast<float>(k + 1);
        simple.append(reinterpret_cast<const char*>(&x), 4);
      }
      if (simple == best_.call.storages[s].bytes) continue;
      Sample c = best_.Clone();
      c.call.storages[s].bytes = simple;
      progress |= Try(std::move(c));
    }
    return progress;
  }

  Sample best_;
  const std::function<bool(const Sample&)>& fails_;
  int left_;
  bool typed_ = true;
};

}  // namespace

Sample Reduce(const Sample& sample, const std::function<bool(const Sample&)>& fails, int max_tries) {
  return Reducer(sample, fails, max_tries).Run();
}

Isolated RunIsolated(const Sample& sample, const RunOptions& options, const std::function<void()>& waiting) {
  Isolated out;
  int ends[2];
  std::fflush(stdout);
  if (pipe(ends) != 0) return {true, {}};
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    // The output of a crash is not of interest.
    (void)!freopen("/dev/null", "w", stderr);
    const Verdict v = RunSample(sample, options);
    const std::string text = absl::StrCat(static_cast<int>(v.outcome), "\n", v.where, "\n", v.what);
    (void)!write(ends[1], text.data(), text.size());
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n = 1; n > 0;) {
    pollfd answer = {.fd = ends[0], .events = POLLIN, .revents = 0};
    do {
      if (waiting) waiting();
    } while (waiting && poll(&answer, 1, /*timeout=*/200) == 0);
    n = read(ends[0], buffer, sizeof buffer);
    if (n > 0) text.append(buffer, static_cast<size_t>(n));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits('\n', 2));
  out.crashed = !WIFEXITED(status) || WEXITSTATUS(status) != 0 || parts.size() != 3;
  if (out.crashed) return out;
  out.verdict.outcome = static_cast<Outcome>(parts[0][0] - '0');
  out.verdict.where = parts[1];
  out.verdict.what = parts[2];
  return out;
}

absl::Status AdvanceState(Sample& sample) {
  EvalOptions options;
  options.weights = CopyWeights(*sample.graph);
  const std::vector<Tensor> weights = options.weights;
  SMELT_RETURN_IF_ERROR(EvaluateGraph(*sample.graph, ArgumentsOf(sample.call), options).status());
  for (size_t w = 0; w < weights.size(); ++w)
    sample.graph->weight_storages[sample.graph->weights[w].storage] = weights[w].storage();
  return absl::OkStatus();
}

Sample ReduceWrongAnswer(const Sample& sample, const RunOptions& options) {
  return Reduce(sample, [&](const Sample& s) {
    const Isolated now = RunIsolated(s, options);
    return now.crashed || now.verdict.outcome == Outcome::kDifferent;
  });
}

}  // namespace smelt
