#include "smelt/script/resolve_lists.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "smelt/core/op/ops.h"

namespace smelt {
namespace {

using Contents = std::vector<ValueId>;

// Returns whether the use is the list that the node changes.
bool IsWriter(const Graph& g, NodeId n, uint32_t index) {
  if (index != 0 || g.IsReturn(n) || !ChangesFirstList(g.node(n).op)) return false;
  return g.value(g.node(n).inputs[0]).type.kind() == TypeKind::kList;
}

class ListResolver {
 public:
  ListResolver(Graph& g, NodeId construct) : g_(g), construct_(construct), block_(g.node(construct).parent) {}

  void Run() {
    if (FindSteps() && Simulate()) Apply();
  }

 private:
  struct Step {
    NodeId at;  // in the list's block: the user, or the node around it
    NodeId user;
    uint32_t index = 0;
    bool writes = false;
    Contents seen;                  // before the step
    std::optional<ValueId> result;  // what the user's output is
  };

  // All uses of the list, under all its names, in order. False if one is not understood, or if nothing changes it.
  bool FindSteps() {
    std::vector<ValueId> names = {g_.node(construct_).outputs[0]};
    bool changed = false;
    for (size_t k = 0; k < names.size(); ++k) {
      for (const Use& use : g_.value(names[k]).uses) {
        Step s{Ancestor(use.user), use.user, use.index};
        s.writes = IsWriter(g_, use.user, use.index);
        const bool nested = s.at != s.user;
        if (g_.IsReturn(use.user)) {
          if (block_ != g_.top() || nested) return false;
        } else if (s.writes) {
          if (nested) return false;
          changed = true;
          for (ValueId o : g_.node(use.user).outputs) {
            if (g_.node(use.user).op.name() != op::kPop) names.push_back(o);
          }
        } else if (!OnlyReads(use)) {
          return false;
        }
        steps_.push_back(std::move(s));
      }
    }
    std::sort(steps_.begin(), steps_.end(), [&](const Step& a, const Step& b) {
      return a.at != b.at ? g_.IsBefore(a.at, b.at)
                          : std::make_pair(a.user.index, a.index) < std::make_pair(b.user.index, b.index);
    });
    return changed;
  }

  NodeId Ancestor(NodeId n) const {
    while (g_.node(n).parent != block_) n = g_.block(g_.node(n).parent).owner;
    return n;
  }

  // Returns whether the use neither changes the list nor keeps it where other code could.
  bool OnlyReads(const Use& use) const {
    const Node& node = g_.node(use.user);
    const std::string& name = node.op.name();
    if (name == op::kPrimTupleConstruct || name == op::kPrimListConstruct) {
      const auto& uses = g_.value(node.outputs[0]).uses;
      return node.parent == g_.top() &&
             std::all_of(uses.begin(), uses.end(), [&](const Use& u) { return g_.IsReturn(u.user); });
    }
    if (absl::StartsWith(name, op::kPrimNamespace))
      return name == op::kPrimListUnpack || name == op::kPrimPrint || name == op::kPrimRaiseException;
    // An element of another list.
    return use.index == 0 || (name != op::kAppend && name != op::kInsert && name != op::kPrivateSetItem);
  }

  // Computes the contents of the list before each step. Returns false if an index is not known.
  bool Simulate() {
    Contents now(g_.node(construct_).inputs.begin(), g_.node(construct_).inputs.end());
    absl::flat_hash_map<ValueId, ValueId> element_of;  // results that are elements
    auto element = [&](ValueId v) {
      auto it = element_of.find(v);
      return it == element_of.end() ? v : it->second;
    };
    for (Step& s : steps_) {
      s.seen = now;
      if (g_.IsReturn(s.user) || s.at != s.user) continue;
      const Node& node = g_.node(s.user);
      const std::string& name = node.op.name();
      const int64_t size = static_cast<int64_t>(now.size());
      auto place = [&](size_t input) -> std::optional<int64_t> {
        if (input >= node.inputs.size()) return std::nullopt;
        std::optional<Expr> e = GetIntExpr(g_, node.inputs[input]);
        if (!e || !e->IsConstant()) return std::nullopt;
        return *e->Constant() < 0 ? *e->Constant() + size : *e->Constant();
      };
      auto valid = [&](const std::optional<int64_t>& i) { return i && *i >= 0 && *i < size; };
      if (!s.writes) {
        if (name == op::kDunderGetitem && s.index == 0) {
          const auto i = place(1);
          if (!valid(i)) continue;  // an error, or not known here: it reads what the list is then
          s.result = element_of[node.outputs[0]] = now[*i];
        }
      } else if (name == op::kAppend) {
        now.push_back(element(node.inputs[1]));
      } else if (name == op::kInsert) {
        const auto i = place(1);
        if (!i) return false;
        now.insert(now.begin() + std::clamp<int64_t>(*i, 0, size), element(node.inputs[2]));
      } else if (name == op::kPop || name == op::kDelete) {
        const auto i = node.inputs.size() > 1 ? place(1) : std::optional<int64_t>(size - 1);
        if (!valid(i)) return false;
        if (name == op::kPop) s.result = element_of[node.outputs[0]] = now[*i];
        now.erase(now.begin() + *i);
      } else if (name == op::kPrivateSetItem) {
        const auto i = place(1);
        if (!valid(i)) return false;
        now[*i] = element(node.inputs[2]);
      } else if (name == op::kExtend || name == op::kAddInPlace) {
        const std::optional<Contents> other = GetListElements(g_, node.inputs[1]);
        if (!other) return false;
        for (ValueId v : *other) now.push_back(element(v));
      } else if (name == op::kClear) {
        now.clear();
      } else if (name == op::kReverse) {
        std::reverse(now.begin(), now.end());
      } else {
        return false;
      }
    }
    return true;
  }

  void Apply() {
    const Type type = g_.value(g_.node(construct_).outputs[0]).type;
    std::vector<NodeId> gone;
    for (Step& s : steps_) {
      if (s.writes || s.result) {
        if (s.result) g_.ReplaceAllUses(g_.node(s.user).outputs[0], *s.result);
        gone.push_back(s.user);
        continue;
      }
      const NodeId list = g_.InsertBefore(s.at, OpName::Get(op::kPrimListConstruct), s.seen, {type});
      g_.SetSource(list, g_.node(construct_).source);
      const ValueId v = g_.node(list).outputs[0];
      g_.SetInput(s.user, s.index, v);
    }
    for (size_t k = gone.size(); k-- > 0;) {
      if (g_.IsLive(gone[k])) g_.Erase(gone[k]);
    }
    g_.Erase(construct_);
  }

  Graph& g_;
  const NodeId construct_;
  const BlockId block_;
  std::vector<Step> steps_;
};

constexpr int64_t kMostElements = 64;  // that are repeated, and repetitions

// Returns the list that a node makes of known ones: l[begin:end], a + b, l * n, list(l), copy(l).
std::optional<Contents> NewList(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  const std::string& name = node.op.name();
  if (node.outputs.size() != 1 || node.inputs.empty() || g.value(node.outputs[0]).type.kind() != TypeKind::kList ||
      g.value(node.inputs[0]).type.kind() != TypeKind::kList) {
    return std::nullopt;
  }
  std::optional<Contents> list = GetListElements(g, node.inputs[0]);
  if (!list) return std::nullopt;
  if (name == op::kList || name == op::kCopy) return list;
  if (name == op::kAdd) {
    const std::optional<Contents> other = GetListElements(g, node.inputs[1]);
    if (!other) return std::nullopt;
    list->insert(list->end(), other->begin(), other->end());
    return list;
  }
  if (name == op::kMul && node.inputs.size() == 2) {
    const std::optional<Expr> times = GetIntExpr(g, node.inputs[1]);
    if (!times || !times->IsConstant() || *times->Constant() > kMostElements ||
        static_cast<int64_t>(list->size()) > kMostElements)
      return std::nullopt;
    Contents out;
    for (int64_t i = 0; i < *times->Constant(); ++i) out.insert(out.end(), list->begin(), list->end());
    return out;
  }
  if (name != op::kSlice || node.inputs.size() != 4) return std::nullopt;
  const int64_t size = static_cast<int64_t>(list->size());
  auto bound = [&](size_t input, int64_t otherwise) -> std::optional<int64_t> {
    const std::optional<ConstantValue> c = GetConstant(g, node.inputs[input]);
    if (c && std::holds_alternative<std::monostate>(*c)) return otherwise;
    const std::optional<Expr> e = GetIntExpr(g, node.inputs[input]);
    if (!e || !e->IsConstant()) return std::nullopt;
    const int64_t v = *e->Constant();
    return std::clamp<int64_t>(v < 0 ? v + size : v, 0, size);
  };
  const std::optional<int64_t> begin = bound(1, 0), end = bound(2, size);
  const std::optional<ConstantValue> step = GetConstant(g, node.inputs[3]);
  if (!begin || !end || !step || !std::holds_alternative<int64_t>(*step) || std::get<int64_t>(*step) < 1)
    return std::nullopt;
  Contents out;
  for (int64_t i = *begin; i < *end; i += std::get<int64_t>(*step)) out.push_back((*list)[i]);
  return out;
}

}  // namespace

void ResolveLists(Graph& g) {
  for (NodeId n : g.AllNodes()) {
    if (!g.IsLive(n)) continue;
    NodeId list = n;
    if (std::optional<Contents> contents = NewList(g, n)) {
      // The schema gives the result the type t[].
      list = g.InsertBefore(n, OpName::Get(op::kPrimListConstruct), *contents, {g.value(g.node(n).inputs[0]).type});
      g.SetSource(list, g.node(n).source);
      g.ReplaceAllUses(g.node(n).outputs[0], g.node(list).outputs[0]);
      g.Erase(n);
    }
    if (g.node(list).op == op::kPrimListConstruct) ListResolver(g, list).Run();
  }
}

Pass ResolveListsPass() {
  return {.name = "resolve-lists",
          .description = "lists that straight code changes become the lists that their readers see",
          .prerequisites = {"resolve-dicts"},
          .run = [](Graph& g, PassContext&) -> absl::StatusOr<bool> {
            const EditCounter edits(g);
            ResolveLists(g);
            return edits.count() > 0;
          }};
}

}  // namespace smelt
