#include "smelt/script/resolve_dicts.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/python_op.h"

namespace smelt {
namespace {

// A known key of a dictionary: a string or an integer.
using Key = std::variant<std::string, int64_t>;

std::optional<Key> KeyOf(const Graph& g, ValueId v) {
  const std::optional<ConstantValue> c = GetConstant(g, v);
  if (c && std::holds_alternative<std::string>(*c)) return std::get<std::string>(*c);
  if (c && std::holds_alternative<int64_t>(*c)) return std::get<int64_t>(*c);
  return std::nullopt;
}

// Resolves one dictionary: each reader is replaced by its result, if only straight code changes the dictionary and all
// keys are known.
class DictResolver {
 public:
  DictResolver(Graph& g, NodeId construct) : g_(g), construct_(construct), block_(g.node(construct).parent) {}

  // The dictionaries that took the places of copies.
  const std::vector<NodeId>& copies() const { return copies_; }

  void Run() {
    const Node& node = g_.node(construct_);
    if (node.inputs.size() % 2 != 0) return;
    for (size_t k = 0; k < node.inputs.size(); k += 2) {
      const std::optional<Key> key = KeyOf(g_, node.inputs[k]);
      if (!key) return;
      Set(*key, node.inputs[k + 1]);
    }
    std::vector<std::pair<NodeId, NodeId>>
        users;  // in the dictionary's block: the user or the node around it; the user
    for (const Use& use : g_.value(node.outputs[0]).uses) {
      if (use.index != 0 || g_.IsReturn(use.user)) return;
      users.push_back({Ancestor(use.user), use.user});
    }
    // Nothing is written inside one node, so the order of its readers does not matter.
    std::stable_sort(users.begin(), users.end(),
                     [&](const auto& a, const auto& b) { return a.first != b.first && g_.IsBefore(a.first, b.first); });
    bool all = true;
    for (const auto& [at, user] : users) {
      if (Understand(at, user)) continue;
      const std::optional<PythonOp> python = FindPythonOp(g_.node(user).op.name());
      if (python != PythonOp::kGetItem && python != PythonOp::kContains && python != PythonOp::kGet) return;
      answers_.emplace_back();  // by a key that a loop takes out of keys(), perhaps: later
      all = false;
    }
    Apply(users, all);
  }

 private:
  struct Answer {                                                 // what the user's output is; of a writer nothing
    std::optional<std::vector<std::pair<Key, ValueId>>> entries;  // of keys(), values(), items() and copy()
    std::optional<ValueId> value;
    std::optional<int64_t> number;
    std::optional<bool> truth;
    bool none = false;     // the output is None
    bool is_copy = false;  // `entries` are those of a new dictionary
    bool writes = false;
  };

  NodeId Ancestor(NodeId n) const {
    while (g_.node(n).parent != block_) n = g_.block(g_.node(n).parent).owner;
    return n;
  }

  void Set(const Key& key, ValueId v) {
    for (auto& [k, old] : now_) {
      if (k == key) {
        old = v;
        return;
      }
    }
    now_.push_back({key, v});
  }

  // Notes what becomes of `user`, and what the dictionary holds behind it. Returns false if that is not known.
  bool Understand(NodeId at, NodeId user) {
    const Node& node = g_.node(user);
    const std::optional<PythonOp> python = FindPythonOp(node.op.name());
    if (!python) return false;
    Answer answer;
    switch (*python) {
      case PythonOp::kLen:
        answer.number = static_cast<int64_t>(now_.size());
        break;
      case PythonOp::kKeys:
      case PythonOp::kValues:
      case PythonOp::kItems:
        answer.entries = now_;
        break;
      case PythonOp::kCopy:
        answer.entries = now_;
        answer.is_copy = true;
        break;
      case PythonOp::kClear:
        now_.clear();
        answer.writes = true;
        break;
      default:
        if (!UnderstandKey(*python, node, answer)) return false;
    }
    if (answer.writes && at != user) return false;
    answers_.push_back(std::move(answer));
    if (answers_.back().value) element_of_[node.outputs[0]] = *answers_.back().value;
    return true;
  }

  // The same of an operator on one key.
  bool UnderstandKey(PythonOp python, const Node& node, Answer& answer) {
    if (node.inputs.size() < 2) return false;
    const std::optional<Key> key = KeyOf(g_, node.inputs[1]);
    if (!key) return false;
    const auto it = std::find_if(now_.begin(), now_.end(), [&](const auto& e) { return e.first == *key; });
    const bool there = it != now_.end();
    const bool has_default = node.inputs.size() > 2;
    switch (python) {
      case PythonOp::kSetItem:
        answer.writes = true;
        Set(*key, Element(node.inputs[2]));
        return true;
      case PythonOp::kDelete:
        if (!there) return false;
        answer.writes = true;
        now_.erase(it);
        return true;
      case PythonOp::kContains:
        answer.truth = there;
        return true;
      case PythonOp::kGetItem:
        if (!there) return false;  // an error, when it runs
        answer.value = it->second;
        return true;
      case PythonOp::kGet:
        if (there) answer.value = it->second;
        if (!there && has_default) answer.value = Element(node.inputs[2]);
        answer.none = !answer.value;
        return true;
      case PythonOp::kPop:
        if (!there && !has_default) return false;
        answer.writes = true;
        answer.value = there ? it->second : Element(node.inputs[2]);
        if (there) now_.erase(it);
        return true;
      case PythonOp::kSetDefault:
        if (!has_default) return false;
        answer.writes = true;
        answer.value = there ? it->second : Element(node.inputs[2]);
        if (!there) Set(*key, *answer.value);
        return true;
      default:
        return false;
    }
  }

  // Values that are read from the dictionary and written to it again.
  ValueId Element(ValueId v) const {
    const auto it = element_of_.find(v);
    return it == element_of_.end() ? v : it->second;
  }

  // If not `all` users were understood, those that were are replaced; the dictionary and its writers stay.
  void Apply(const std::vector<std::pair<NodeId, NodeId>>& users, bool all) {
    for (size_t k = 0; k < users.size(); ++k) {
      const NodeId n = users[k].second;
      const Answer& a = answers_[k];
      if (a.value) g_.ReplaceAllUses(g_.node(n).outputs[0], *a.value);
      if (a.number) g_.ReplaceAllUses(g_.node(n).outputs[0], InsertConstant(g_, n, *a.number));
      if (a.entries) g_.ReplaceAllUses(g_.node(n).outputs[0], a.is_copy ? Copy(n, *a.entries) : ListOf(n, *a.entries));
      if (a.none) g_.ReplaceAllUses(g_.node(n).outputs[0], InsertConstant(g_, n, std::monostate()));
      if (a.truth) g_.ReplaceAllUses(g_.node(n).outputs[0], InsertConstant(g_, n, *a.truth));
    }
    for (size_t k = users.size(); k-- > 0;) {
      const Answer& a = answers_[k];
      const bool answered = a.value || a.none || a.number || a.entries || a.truth;
      if (all || (answered && !a.writes)) g_.Erase(users[k].second);
    }
    if (all) g_.Erase(construct_);
  }

  // The dictionary that copy() makes.
  ValueId Copy(NodeId n, const std::vector<std::pair<Key, ValueId>>& entries) {
    std::vector<ValueId> parts;
    for (const auto& [key, value] : entries) {
      parts.push_back(KeyValue(n, key));
      parts.push_back(value);
    }
    const NodeId copy =
        g_.InsertBefore(n, OpName::Get(op::kPrimDictConstruct), parts, {g_.value(g_.node(construct_).outputs[0]).type});
    g_.SetSource(copy, g_.node(n).source);
    copies_.push_back(copy);
    return g_.node(copy).outputs[0];
  }

  ValueId KeyValue(NodeId n, const Key& key) {
    const auto* word = std::get_if<std::string>(&key);
    return word != nullptr ? InsertConstant(g_, n, *word) : InsertConstant(g_, n, std::get<int64_t>(key));
  }

  // The list that keys(), values() or items() makes.
  ValueId ListOf(NodeId n, const std::vector<std::pair<Key, ValueId>>& entries) {
    const std::string& name = g_.node(n).op.name();
    std::vector<ValueId> elements;
    for (const auto& [key, value] : entries) {
      if (name == op::kValues) {
        elements.push_back(value);
        continue;
      }
      elements.push_back(KeyValue(n, key));
      if (name == op::kKeys) continue;
      const Type pair = Type::Tuple({g_.value(elements.back()).type, g_.value(value).type});
      elements.back() =
          g_.node(g_.InsertBefore(n, OpName::Get(op::kPrimTupleConstruct), {elements.back(), value}, {pair}))
              .outputs[0];
    }
    // By its elements: the schema gives the result the type t[].
    Type of = g_.value(g_.node(n).outputs[0]).type;
    if (!elements.empty()) {
      const Type& first = g_.value(elements[0]).type;
      of = Type::List(first.IsTensor() ? Type::Tensor() : first);
    }
    const NodeId list = g_.InsertBefore(n, OpName::Get(op::kPrimListConstruct), elements, {of});
    g_.SetSource(list, g_.node(n).source);
    return g_.node(list).outputs[0];
  }

  Graph& g_;
  const NodeId construct_;
  const BlockId block_;
  std::vector<std::pair<Key, ValueId>> now_;
  std::vector<Answer> answers_;
  absl::flat_hash_map<ValueId, ValueId> element_of_;
  std::vector<NodeId> copies_;
};

}  // namespace

void ResolveDicts(Graph& g) {
  for (NodeId n : g.AllNodes()) {
    if (!g.IsLive(n) || g.node(n).op != op::kPrimDictConstruct) continue;
    for (std::vector<NodeId> todo = {n}; !todo.empty();) {
      DictResolver resolver(g, todo.back());
      todo.pop_back();
      resolver.Run();
      todo.insert(todo.end(), resolver.copies().begin(), resolver.copies().end());
    }
  }
}

Pass ResolveDictsPass() {
  return {.name = "resolve-dicts",
          .description = "dictionaries of constant keys are replaced by their entries",
          .prerequisites = {"resolve-tuples"},
          .run = [](Graph& g, PassContext&) -> absl::StatusOr<bool> {
            const EditCounter edits(g);
            ResolveDicts(g);
            return edits.count() > 0;
          }};
}

}  // namespace smelt
