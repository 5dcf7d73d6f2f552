#include "smelt/alias/run_program.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/match.h"
#include "smelt/alias/run_views.h"
#include "smelt/core/op/effects.h"
#include "smelt/core/op/ops.h"

namespace smelt {

namespace {

struct ListObject;
struct Any {
  std::shared_ptr<Handle> tensor;
  std::shared_ptr<ListObject> list;
  int64_t number = 0;
};
struct ListObject {
  std::vector<Any> elements;
};

class Runner {
 public:
  Runner(const Graph& g, uint64_t seed, const RunOptions& options, Observed* seen)
      : g_(g), rng_(seed), options_(options), seen_(seen), env_(g.value_index_bound()) {}

  void Run() {
    seen_->result.clear();
    seen_->complete = false;
    NewStorage();  // the one that inputs share
    for (ValueId v : g_.inputs()) {
      const Type& t = g_.value(v).type;
      Any a;
      if (t.IsTensor()) {
        a.tensor = MakeInput(t.tensor().sizes.has_value());
      } else if (t.kind() == TypeKind::kList) {
        a.list = std::make_shared<ListObject>();
        for (uint64_t i = rng_() % 4; i > 0; --i) {
          Any e;
          e.tensor = MakeInput(false);
          a.list->elements.push_back(e);
        }
      } else if (t.kind() == TypeKind::kInt) {
        a.number = static_cast<int64_t>(rng_() % 4);
      } else {
        a.number = static_cast<int64_t>(rng_() % 2);
      }
      Define(v, a);
    }
    RunBlock(g_.top());
    if (!failed_) {
      for (ValueId v : g_.outputs()) Show(Of(v));
      seen_->complete = true;
    }
    for (const auto& s : storages_) seen_->result.insert(seen_->result.end(), s->data.begin(), s->data.end());
  }

 private:
  std::shared_ptr<Bytes> NewStorage() {
    storages_.push_back(std::make_shared<Bytes>());
    storages_.back()->data.resize(16);
    for (int64_t& x : storages_.back()->data) x = static_cast<int64_t>(rng_() % 7) - 3;
    return storages_.back();
  }

  // Makes an input in the storage that inputs share or in one of its own; now and then it is the same tensor as before.
  std::shared_ptr<Handle> MakeInput(bool typed) {
    if (!inputs_.empty() && rng_() % 5 == 0) return inputs_[rng_() % inputs_.size()];
    auto h = std::make_shared<Handle>();
    if (rng_() % 2 == 0) {
      h->storage = storages_[0];
      h->offset = static_cast<int64_t>(rng_() % 5);
    } else {
      h->storage = NewStorage();
    }
    struct Shape {
      std::vector<int64_t> sizes, strides;
    };
    static const Shape kShapes[] = {
        {{2, 3}, {0, 1}},  // expanded
        {{2, 3}, {1, 2}},       {{3, 2}, {2, 1}}, {{1, 3}, {3, 1}}, {{2, 3}, {3, 1}}, {{2, 1, 3}, {3, 3, 1}},
        {{2, 2, 2}, {2, 4, 1}}, {{4}, {1}},       {{3}, {2}},       {{}, {}},
    };
    constexpr uint64_t kTwoDims = 5;
    const Shape& shape = kShapes[typed ? kTwoDims - 1 : rng_() % (options_.any_shape ? std::size(kShapes) : kTwoDims)];
    h->sizes = shape.sizes;
    h->strides = shape.strides;
    inputs_.push_back(h);
    return h;
  }

  Any& Of(ValueId v) { return env_[v.index]; }

  void Show(const Any& a) {
    if (a.tensor) {
      for (int64_t s : a.tensor->sizes) seen_->result.push_back(1000 + s);
      for (int64_t p : a.tensor->Places()) seen_->result.push_back(a.tensor->storage->data[p]);
    }
    if (a.list) {
      seen_->result.push_back(2000 + static_cast<int64_t>(a.list->elements.size()));
      for (const Any& e : a.list->elements) Show(e);
    }
  }

  static bool Overlap(const Handle& a, const Handle& b) {
    if (a.storage != b.storage) return false;
    const auto x = a.Places(), y = b.Places();
    return std::any_of(x.begin(), x.end(), [&](int64_t p) { return std::find(y.begin(), y.end(), p) != y.end(); });
  }
  static bool Aliases(const Any& a, const Any& b) {
    if (a.tensor && b.tensor) return Overlap(*a.tensor, *b.tensor);
    if (a.list && b.list) return a.list == b.list;
    return false;
  }
  static void Reach(const Any& a, std::vector<Any>* out, std::set<const void*>* done) {
    out->push_back(a);
    if (!a.list || !done->insert(a.list.get()).second) return;
    for (const Any& e : a.list->elements) Reach(e, out, done);
  }

  static bool IsSame(const Any& a, const Any& b) {
    if (a.tensor && b.tensor) {
      return a.tensor->storage == b.tensor->storage && a.tensor->sizes == b.tensor->sizes &&
             a.tensor->Places() == b.tensor->Places();
    }
    return a.list && a.list == b.list;
  }

  // Appends the value and everything that it holds, each list once.
  static void Reach(const Any& a, absl::InlinedVector<const Any*, 8>* out) {
    const auto is_same_list = [&](const Any* known) { return known->list == a.list; };
    const bool known = a.list && std::any_of(out->begin(), out->end(), is_same_list);
    out->push_back(&a);
    if (!a.list || known) return;
    for (const Any& e : a.list->elements) Reach(e, out);
  }

  static bool ReachesCommon(const Any& a, const Any& b) {
    if (!a.list && !b.list) return Aliases(a, b);
    absl::InlinedVector<const Any*, 8> x, y;
    Reach(a, &x);
    Reach(b, &y);
    return std::any_of(x.begin(), x.end(), [&](const Any* p) {
      return std::any_of(y.begin(), y.end(), [&](const Any* q) { return Aliases(*p, *q); });
    });
  }

  // A pair whose relation is already fully known is not looked at again.
  void Pair(ValueId u, ValueId v) {
    const uint8_t known = seen_->pairs.Of(u, v);
    if (known == SeenPairs::kAll) return;
    const Any &a = Of(u), &b = Of(v);
    const auto is_tuple = [&](ValueId x) { return g_.value(x).type.kind() == TypeKind::kTuple; };
    uint8_t bits = SeenPairs::kTogether;
    if (!(known & SeenPairs::kAlias) && !is_tuple(u) && !is_tuple(v) && Aliases(a, b)) bits |= SeenPairs::kAlias;
    if (!(known & SeenPairs::kNotSame) && !IsSame(a, b)) bits |= SeenPairs::kNotSame;
    if (!(known & SeenPairs::kContain) && ReachesCommon(a, b)) bits |= SeenPairs::kContain;
    seen_->pairs.Add(bits, u, v);
  }

  void Define(ValueId v, Any a) {
    Of(v) = std::move(a);
    if (!IsAliasingType(g_.value(v).type)) return;
    scope_.push_back(v);
    if (!options_.watch) return;
    for (ValueId u : scope_) Pair(u, v);
  }
  // A list or a geometry changed: all pairs are looked at again.
  void LookAgain() {
    if (!options_.watch) return;
    for (size_t i = 0; i < scope_.size(); ++i) {
      for (size_t k = i; k < scope_.size(); ++k) Pair(scope_[i], scope_[k]);
    }
  }

  void Wrote(NodeId n, const std::vector<Any>& what) {
    for (const Any& a : what) {
      if (written_ == nullptr) break;
      written_->push_back(a);
      if (a.tensor) written_->back().tensor = std::make_shared<Handle>(*a.tensor);
    }
    if (!options_.watch) return;
    auto mark = [&](ValueId v) {
      const Type& t = g_.value(v).type;
      if (t.kind() == TypeKind::kTuple) return;
      for (const Any& w : what) {
        if (!Aliases(Of(v), w)) continue;
        seen_->written.insert(v);
        seen_->writes.insert({n, v});
        for (NodeId owner : owners_) seen_->writes.insert({owner, v});
      }
    };
    for (ValueId v : scope_) mark(v);
  }

  int64_t Sum(const Handle& h) {
    int64_t sum = 0;
    for (int64_t p : h.Places()) sum = (sum * 3 + h.storage->data[p]) % 1000003;
    return sum;
  }
  static std::shared_ptr<Handle> FreshLike(const Handle& h, const std::function<int64_t(int64_t)>& f) {
    auto out = std::make_shared<Handle>();
    out->storage = std::make_shared<Bytes>();
    out->sizes = h.sizes;
    out->strides = DenseStrides(h.sizes);
    for (int64_t p : h.Places()) out->storage->data.push_back(f(h.storage->data[p]));
    return out;
  }

  // Returns everything that a call's arguments reach, where it lies now.
  std::vector<Any> Given(NodeId n) {
    std::vector<Any> all;
    std::set<const void*> done;
    for (ValueId v : g_.node(n).inputs) Reach(Of(v), &all, &done);
    for (Any& a : all) {
      if (a.tensor) a.tensor = std::make_shared<Handle>(*a.tensor);
    }
    return all;
  }
  // Returns the written part of `given`. A call may write what it has made itself unseen.
  static std::vector<Any> Seen(std::vector<Any> written, const std::vector<Any>& given) {
    const auto is_own = [&](const Any& w) {
      return std::none_of(given.begin(), given.end(), [&](const Any& a) { return Aliases(a, w); });
    };
    written.erase(std::remove_if(written.begin(), written.end(), is_own), written.end());
    return written;
  }

  // The effects of a graph's nodes are effects on the caller's memory.
  void RunGraph(NodeId n, const Graph& sub) {
    const Node& node = g_.node(n);
    std::vector<Any> written;
    const std::vector<Any> before = Given(n);
    Runner inner(sub, 0, {}, seen_);
    inner.written_ = &written;
    inner.drawn_ = drawn_;
    inner.steps_ = steps_;
    for (size_t i = 0; i < node.inputs.size(); ++i) inner.Define(sub.inputs()[i], Of(node.inputs[i]));
    inner.RunBlock(sub.top());
    drawn_ = inner.drawn_;
    steps_ = inner.steps_;
    failed_ = inner.failed_;
    if (failed_) return;
    for (size_t i = 0; i < node.outputs.size(); ++i) Define(node.outputs[i], inner.Of(sub.outputs()[i]));
    Wrote(n, Seen(written, before));
    LookAgain();
  }

  // Runs an unknown function: some of the effects that it could have, the same in each run and wherever the node
  // stands.
  void RunFunction(NodeId n) {
    const Node& node = g_.node(n);
    std::mt19937_64 rng(n.index * 1000 + calls_[n.index]++);
    const std::vector<Any> before = Given(n);
    std::vector<Any> reached, tensors, lists, written;
    std::set<const void*> done;
    for (size_t i = 1; i < node.inputs.size(); ++i) Reach(Of(node.inputs[i]), &reached, &done);
    seen_->result.push_back(4000);
    for (const Any& a : reached) {
      if (a.tensor) seen_->result.push_back(Sum(*a.tensor));
      (a.list ? lists : tensors).push_back(a);
    }
    const auto pick = [&](const std::vector<Any>& from) { return from[rng() % from.size()]; };
    for (uint64_t actions = rng() % 5; actions > 0; --actions) {
      switch (rng() % 7) {
        case 0:
          written.push_back({.tensor = std::make_shared<Handle>(*pick(tensors).tensor)});
          for (int64_t p : written.back().tensor->Places()) {
            int64_t& x = written.back().tensor->storage->data[p];
            x = (x * 2 + 1) % 1000003;
          }
          break;
        case 1:
          tensors.push_back({.tensor = FreshLike(*pick(tensors).tensor, [](int64_t v) { return v; })});
          break;
        case 2: {
          auto view = std::make_shared<Handle>(*pick(tensors).tensor);
          std::reverse(view->sizes.begin(), view->sizes.end());
          std::reverse(view->strides.begin(), view->strides.end());
          tensors.push_back({.tensor = view});
          break;
        }
        case 3:
          lists.push_back({.list = std::make_shared<ListObject>()});
          [[fallthrough]];
        case 4:
          if (lists.empty()) break;
          written.push_back(pick(lists));
          written.back().list->elements.push_back(pick(tensors));
          break;
        case 5:
          if (lists.empty() || lists[0].list->elements.empty()) break;
          lists[0].list->elements.erase(lists[0].list->elements.begin());
          written.push_back(lists[0]);
          break;
        default:
          if (rng() % 4 == 0) *pick(tensors).tensor = Handle(*pick(tensors).tensor);
      }
    }
    const Type& type = g_.value(node.outputs[0]).type;
    if (type.kind() == TypeKind::kList && lists.empty()) {
      lists.push_back({.list = std::make_shared<ListObject>()});
      lists[0].list->elements = {pick(tensors), pick(tensors)};
    }
    Define(node.outputs[0], type.kind() == TypeKind::kList ? pick(lists) : type.IsTensor() ? pick(tensors) : Any());
    Wrote(n, Seen(written, before));
    LookAgain();
  }

  void RunBlock(BlockId b) {
    for (NodeId n = g_.block(b).first; n.valid() && !failed_; n = g_.node(n).next) RunNode(n);
  }

  void RunNode(NodeId n) {
    if (++steps_ > 3000) return Fail();
    const Node& node = g_.node(n);
    const std::string& op = node.op.name();
    if (op == op::kPrimConstant) return RunConstant(node);
    if (op == op::kPrimCallFunction) return RunFunction(n);
    if (op == op::kSmeltCall) return RunGraph(n, *std::get<std::shared_ptr<Graph>>(*node.FindAttribute("Subgraph")));
    if (op == op::kPrimIf || op == op::kSmeltCond) return RunIf(n);
    if (op == op::kSmeltWhileLoop) return RunWhile(n);
    if (op == op::kPrimLoop) return RunLoop(n);
    if (op == op::kPrimPrint) {
      seen_->result.push_back(3000);
      return Show(In(node, 0));
    }
    const bool known = RunNumber(node, op) || RunContainer(n, node, op) || RunFresh(node, op) ||
                       RunWrite(n, node, op) || RunView(node, op) || RunGeometryChange(node, op);
    if (!known) Fail();
  }

  void Fail() { failed_ = true; }
  const Any& In(const Node& node, size_t i) { return Of(node.inputs[i]); }
  void Out(const Node& node, Any a) { Define(node.outputs[0], std::move(a)); }
  void OutTensor(const Node& node, std::shared_ptr<Handle> h) { Out(node, {.tensor = std::move(h)}); }
  void OutNumber(const Node& node, int64_t number) { Out(node, {.number = number}); }

  void RunConstant(const Node& node) {
    Any a;
    if (auto c = GetConstant(g_, node.outputs[0])) {
      if (const int64_t* i = std::get_if<int64_t>(&*c)) a.number = *i;
      if (const bool* b = std::get_if<bool>(&*c)) a.number = *b;
    }
    Out(node, std::move(a));
  }

  // A condition reads the tensor that it is.
  bool Truth(const Any& a) { return a.tensor ? Sum(*a.tensor) % 3 != 0 : a.number != 0; }

  void RunIf(NodeId n) {
    const Node& node = g_.node(n);
    const BlockId b = node.blocks[Truth(In(node, 0)) ? 0 : 1];
    const size_t mark = scope_.size();
    owners_.push_back(n);
    for (size_t i = 0; i < g_.params(b).size(); ++i) Define(g_.params(b)[i], In(node, i + 1));
    RunBlock(b);
    owners_.pop_back();
    if (failed_) return;
    std::vector<Any> results;
    for (ValueId v : g_.results(b)) results.push_back(Of(v));
    scope_.resize(mark);
    for (size_t i = 0; i < results.size(); ++i) Define(node.outputs[i], results[i]);
  }

  void RunLoop(NodeId n) {
    const Node& node = g_.node(n);
    const int64_t trips = In(node, 0).number;
    bool condition = Truth(In(node, 1));
    std::vector<Any> carried;
    for (size_t i = 2; i < node.inputs.size(); ++i) carried.push_back(In(node, i));
    const BlockId b = node.blocks[0];
    const size_t mark = scope_.size();
    owners_.push_back(n);
    for (int64_t i = 0; i < trips && condition && !failed_; ++i) {
      Define(g_.params(b)[0], {.number = i});
      for (size_t k = 0; k < carried.size(); ++k) Define(g_.params(b)[k + 1], carried[k]);
      RunBlock(b);
      if (failed_) break;
      condition = Truth(Of(g_.results(b)[0]));
      std::vector<Any> next;
      for (size_t k = 0; k < carried.size(); ++k) next.push_back(Of(g_.results(b)[k + 1]));
      carried = std::move(next);
      scope_.resize(mark);
    }
    owners_.pop_back();
    if (failed_) return;
    for (size_t k = 0; k < carried.size(); ++k) Define(node.outputs[k], carried[k]);
  }

  // Copies what it carries if it makes no trip.
  void RunWhile(NodeId n) {
    const Node& node = g_.node(n);
    const BlockId condition = node.blocks[0], body = node.blocks[1];
    std::vector<Any> all;
    for (ValueId v : node.inputs) all.push_back(Of(v));
    const size_t mark = scope_.size();
    bool ran = false;
    owners_.push_back(n);
    for (int trip = 0;; ++trip) {
      for (size_t k = 0; k < all.size(); ++k) Define(g_.params(condition)[k], all[k]);
      RunBlock(condition);
      constexpr int kMostTrips = 4;
      const bool more = !failed_ && trip < kMostTrips && Truth(Of(g_.results(condition)[0]));
      scope_.resize(mark);
      if (!more) break;
      ran = true;
      for (size_t k = 0; k < all.size(); ++k) Define(g_.params(body)[k], all[k]);
      RunBlock(body);
      if (failed_) break;
      for (size_t k = 0; k < node.outputs.size(); ++k) all[k] = Of(g_.results(body)[k]);
      scope_.resize(mark);
    }
    owners_.pop_back();
    if (failed_) return;
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      if (!ran && all[k].tensor) all[k].tensor = FreshLike(*all[k].tensor, [](int64_t v) { return v; });
      Define(node.outputs[k], all[k]);
    }
  }

  // Each of the following returns whether the operator is one of its kind. A call that PyTorch refuses fails.

  bool RunNumber(const Node& node, const std::string& op) {
    if (node.outputs.size() != 1) return false;
    const TypeKind kind = g_.value(node.outputs[0]).type.kind();
    if (kind != TypeKind::kInt && kind != TypeKind::kBool) return false;
    const Any& a = In(node, 0);
    const int64_t x = a.number, y = node.inputs.size() > 1 ? In(node, 1).number : 0;
    if (op == op::kSize) {
      const int64_t rank = a.tensor->rank(), d = y < 0 ? y + rank : y;
      d < 0 || d >= rank ? Fail() : OutNumber(node, a.tensor->sizes[d]);
    } else if (op == op::kDim) {
      OutNumber(node, a.tensor->rank());
    } else if (op == op::kAdd) {
      OutNumber(node, x + y);
    } else if (op == op::kSub) {
      OutNumber(node, x - y);
    } else if (op == op::kMul) {
      OutNumber(node, x * y);
    } else if (op == op::kNeg) {
      OutNumber(node, -x);
    } else if (op == op::kFloordiv) {
      y == 0 ? Fail() : OutNumber(node, x / y - (x % y != 0 && (x < 0) != (y < 0) ? 1 : 0));
    } else if (op == op::kGt) {
      OutNumber(node, x > y);
    } else {
      return false;
    }
    return true;
  }

  bool RunContainer(NodeId n, const Node& node, const std::string& op) {
    if (op == op::kPrimListConstruct || op == op::kPrimTupleConstruct) {
      Any a = {.list = std::make_shared<ListObject>()};
      for (size_t i = 0; i < node.inputs.size(); ++i) a.list->elements.push_back(In(node, i));
      Out(node, std::move(a));
    } else if (op == op::kPrimListUnpack || op == op::kPrimTupleUnpack) {
      const std::vector<Any> elements = In(node, 0).list->elements;
      if (elements.size() != node.outputs.size()) return Fail(), true;
      for (size_t i = 0; i < elements.size(); ++i) Define(node.outputs[i], elements[i]);
    } else if (op == op::kSize) {
      Any a = {.list = std::make_shared<ListObject>()};
      for (int64_t size : In(node, 0).tensor->sizes) a.list->elements.push_back({.number = size});
      Out(node, std::move(a));
    } else if (op == op::kAppend) {
      const Any l = In(node, 0);
      l.list->elements.push_back(In(node, 1));
      Out(node, l);
      Wrote(n, {l});
      LookAgain();
    } else if (op == op::kPrivateSetItem) {
      const Any l = In(node, 0);
      Any* element = ElementOf(l, In(node, 1).number);
      if (element == nullptr) return Fail(), true;
      *element = In(node, 2);
      Out(node, l);
      Wrote(n, {l});
      LookAgain();
    } else if (op == op::kPop) {
      const Any l = In(node, 0);
      if (l.list->elements.empty()) return Fail(), true;
      Any e = l.list->elements.back();
      l.list->elements.pop_back();
      Out(node, std::move(e));
      Wrote(n, {l});
    } else if (op == op::kDunderGetitem) {
      const Any* element = ElementOf(In(node, 0), In(node, 1).number);
      element == nullptr ? Fail() : Out(node, *element);
    } else {
      return false;
    }
    return true;
  }

  static Any* ElementOf(const Any& l, int64_t i) {
    const int64_t size = static_cast<int64_t>(l.list->elements.size());
    if (i < 0) i += size;
    return i < 0 || i >= size ? nullptr : &l.list->elements[i];
  }

  bool RunFresh(const Node& node, const std::string& op) {
    if (op == op::kCat) {
      auto h = std::make_shared<Handle>();
      h->storage = std::make_shared<Bytes>();
      for (const Any& e : In(node, 0).list->elements) h->storage->data.push_back(Sum(*e.tensor));
      h->sizes = {static_cast<int64_t>(h->storage->data.size())};
      h->strides = {1};
      OutTensor(node, h);
      return true;
    }
    if (op == op::kZeros) return Zeros(node), true;
    // The operators that in-place operators become when their writes are removed: zero, mul, add, copy.
    std::function<int64_t(int64_t)> f;
    size_t like = 0;
    if (op == op::kRelu) {
      f = [](int64_t v) { return std::max<int64_t>(v, 0); };
    } else if (op == op::kZero || op == op::kZerosLike) {
      f = [](int64_t) { return 0; };
    } else if (op == op::kMul) {
      f = [](int64_t v) { return (v * 2 + 1) % 1000003; };
    } else if (op == op::kAdd) {
      f = [y = Sum(*In(node, 1).tensor)](int64_t v) { return (v * 5 + y) % 1000003; };
    } else if (op == op::kBernoulli) {
      f = [draw = ++drawn_](int64_t v) { return v + draw; };
    } else if (op == op::kCopy) {
      f = [](int64_t v) { return v; };
      like = 1;
    } else {
      return false;
    }
    OutTensor(node, FreshLike(*In(node, like).tensor, f));
    return true;
  }

  void Zeros(const Node& node) {
    auto h = std::make_shared<Handle>();
    int64_t count = 1;
    for (int64_t size : Numbers(In(node, 0))) {
      constexpr int64_t kMost = 64;
      if (size < 0 || size > kMost || count > kMost) return Fail();
      h->sizes.push_back(size);
      count *= size;
    }
    h->strides = DenseStrides(h->sizes);
    h->storage = std::make_shared<Bytes>();
    h->storage->data.resize(count);
    OutTensor(node, h);
  }

  bool RunWrite(NodeId n, const Node& node, const std::string& op) {
    if (op != op::kAddInPlace && op != op::kMulInPlace && op != op::kZeroInPlace && op != op::kReluInPlace)
      return false;
    const Any a = In(node, 0);
    const int64_t y = op == op::kAddInPlace ? Sum(*In(node, 1).tensor) : 0;
    for (int64_t p : a.tensor->Places()) {
      int64_t& v = a.tensor->storage->data[p];
      v = op == op::kAddInPlace    ? (v * 5 + y) % 1000003
          : op == op::kMulInPlace  ? (v * 2 + 1) % 1000003
          : op == op::kZeroInPlace ? 0
                                   : std::max<int64_t>(v, 0);
    }
    Out(node, a);
    Wrote(n, {a});
    return true;
  }

  static std::vector<int64_t> Numbers(const Any& list) {
    std::vector<int64_t> out;
    for (const Any& e : list.list->elements) out.push_back(e.number);
    return out;
  }

  std::vector<ViewArgument> Arguments(const Node& node) {
    std::vector<ViewArgument> out;
    for (size_t i = 1; i < node.inputs.size(); ++i) {
      const Any& a = In(node, i);
      const TypeKind kind = g_.value(node.inputs[i]).type.kind();
      ViewArgument argument;
      if (kind == TypeKind::kInt || kind == TypeKind::kBool) argument.number = a.number;
      if (kind == TypeKind::kList) argument.numbers = Numbers(a);
      if (a.tensor) argument.numbers = a.tensor->sizes;  // what expand_as and similar operators look at
      out.push_back(std::move(argument));
    }
    return out;
  }

  bool RunView(const Node& node, const std::string& op) {
    const Any x = In(node, 0);
    if (op == op::kContiguous) {
      OutOrCopy(node, x, x.tensor->IsDense());
    } else if (op == op::kFlatten) {
      Flatten(node);
    } else if (op == op::kReshape || op == op::kReshapeAs) {
      Reshape(node, Arguments(node)[0].numbers);
    } else if (IsPieces(op)) {
      const std::optional<std::vector<Handle>> pieces = MakePieces(op, *x.tensor, Arguments(node));
      if (!pieces) return Fail(), true;
      Any l = {.list = std::make_shared<ListObject>()};
      for (const Handle& h : *pieces) l.list->elements.push_back({.tensor = std::make_shared<Handle>(h)});
      Out(node, std::move(l));
    } else {
      std::string maker = op;
      if (absl::EndsWith(op, "_as")) maker.resize(op.size() - 3);
      if (!IsView(maker)) return false;
      const std::optional<Handle> view = MakeView(maker, *x.tensor, Arguments(node));
      view ? OutTensor(node, std::make_shared<Handle>(*view)) : Fail();
    }
    return true;
  }

  void OutOrCopy(const Node& node, const Any& x, bool itself) {
    if (itself) return Out(node, x);
    OutTensor(node, FreshLike(*x.tensor, [](int64_t v) { return v; }));
  }

  void Reshape(const Node& node, const std::vector<int64_t>& asked) {
    const Handle& x = *In(node, 0).tensor;
    if (std::optional<Handle> view = MakeView(op::kView, x, {{.numbers = asked}})) {
      return OutTensor(node, std::make_shared<Handle>(*view));
    }
    const std::optional<std::vector<int64_t>> sizes = InferSizes(asked, static_cast<int64_t>(x.Places().size()));
    if (!sizes) return Fail();
    std::shared_ptr<Handle> copy = FreshLike(x, [](int64_t v) { return v; });
    copy->sizes = *sizes;
    copy->strides = DenseStrides(*sizes);
    OutTensor(node, copy);
  }

  // One dim is flat already: the same tensor.
  void Flatten(const Node& node) {
    const Any x = In(node, 0);
    const int64_t rank = x.tensor->rank();
    if (rank == 0) return Reshape(node, {1});
    int64_t first = In(node, 1).number, last = In(node, 2).number;
    if (first < 0) first += rank;
    if (last < 0) last += rank;
    if (first < 0 || last >= rank || first > last) return Fail();
    if (first == last) return Out(node, x);
    std::vector<int64_t> sizes(x.tensor->sizes.begin(), x.tensor->sizes.begin() + first + 1);
    for (int64_t d = first + 1; d < rank; ++d) {
      d <= last ? void(sizes.back() *= x.tensor->sizes[d]) : sizes.push_back(x.tensor->sizes[d]);
    }
    Reshape(node, sizes);
  }

  bool RunGeometryChange(const Node& node, const std::string& op) {
    const Any x = In(node, 0);
    if (op == op::kSetInPlace) {
      *x.tensor = Handle(*In(node, 1).tensor);
    } else {
      if (!absl::EndsWith(op, "_")) return false;
      const std::string maker = op.substr(0, op.size() - 1);
      if (!IsView(maker)) return false;
      const std::optional<Handle> view = MakeView(maker, *x.tensor, Arguments(node));
      if (!view) return Fail(), true;
      *x.tensor = *view;
    }
    Out(node, x);
    LookAgain();
    return true;
  }

  const Graph& g_;
  std::mt19937_64 rng_;
  const RunOptions options_;
  Observed* seen_;
  std::vector<std::shared_ptr<Bytes>> storages_;  // inputs', the one that they share first
  std::vector<std::shared_ptr<Handle>> inputs_;
  std::vector<Any> env_;        // by index of the value
  std::vector<ValueId> scope_;  // tensors and containers
  std::vector<NodeId> owners_;
  bool failed_ = false;
  int steps_ = 0;
  int64_t drawn_ = 0;
  std::vector<Any>* written_ = nullptr;  // in a graph that is called: what is written there
  absl::flat_hash_map<uint32_t, uint64_t> calls_;
};

}  // namespace

void RunProgram(const Graph& g, uint64_t seed, const RunOptions& options, Observed* seen) {
  Runner(g, seed, options, seen).Run();
}

}  // namespace smelt
