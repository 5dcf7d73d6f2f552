#include "smelt/alias/random_program.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "smelt/core/op/effects.h"

namespace smelt {

namespace {

// --- programs
// ---------------------------------------------------------------------------------------------------------------------

class Generator {
 public:
  Generator(uint64_t seed, const RandomProgramOptions& o) : rng_(seed), o_(o) {}

  std::string Make() {
    std::string out = "graph(";
    const int inputs = 1 + Below(3);
    for (int i = 0; i < inputs; ++i) {
      std::string name = Fresh("x");
      const char* type = o_.typed_inputs ? "Float(2, 3, strides=[3, 1])" : "Tensor";
      absl::StrAppend(&out, "%", name, " : ", type, ", ");
      tensors_.push_back(name);
    }
    if (Below(4) == 0) {
      absl::StrAppend(&out, "%inlist : Tensor[], ");
      lists_.push_back("inlist");
    }
    out += "%n : int, %m : int, %c : bool, %d : bool):\n";
    Constants(&out);
    if (o_.calls) out += kFunction;
    left_ = o_.nodes;
    Block(2, 0, &out);
    absl::StrAppend(&out, "  return (");
    std::vector<std::string> results;
    for (int i = 0; i < 1 + Below(2); ++i) results.push_back("%" + Pick(tensors_));
    if (!lists_.empty() && Below(3) == 0) results.push_back("%" + Pick(lists_));
    absl::StrAppend(&out, absl::StrJoin(results, ", "), ")\n");
    return out + graphs_;
  }

 private:
  static constexpr char kFunction[] = "  %fn : Function = prim::Constant[name=\"f\"]()\n";

  static constexpr char kSizes[] =
      "  %tall : int[] = prim::ListConstruct(%k2, %km1)\n"
      "  %deep : int[] = prim::ListConstruct(%k2, %km1, %km1)\n";

  void Constants(std::string* out) {
    for (int i = -1; i <= 4; ++i) {
      absl::StrAppend(out, "  %k", i < 0 ? "m" : "", std::abs(i), " : int = prim::Constant[value=", i, "]()\n");
    }
    *out += "  %true : bool = prim::Constant[value=1]()\n  %none : NoneType = prim::Constant()\n";
    if (o_.self_overlaps) *out += kSizes;
  }

  int Below(int n) { return static_cast<int>(rng_() % static_cast<uint64_t>(n)); }
  std::string Fresh(const char* prefix) { return absl::StrCat(prefix, next_++); }
  std::string Pick(const std::vector<std::string>& from) {
    // Recent ones more often.
    const int n = static_cast<int>(from.size());
    return from[Below(2) == 0 ? Below(n) : n - 1 - Below(std::min(n, 4))];
  }
  std::string Index() {
    static const char* const kAll[] = {"k0", "k1", "km1", "k2"};
    if (!ints_.empty() && Below(3) == 0) return ints_[Below(static_cast<int>(ints_.size()))];
    return kAll[Below(4)];
  }

  void Block(int indent, int depth, std::string* out) {
    const int here = depth == 0 ? o_.nodes : 1 + Below(5);
    for (int i = 0; i < here && left_ > 0; ++i) Node(indent, depth, out);
  }

  void Node(int indent, int depth, std::string* out) {
    --left_;
    constexpr int kOneInCalls = 8;
    if (o_.calls && Below(kOneInCalls) == 0) return Call(indent, out);
    if (constexpr int kOneIn = 6; o_.self_overlaps && Below(kOneIn) == 0) return SelfOverlap(indent, out);
    const std::string pad(indent, ' ');
    auto line = [&](auto&&... parts) { absl::StrAppend(out, pad, parts..., "\n"); };
    const std::string x = Pick(tensors_);
    const int what = Below(100);
    if (what < 14) {
      std::string v = Fresh("f");
      if (Below(2) == 0) {
        line("%", v, " : Tensor = aten::relu(%", x, ")");
      } else {
        line("%", v, " : Tensor = aten::zeros_like(%", x, ", %none, %none, %none, %none, %none)");
      }
      tensors_.push_back(v);
    } else if (what < 40) {
      std::string v = Fresh("v");
      switch (Below(12)) {
        case 0:
        case 1:
        case 2:
          line("%", v, " : Tensor = aten::select(%", x, ", %", Below(3) == 0 ? "k1" : "k0", ", %", Index(), ")");
          break;
        case 3:
        case 4: {
          static const char* const kBounds[] = {"none", "k0", "k1", "k2", "km1"};
          line("%", v, " : Tensor = aten::slice(%", x, ", %", Below(3) == 0 ? "k1" : "k0", ", %", kBounds[Below(5)],
               ", %", kBounds[Below(5)], ", %", Below(3) == 0 ? "k2" : "k1", ")");
          break;
        }
        case 5:
          line("%", v, " : Tensor = aten::t(%", x, ")");
          break;
        case 6:
          line("%", v, " : Tensor = aten::unsqueeze(%", x, ", %k", Below(2), ")");
          break;
        case 7:
          line("%", v, " : Tensor = aten::detach(%", x, ")");
          break;
        case 8:
          line("%", v, " : Tensor = aten::contiguous(%", x, ", %k0)");
          break;
        case 9:
          line("%", v, " : Tensor = aten::transpose(%", x, ", %k0, %k1)");
          break;
        case 10:
          line("%", v, " : Tensor = aten::diagonal(%", x, ", %k", Below(2), ", %k0, %k1)");
          break;
        default:
          line("%", v, " : Tensor = aten::narrow(%", x, ", %k0, %", Below(2) == 0 ? "k0" : "k1", ", %k1)");
      }
      tensors_.push_back(v);
    } else if (what < 44) {
      std::string l = Fresh("p"), a = Fresh("a"), b = Fresh("b");
      if (Below(2) == 0) {
        line("%", l, " : Tensor[] = aten::chunk(%", x, ", %k2, %k0)");
      } else {
        line("%", l, " : Tensor[] = aten::split(%", x, ", %k1, %k0)");
      }
      if (Below(2) == 0) {
        line("%", a, " : Tensor, %", b, " : Tensor = prim::ListUnpack(%", l, ")");
        tensors_.push_back(a);
        tensors_.push_back(b);
      } else {
        line("%", a, " : Tensor = aten::__getitem__(%", l, ", %", Index(), ")");
        tensors_.push_back(a);
        lists_.push_back(l);
      }
    } else if (what < 60) {
      std::string v = Fresh("w");
      switch (Below(4)) {
        case 0:
          line("%", v, " : Tensor = aten::add_(%", x, ", %", Pick(tensors_), ", %k1)");
          break;
        case 1:
          line("%", v, " : Tensor = aten::mul_(%", x, ", %k2)");
          break;
        case 2:
          line("%", v, " : Tensor = aten::zero_(%", x, ")");
          break;
        default:
          line("%", v, " : Tensor = aten::relu_(%", x, ")");
      }
      tensors_.push_back(v);
    } else if (what < 62 && o_.geometry_changes) {
      std::string v = Fresh("t");
      switch (Below(3)) {
        case 0:
          line("%", v, " : Tensor = aten::t_(%", x, ")");
          break;
        case 1:
          line("%", v, " : Tensor = aten::unsqueeze_(%", x, ", %k0)");
          break;
        default:
          line("%", v, " : Tensor = aten::set_(%", x, ", %", Pick(tensors_), ")");
      }
      tensors_.push_back(v);
    } else if (what < 66) {
      std::string l = Fresh("l");
      std::vector<std::string> elements;
      for (int i = Below(4); i > 0; --i) elements.push_back("%" + Pick(tensors_));
      line("%", l, " : Tensor[] = prim::ListConstruct(", absl::StrJoin(elements, ", "), ")");
      lists_.push_back(l);
    } else if (what < 80 && !lists_.empty()) {
      const std::string l = Pick(lists_);
      std::string v = Fresh("e");
      switch (Below(7)) {
        case 0:
        case 1:
          line("%", v, " : Tensor[] = aten::append(%", l, ", %", x, ")");
          lists_.push_back(v);
          break;
        case 2:
          line("%", v, " : Tensor[] = aten::_set_item(%", l, ", %", Index(), ", %", x, ")");
          lists_.push_back(v);
          break;
        case 3:
          line("%", v, " : Tensor = aten::pop(%", l, ", %km1)");
          tensors_.push_back(v);
          break;
        case 4:
          line("%", v, " : Tensor = aten::cat(%", l, ", %k0)");
          tensors_.push_back(v);
          break;
        default:
          line("%", v, " : Tensor = aten::__getitem__(%", l, ", %", Index(), ")");
          tensors_.push_back(v);
      }
    } else if (what < 83) {
      std::string t = Fresh("q"), a = Fresh("a"), b = Fresh("b");
      line("%", t, " : (Tensor, Tensor) = prim::TupleConstruct(%", x, ", %", Pick(tensors_), ")");
      line("%", a, " : Tensor, %", b, " : Tensor = prim::TupleUnpack(%", t, ")");
      tensors_.push_back(a);
      tensors_.push_back(b);
    } else if (what < 85) {
      line(" = prim::Print(%", x, ")");
    } else if (what < 87) {
      std::string v = Fresh("r");
      line("%", v, " : Tensor = aten::bernoulli(%", x, ", %none)");
      tensors_.push_back(v);
    } else if (what < 88) {
      std::string v = Fresh("s");
      line("%", v, " : int = aten::size(%", x, ", %k0)");
    } else if (depth < o_.max_depth && what < 94) {
      If(indent, depth, out);
    } else if (depth < o_.max_depth) {
      Loop(indent, depth, out);
    }
  }

  // A view that overlaps itself, or the slices of one that may.
  void SelfOverlap(int indent, std::string* out) {
    const std::string pad(indent, ' '), x = Pick(tensors_), v = Fresh("o");
    auto line = [&](auto&&... parts) { absl::StrAppend(out, pad, parts..., "\n"); };
    switch (Below(4)) {
      case 0:
        line("%", v, " : Tensor = aten::unfold(%", x, ", %k", Below(2), ", %k", 1 + Below(2), ", %k1)");
        break;
      case 1:
        line("%", v, " : Tensor = aten::expand(%", x, ", %tall, %true)");
        break;
      case 2:
        line("%", v, " : Tensor = aten::expand(%", x, ", %deep, %true)");
        break;
      default: {
        const std::string l = Fresh("p");
        line("%", l, " : Tensor[] = aten::unbind(%", x, ", %k0)");
        if (Below(2) == 0) {
          const std::string other = Fresh("o");
          line("%", v, " : Tensor, %", other, " : Tensor = prim::ListUnpack(%", l, ")");
          tensors_.push_back(other);
        } else {
          line("%", v, " : Tensor = aten::__getitem__(%", l, ", %", Index(), ")");
        }
      }
    }
    tensors_.push_back(v);
  }

  // Of a graph, or of a function whose results have one of three types.
  void Call(int indent, std::string* out) {
    std::vector<std::string> tensors = {Pick(tensors_)}, lists, args;
    for (int i = Below(3); i > 0; --i) tensors.push_back(Pick(tensors_));
    for (int i = Below(3); i > 0 && !lists_.empty(); --i) lists.push_back(Pick(lists_));
    for (const auto* some : {&tensors, &lists}) {
      for (const std::string& a : *some) args.push_back("%" + a);
    }
    const std::string pad(indent, ' '), r = Fresh("r"), with = absl::StrJoin(args, ", ");
    if (in_graph_ || Below(2) == 0) {
      const int type = Below(5);
      absl::StrAppend(out, pad, "%", r, " : ",
                      type < 2   ? "Tensor"
                      : type < 4 ? "Tensor[]"
                                 : "NoneType",
                      " = prim::CallFunction(%fn, ", with, ")\n");
      if (type < 4) (type < 2 ? tensors_ : lists_).push_back(r);
      return;
    }
    const std::string name = absl::StrCat("smelt::call_", num_graphs_++), l = Fresh("r");
    const bool list = AddGraph(name, tensors.size(), lists.size());
    absl::StrAppend(out, pad, "%", r, " : Tensor", list ? absl::StrCat(", %", l, " : Tensor[]") : "", " = ", name, "(",
                    with, ", %n, %m, %c, %d)\n");
    tensors_.push_back(r);
    if (list) lists_.push_back(l);
  }

  // Whether it has a list as a second result.
  bool AddGraph(const std::string& name, size_t num_tensors, size_t num_lists) {
    auto saved_t = std::move(tensors_), saved_l = std::move(lists_), saved_i = std::move(ints_);
    tensors_.clear(), lists_.clear(), ints_.clear();
    const int saved_left = std::exchange(left_, 2 + Below(6));
    in_graph_ = true;
    std::string g = absl::StrCat("with ", name, " = graph(");
    for (size_t i = 0; i < num_tensors; ++i) {
      tensors_.push_back(Fresh("x"));
      absl::StrAppend(&g, "%", tensors_.back(), " : Tensor, ");
    }
    for (size_t i = 0; i < num_lists; ++i) {
      lists_.push_back(Fresh("y"));
      absl::StrAppend(&g, "%", lists_.back(), " : Tensor[], ");
    }
    g += "%n : int, %m : int, %c : bool, %d : bool):\n";
    Constants(&g);
    if (Below(4) == 0) g += kFunction;
    const bool calls = std::exchange(o_.calls, absl::StrContains(g, kFunction));
    Block(2, o_.max_depth - 1, &g);
    o_.calls = calls;
    const bool list = !lists_.empty() && Below(2) == 0;
    absl::StrAppend(&g, "  return (%", Pick(tensors_), list ? ", %" + Pick(lists_) : "", ")\n");
    graphs_ += g;
    in_graph_ = false;
    left_ = saved_left;
    tensors_ = std::move(saved_t), lists_ = std::move(saved_l), ints_ = std::move(saved_i);
    return list;
  }

  void If(int indent, int depth, std::string* out) {
    const std::string pad(indent, ' ');
    const int results = Below(3);
    std::vector<std::string> names, types;
    bool list = !lists_.empty() && Below(3) == 0;
    std::string body[2];
    auto saved_t = tensors_, saved_l = lists_, saved_i = ints_;
    for (int b = 0; b < 2; ++b) {
      Block(indent + 4, depth + 1, &body[b]);
      std::vector<std::string> r;
      for (int i = 0; i < results; ++i) r.push_back("%" + Pick(tensors_));
      if (list) r.push_back("%" + Pick(lists_));
      absl::StrAppend(&body[b], pad, "    -> (", absl::StrJoin(r, ", "), ")\n");
      tensors_ = saved_t;
      lists_ = saved_l;
      ints_ = saved_i;
    }
    std::vector<std::string> outs;
    for (int i = 0; i < results; ++i) {
      std::string v = Fresh("j");
      outs.push_back(absl::StrCat("%", v, " : Tensor"));
      tensors_.push_back(v);
    }
    if (list) {
      std::string v = Fresh("j");
      outs.push_back(absl::StrCat("%", v, " : Tensor[]"));
      lists_.push_back(v);
    }
    absl::StrAppend(out, pad, absl::StrJoin(outs, ", "), " = prim::If(%", Below(2) == 0 ? "c" : "d", ")\n", pad,
                    "  block0():\n", body[0], pad, "  block1():\n", body[1]);
  }

  void Loop(int indent, int depth, std::string* out) {
    const std::string pad(indent, ' ');
    const int carried = 1 + Below(3);
    const bool list = !lists_.empty() && Below(3) == 0;
    std::vector<std::string> inits, params, outs, results;
    for (int i = 0; i < carried; ++i) inits.push_back("%" + Pick(tensors_));
    if (list) inits.push_back("%" + Pick(lists_));
    auto saved_t = tensors_, saved_l = lists_, saved_i = ints_;
    std::string index = Fresh("i");
    ints_.push_back(index);
    std::vector<std::string> names;
    for (int i = 0; i < carried; ++i) {
      std::string p = Fresh("p");
      params.push_back(absl::StrCat("%", p, " : Tensor"));
      tensors_.push_back(p);
      names.push_back(p);
    }
    if (list) {
      std::string p = Fresh("p");
      params.push_back(absl::StrCat("%", p, " : Tensor[]"));
      lists_.push_back(p);
    }
    std::string body;
    Block(indent + 4, depth + 1, &body);
    for (int i = 0; i < carried; ++i) {
      // Rotations, often.
      results.push_back("%" + (Below(3) == 0 ? names[Below(carried)] : Pick(tensors_)));
    }
    if (list) results.push_back("%" + Pick(lists_));
    tensors_ = saved_t;
    lists_ = saved_l;
    ints_ = saved_i;
    for (int i = 0; i < carried; ++i) {
      std::string v = Fresh("o");
      outs.push_back(absl::StrCat("%", v, " : Tensor"));
      tensors_.push_back(v);
    }
    if (list) {
      std::string v = Fresh("o");
      outs.push_back(absl::StrCat("%", v, " : Tensor[]"));
      lists_.push_back(v);
    }
    absl::StrAppend(out, pad, absl::StrJoin(outs, ", "), " = prim::Loop(%", Below(2) == 0 ? "n" : "m", ", %true, ",
                    absl::StrJoin(inits, ", "), ")\n", pad, "  block0(%", index, " : int, ",
                    absl::StrJoin(params, ", "), "):\n", body, pad, "    -> (%true, ", absl::StrJoin(results, ", "),
                    ")\n");
  }

  std::mt19937_64 rng_;
  RandomProgramOptions o_;
  int left_ = 0, next_ = 0;
  std::vector<std::string> tensors_, lists_, ints_;
  std::string graphs_;
  int num_graphs_ = 0;
  bool in_graph_ = false;
};

// --- runs
// ---------------------------------------------------------------------------------------------------------------------

struct Bytes {
  std::vector<int64_t> data;
};
struct Handle {
  std::shared_ptr<Bytes> storage;
  int64_t offset = 0;
  std::vector<int64_t> sizes, strides;

  // Every place it reaches, in order of its indices.
  std::vector<int64_t> Places() const {
    std::vector<int64_t> places = {offset};
    for (size_t d = 0; d < sizes.size(); ++d) {
      std::vector<int64_t> next;
      for (int64_t p : places) {
        for (int64_t i = 0; i < sizes[d]; ++i) next.push_back(p + i * strides[d]);
      }
      places = std::move(next);
    }
    return places;
  }
};
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
  Runner(const Graph& g, uint64_t seed, bool watch, Observed* seen) : g_(g), rng_(seed), watch_(watch), seen_(seen) {}

  void Run() {
    seen_->result.clear();
    seen_->complete = false;
    // One storage that inputs share, one for each besides.
    auto shared = std::make_shared<Bytes>();
    shared->data.resize(16);
    for (int64_t& x : shared->data) x = static_cast<int64_t>(rng_() % 7) - 3;
    std::vector<std::shared_ptr<Bytes>> storages = {shared};
    std::vector<std::shared_ptr<Handle>> handles;
    auto make = [&](bool typed) {
      if (!handles.empty() && rng_() % 5 == 0) return handles[rng_() % handles.size()];
      auto h = std::make_shared<Handle>();
      if (rng_() % 2 == 0) {
        h->storage = shared;
        h->offset = static_cast<int64_t>(rng_() % 5);
      } else {
        h->storage = std::make_shared<Bytes>();
        h->storage->data.resize(16);
        for (int64_t& x : h->storage->data) x = static_cast<int64_t>(rng_() % 7) - 3;
        storages.push_back(h->storage);
      }
      h->sizes = {2, 3};
      h->strides = {3, 1};
      if (!typed) {
        switch (rng_() % 5) {
          case 0:
            h->strides = {0, 1};  // expanded
            break;
          case 1:
            h->strides = {1, 2};
            break;
          case 2:
            h->sizes = {3, 2};
            h->strides = {2, 1};
            break;
          case 3:
            h->sizes = {1, 3};
            h->strides = {3, 1};
            break;
        }
      }
      handles.push_back(h);
      return h;
    };
    for (ValueId v : g_.inputs()) {
      const Type& t = g_.value(v).type;
      Any a;
      if (t.IsTensor()) {
        a.tensor = make(t.tensor().sizes.has_value());
      } else if (t.kind() == TypeKind::kList) {
        a.list = std::make_shared<ListObject>();
        for (uint64_t i = rng_() % 4; i > 0; --i) {
          Any e;
          e.tensor = make(false);
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
      for (ValueId v : g_.outputs()) Show(env_[v]);
      seen_->complete = true;
    }
    for (const auto& s : storages) {
      for (int64_t x : s->data) seen_->result.push_back(x);
    }
  }

 private:
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
    std::vector<int64_t> x = a.Places(), y = b.Places();
    for (int64_t p : x) {
      if (std::find(y.begin(), y.end(), p) != y.end()) return true;
    }
    return false;
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

  void Pair(ValueId u, ValueId v) {
    const Any &a = env_[u], &b = env_[v];
    if (!IsAliasingType(g_.value(u).type) || !IsAliasingType(g_.value(v).type)) return;
    seen_->together.insert({u, v});
    seen_->together.insert({v, u});
    const bool tuple = g_.value(u).type.kind() == TypeKind::kTuple || g_.value(v).type.kind() == TypeKind::kTuple;
    if (!tuple && Aliases(a, b)) {
      seen_->alias.insert({u, v});
      seen_->alias.insert({v, u});
    }
    bool same = false;
    if (a.tensor && b.tensor) {
      same = a.tensor->storage == b.tensor->storage && a.tensor->sizes == b.tensor->sizes &&
             a.tensor->Places() == b.tensor->Places();
    } else if (a.list && b.list) {
      same = a.list == b.list;
    }
    if (!same) {
      seen_->not_same.insert({u, v});
      seen_->not_same.insert({v, u});
    }
    std::vector<Any> x, y;
    std::set<const void*> d1, d2;
    Reach(a, &x, &d1);
    Reach(b, &y, &d2);
    for (const Any& p : x) {
      for (const Any& q : y) {
        if (!Aliases(p, q)) continue;
        seen_->contain.insert({u, v});
        seen_->contain.insert({v, u});
        return;
      }
    }
  }

  void Define(ValueId v, Any a) {
    env_[v] = std::move(a);
    scope_.push_back(v);
    if (!watch_) return;
    for (ValueId u : scope_) Pair(u, v);
  }
  // A list or a geometry changed: all pairs are looked at again.
  void LookAgain() {
    if (!watch_) return;
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
    if (!watch_) return;
    auto mark = [&](ValueId v) {
      const Type& t = g_.value(v).type;
      if (t.kind() == TypeKind::kTuple) return;
      for (const Any& w : what) {
        if (!Aliases(env_[v], w)) continue;
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
  std::shared_ptr<Handle> FreshLike(const Handle& h, const std::function<int64_t(int64_t)>& f) {
    auto out = std::make_shared<Handle>();
    out->storage = std::make_shared<Bytes>();
    out->sizes = h.sizes;
    out->strides.resize(h.sizes.size());
    int64_t stride = 1;
    for (size_t d = h.sizes.size(); d-- > 0;) {
      out->strides[d] = stride;
      stride *= h.sizes[d];
    }
    for (int64_t p : h.Places()) out->storage->data.push_back(f(h.storage->data[p]));
    return out;
  }

  // What a call's arguments reach, where it lies now.
  std::vector<Any> Given(NodeId n) {
    std::vector<Any> all;
    std::set<const void*> done;
    for (ValueId v : g_.node(n).inputs) Reach(env_[v], &all, &done);
    for (Any& a : all) {
      if (a.tensor) a.tensor = std::make_shared<Handle>(*a.tensor);
    }
    return all;
  }
  // What was written of what was given: what a call has made itself it may write unseen.
  static std::vector<Any> Seen(std::vector<Any> written, const std::vector<Any>& given) {
    const auto is_own = [&](const Any& w) {
      return std::none_of(given.begin(), given.end(), [&](const Any& a) { return Aliases(a, w); });
    };
    written.erase(std::remove_if(written.begin(), written.end(), is_own), written.end());
    return written;
  }

  // A graph's nodes do what they do to the caller's memory.
  void RunGraph(NodeId n, const Graph& sub) {
    const Node& node = g_.node(n);
    std::vector<Any> written;
    const std::vector<Any> before = Given(n);
    Runner inner(sub, 0, false, seen_);
    inner.written_ = &written;
    inner.drawn_ = drawn_;
    inner.steps_ = steps_;
    for (size_t i = 0; i < node.inputs.size(); ++i) inner.Define(sub.inputs()[i], env_[node.inputs[i]]);
    inner.RunBlock(sub.top());
    drawn_ = inner.drawn_;
    steps_ = inner.steps_;
    failed_ = inner.failed_;
    if (failed_) return;
    for (size_t i = 0; i < node.outputs.size(); ++i) Define(node.outputs[i], inner.env_[sub.outputs()[i]]);
    Wrote(n, Seen(written, before));
    LookAgain();
  }

  // A function that is not seen: some of all that it could do, the same in each run and wherever the node stands.
  void RunFunction(NodeId n) {
    const Node& node = g_.node(n);
    std::mt19937_64 rng(n.index * 1000 + calls_[n.index]++);
    const std::vector<Any> before = Given(n);
    std::vector<Any> reached, tensors, lists, written;
    std::set<const void*> done;
    for (size_t i = 1; i < node.inputs.size(); ++i) Reach(env_[node.inputs[i]], &reached, &done);
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
    if (++steps_ > 3000) {
      failed_ = true;
      return;
    }
    const Node& node = g_.node(n);
    const std::string& op = node.op.name();
    auto in = [&](size_t i) -> const Any& { return env_[node.inputs[i]]; };
    auto number = [&](size_t i, int64_t none) {
      return g_.value(node.inputs[i]).type.kind() == TypeKind::kNone ? none : in(i).number;
    };
    auto fail = [&] { failed_ = true; };
    auto out = [&](Any a) { Define(node.outputs[0], std::move(a)); };
    auto tensor = [&](std::shared_ptr<Handle> h) {
      Any a;
      a.tensor = std::move(h);
      out(std::move(a));
    };
    if (op == "prim::Constant") {
      Any a;
      if (auto c = GetConstant(g_, node.outputs[0])) {
        if (const int64_t* i = std::get_if<int64_t>(&*c)) a.number = *i;
        if (const bool* b = std::get_if<bool>(&*c)) a.number = *b;
      }
      return out(a);
    }
    if (op == "prim::CallFunction") return RunFunction(n);
    if (op == "smelt::call") return RunGraph(n, *std::get<std::shared_ptr<Graph>>(*node.FindAttribute("Subgraph")));
    if (op == "prim::If") {
      const BlockId b = node.blocks[in(0).number != 0 ? 0 : 1];
      const size_t mark = scope_.size();
      owners_.push_back(n);
      RunBlock(b);
      owners_.pop_back();
      if (failed_) return;
      std::vector<Any> results;
      for (ValueId v : g_.results(b)) results.push_back(env_[v]);
      scope_.resize(mark);
      for (size_t i = 0; i < results.size(); ++i) Define(node.outputs[i], results[i]);
      return;
    }
    if (op == "prim::Loop") {
      const int64_t trips = in(0).number;
      bool condition = in(1).number != 0;
      std::vector<Any> carried;
      for (size_t i = 2; i < node.inputs.size(); ++i) carried.push_back(in(i));
      const BlockId b = node.blocks[0];
      const size_t mark = scope_.size();
      owners_.push_back(n);
      for (int64_t i = 0; i < trips && condition; ++i) {
        Any index;
        index.number = i;
        Define(g_.params(b)[0], index);
        for (size_t k = 0; k < carried.size(); ++k) Define(g_.params(b)[k + 1], carried[k]);
        RunBlock(b);
        if (failed_) break;
        condition = env_[g_.results(b)[0]].number != 0;
        std::vector<Any> next;
        for (size_t k = 0; k < carried.size(); ++k) next.push_back(env_[g_.results(b)[k + 1]]);
        carried = std::move(next);
        scope_.resize(mark);
      }
      owners_.pop_back();
      if (failed_) return;
      for (size_t k = 0; k < carried.size(); ++k) Define(node.outputs[k], carried[k]);
      return;
    }
    if (op == "prim::ListConstruct" || op == "prim::TupleConstruct") {
      Any a;
      a.list = std::make_shared<ListObject>();
      for (size_t i = 0; i < node.inputs.size(); ++i) a.list->elements.push_back(in(i));
      return out(a);
    }
    if (op == "prim::ListUnpack" || op == "prim::TupleUnpack") {
      if (in(0).list->elements.size() != node.outputs.size()) return fail();
      std::vector<Any> e = in(0).list->elements;
      for (size_t i = 0; i < e.size(); ++i) Define(node.outputs[i], e[i]);
      return;
    }
    if (op == "aten::append" || op == "aten::_set_item") {
      Any l = in(0);
      if (op == "aten::append") {
        l.list->elements.push_back(in(1));
      } else {
        int64_t i = in(1).number, size = static_cast<int64_t>(l.list->elements.size());
        if (i < 0) i += size;
        if (i < 0 || i >= size) return fail();
        l.list->elements[i] = in(2);
      }
      out(l);
      Wrote(n, {l});
      return LookAgain();
    }
    if (op == "aten::pop") {
      Any l = in(0);
      if (l.list->elements.empty()) return fail();
      Any e = l.list->elements.back();
      l.list->elements.pop_back();
      out(e);
      Wrote(n, {l});
      return;
    }
    if (op == "aten::__getitem__") {
      int64_t i = in(1).number, size = static_cast<int64_t>(in(0).list->elements.size());
      if (i < 0) i += size;
      if (i < 0 || i >= size) return fail();
      return out(in(0).list->elements[i]);
    }
    if (op == "aten::cat") {
      auto h = std::make_shared<Handle>();
      h->storage = std::make_shared<Bytes>();
      for (const Any& e : in(0).list->elements) h->storage->data.push_back(Sum(*e.tensor));
      h->sizes = {static_cast<int64_t>(h->storage->data.size())};
      h->strides = {1};
      return tensor(h);
    }
    if (op == "prim::Print") {
      seen_->result.push_back(3000);
      Show(in(0));
      return;
    }
    if (op == "aten::bernoulli") {
      const int64_t draw = ++drawn_;
      return tensor(FreshLike(*in(0).tensor, [&](int64_t x) { return x + draw; }));
    }
    if (op == "aten::size") {
      Any a;
      const auto& sizes = in(0).tensor->sizes;
      if (sizes.empty()) return fail();
      a.number = sizes[0];
      return out(a);
    }
    const Handle& x = *in(0).tensor;
    if (op == "aten::relu") return tensor(FreshLike(x, [](int64_t v) { return std::max<int64_t>(v, 0); }));
    // What in-place operators become when their writes are removed.
    if (op == "aten::zero") return tensor(FreshLike(x, [](int64_t) { return 0; }));
    if (op == "aten::mul") return tensor(FreshLike(x, [](int64_t v) { return (v * 2 + 1) % 1000003; }));
    if (op == "aten::add") {
      const int64_t y = Sum(*in(1).tensor);
      return tensor(FreshLike(x, [y](int64_t v) { return (v * 5 + y) % 1000003; }));
    }
    if (op == "aten::copy") return tensor(FreshLike(*in(1).tensor, [](int64_t v) { return v; }));
    if (op == "aten::zeros_like") return tensor(FreshLike(x, [](int64_t) { return 0; }));
    if (op == "aten::add_" || op == "aten::mul_" || op == "aten::zero_" || op == "aten::relu_") {
      int64_t y = op == "aten::add_" ? Sum(*in(1).tensor) : 0;
      for (int64_t p : x.Places()) {
        int64_t& v = x.storage->data[p];
        v = op == "aten::add_"    ? (v * 5 + y) % 1000003
            : op == "aten::mul_"  ? (v * 2 + 1) % 1000003
            : op == "aten::zero_" ? 0
                                  : std::max<int64_t>(v, 0);
      }
      Any a = in(0);
      out(a);
      return Wrote(n, {a});
    }
    const int64_t rank = static_cast<int64_t>(x.sizes.size());
    auto view = std::make_shared<Handle>(x);
    auto dim = [&](size_t i) -> int64_t {
      int64_t d = in(i).number;
      return d < 0 ? d + rank : d;
    };
    if (op == "aten::detach") return tensor(view);
    if (op == "aten::contiguous") {
      int64_t stride = 1;
      bool dense = true;
      for (size_t d = x.sizes.size(); d-- > 0;) {
        if (x.sizes[d] != 1 && x.strides[d] != stride) dense = false;
        stride *= x.sizes[d];
      }
      if (dense) return out(in(0));
      return tensor(FreshLike(x, [](int64_t v) { return v; }));
    }
    if (op == "aten::select") {
      if (dim(1) < 0 || dim(1) >= rank) return fail();
      int64_t d = dim(1), i = in(2).number;
      if (i < 0) i += x.sizes[d];
      if (i < 0 || i >= x.sizes[d]) return fail();
      view->offset += i * x.strides[d];
      view->sizes.erase(view->sizes.begin() + d);
      view->strides.erase(view->strides.begin() + d);
      return tensor(view);
    }
    if (op == "aten::slice" || op == "aten::narrow") {
      int64_t d = dim(1);
      if (d < 0 || d >= rank) return fail();
      int64_t size = x.sizes[d], start, end, step = 1;
      if (op == "aten::slice") {
        start = number(2, 0);
        end = number(3, INT64_MAX);
        step = in(4).number;
        if (start < 0) start += size;
        if (end < 0) end += size;
        start = std::clamp<int64_t>(start, 0, size);
        end = std::clamp<int64_t>(end, start, size);
      } else {
        start = in(2).number;
        end = start + in(3).number;
        if (start < 0 || end > size) return fail();
      }
      view->offset += start * x.strides[d];
      view->sizes[d] = (end - start + step - 1) / step;
      view->strides[d] *= step;
      return tensor(view);
    }
    if (op == "aten::expand") {
      // New dims come first; -1: as it is.
      const std::vector<Any>& sizes = in(1).list->elements;
      if (static_cast<int64_t>(sizes.size()) < rank) return fail();
      const size_t added = sizes.size() - rank;
      for (size_t d = 0; d < sizes.size(); ++d) {
        const int64_t size = sizes[d].number;
        if (d < added) {
          if (size < 0) return fail();
          view->sizes.insert(view->sizes.begin() + d, size);
          view->strides.insert(view->strides.begin() + d, 0);
        } else if (size >= 0 && size != view->sizes[d]) {
          if (view->sizes[d] != 1) return fail();
          view->sizes[d] = size;
          view->strides[d] = 0;
        }
      }
      return tensor(view);
    }
    if (op == "aten::unfold") {
      const int64_t d = dim(1), size = in(2).number, step = in(3).number;
      if (d < 0 || d >= rank || size > x.sizes[d]) return fail();
      view->sizes[d] = (x.sizes[d] - size) / step + 1;
      view->strides[d] *= step;
      view->sizes.push_back(size);
      view->strides.push_back(x.strides[d]);
      return tensor(view);
    }
    if (op == "aten::unbind") {
      if (rank == 0) return fail();
      Any l;
      l.list = std::make_shared<ListObject>();
      view->sizes.erase(view->sizes.begin());
      view->strides.erase(view->strides.begin());
      for (int64_t i = 0; i < x.sizes[0]; ++i) {
        Any e;
        e.tensor = std::make_shared<Handle>(*view);
        e.tensor->offset += i * x.strides[0];
        l.list->elements.push_back(e);
      }
      return out(l);
    }
    if (op == "aten::chunk" || op == "aten::split") {
      if (rank == 0) return fail();
      int64_t size = x.sizes[0], piece = op == "aten::chunk" ? (size + 1) / 2 : 1;
      if (size == 0) return fail();
      Any l;
      l.list = std::make_shared<ListObject>();
      for (int64_t at = 0; at < size; at += piece) {
        auto h = std::make_shared<Handle>(x);
        h->offset += at * x.strides[0];
        h->sizes[0] = std::min(piece, size - at);
        Any e;
        e.tensor = h;
        l.list->elements.push_back(e);
      }
      return out(l);
    }
    if (op == "aten::t" || op == "aten::t_") {
      if (rank > 2) return fail();
      if (op == "aten::t_") view = in(0).tensor;
      if (rank == 2) {
        std::swap(view->sizes[0], view->sizes[1]);
        std::swap(view->strides[0], view->strides[1]);
      }
      tensor(view);
      if (op == "aten::t_") LookAgain();
      return;
    }
    if (op == "aten::transpose") {
      if (rank < 2) return fail();
      std::swap(view->sizes[0], view->sizes[1]);
      std::swap(view->strides[0], view->strides[1]);
      return tensor(view);
    }
    if (op == "aten::unsqueeze" || op == "aten::unsqueeze_") {
      if (op == "aten::unsqueeze_") view = in(0).tensor;
      int64_t d = in(1).number;
      if (d > rank || rank > 5) return fail();
      view->sizes.insert(view->sizes.begin() + d, 1);
      view->strides.insert(view->strides.begin() + d, 1);
      tensor(view);
      if (op == "aten::unsqueeze_") LookAgain();
      return;
    }
    if (op == "aten::diagonal") {
      if (rank != 2) return fail();
      int64_t k = in(1).number;
      int64_t n_rows = x.sizes[0], n_cols = x.sizes[1];
      int64_t length = std::max<int64_t>(0, std::min(n_rows, n_cols - k));
      view->offset += length > 0 ? k * x.strides[1] : 0;
      view->sizes = {length};
      view->strides = {x.strides[0] + x.strides[1]};
      return tensor(view);
    }
    if (op == "aten::set_") {
      std::shared_ptr<Handle> self = in(0).tensor;
      *self = *in(1).tensor;
      tensor(self);
      return LookAgain();
    }
    fail();
  }

  const Graph& g_;
  std::mt19937_64 rng_;
  bool watch_;
  Observed* seen_;
  absl::flat_hash_map<ValueId, Any> env_;
  std::vector<ValueId> scope_;
  std::vector<NodeId> owners_;
  bool failed_ = false;
  int steps_ = 0;
  int64_t drawn_ = 0;
  std::vector<Any>* written_ = nullptr;  // in a graph that is called: what is written there
  absl::flat_hash_map<uint32_t, uint64_t> calls_;
};

}  // namespace

int64_t NumPrograms(int64_t usual) {
  const char* n = std::getenv("SMELT_ALIAS_PROGRAMS");
  return n != nullptr ? std::atoll(n) : usual;
}

int64_t FirstSeed() {
  const char* start = std::getenv("SMELT_ALIAS_SEED");
  return start != nullptr ? std::atoll(start) : 1;
}

std::string RandomProgram(uint64_t seed, const RandomProgramOptions& options) {
  return Generator(seed, options).Make();
}

void RunProgram(const Graph& g, uint64_t seed, bool watch, Observed* seen) { Runner(g, seed, watch, seen).Run(); }

}  // namespace smelt
