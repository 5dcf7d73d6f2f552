// Families drawn from a seed. A seed decides which values flow on (tensors, lists, lists of lists, dictionaries,
// tuples), a program of nested statements over them, what surrounds its repetitions, and what finally happens to all
// that they made. A family repeats its program until the graph is large enough, so that it has the same shape at any
// size.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "smelt/bench/alias/builder.h"
#include "smelt/bench/alias/families.h"

namespace smelt {

namespace {

using Values = std::vector<ValueId>;
using Params = absl::Span<const ValueId>;

class RandomProgram {
 public:
  explicit RandomProgram(uint64_t seed) : rng_(seed) {
    static constexpr int kCarried[] = {1, 2, 2, 3, 3, 4, 6, 8, 12, 24, 64};
    count_[kTensors] = kCarried[Below(11)];
    count_[kLists] = Below(3);
    count_[kListsOfLists] = Below(4) == 0 ? 1 : 0;
    count_[kDicts] = Below(5) == 0 ? 1 : 0;
    count_[kTuples] = Below(4) == 0 ? 1 + Below(2) : 0;
    around_ = Below(3) == 0 ? static_cast<Around>(Below(kHowManyAround)) : kNothingAround;
    end_ = Below(3) == 0 ? static_cast<End>(Below(kHowManyEnds)) : kReturnOne;
    deep_ = 1 + Below(4);
    calls_ = Below(4) == 0;
    program_ = Block(0, 2 + Below(7));
  }

  std::unique_ptr<Graph> Make(int64_t nodes) {
    Builder b;
    b_ = &b;
    b.WithLoops();
    index_ = b.g->AddInput("i", Type::Int());
    const NodeId f = b.g->InsertBefore(b.g->block(b.g->top()).first, OpName::Get("prim::Constant"), {},
                                       {Type::Class("Function")}, {{"name", std::string("f")}});
    function_ = b.g->node(f).outputs[0];
    made_.clear();
    State s;
    Fill(&s);
    // The end needs a share of the nodes.
    const int64_t until = end_ == kReturnOne ? nodes : nodes * 2 / 3;
    s = Surround(around_, s, [&](State at) {
      while (b.g->num_nodes() < until) {
        const int64_t before = b.g->num_nodes();
        Run(program_, &at);
        if (b.g->num_nodes() == before) at.of[kTensors][0] = Fresh(at.of[kTensors][0]);  // values changed places only
      }
      return at;
    });
    const Values ends = Finish(&s);
    for (ValueId v : ends) b.g->AddOutput(v);
    return std::move(b.g);
  }

 private:
  enum Kind { kTensors, kLists, kListsOfLists, kDicts, kTuples, kKinds };
  enum Around { kNothingAround, kLoopAround, kBranchAround, kLoopsAround, kHowManyAround };
  enum End { kReturnOne, kReturnAll, kWriteAll, kListAll, kCallEach, kLoopAll, kHowManyEnds };
  enum What {
    kUnary,
    kBinary,
    kFreshWritten,
    kWrite,
    kWriteRow,
    kWriteSomeRow,
    kWriteSlice,
    kWriteTurned,
    kView,
    kRow,
    kCopy,
    kSwap,
    kRotate,
    kFarRead,
    kFarWrite,
    kFarKeep,
    kIf,
    kIfOrKeep,
    kIfPicks,
    kLoop,
    kLoopOfSome,
    kLoopRotates,
    kNewList,
    kAppend,
    kExtend,
    kSetItem,
    kSetSomeItem,
    kGet,
    kGetSome,
    kGetWrite,
    kPop,
    kConcat,
    kUnpackList,
    kWriteList,
    kJoinList,
    kAppendList,
    kGetList,
    kSetKey,
    kGetKey,
    kPackTuple,
    kOpenTuple,
    kCall,
    kCallList,
    kUnknown,
    kHowMany
  };
  struct Statement {
    What what;
    int a, b, c;
    std::vector<Statement> first, second;
  };
  using Statements = std::vector<Statement>;
  // One vector for each kind.
  struct State {
    Values of[kKinds];
  };

  int Below(int n) { return static_cast<int>(rng_() % static_cast<uint64_t>(n)); }

  Statements Block(int depth, int size) {
    Statements out;
    for (int i = 0; i < size; ++i) {
      Statement s;
      s.what = static_cast<What>(Below(kHowMany));
      const bool calls = s.what == kCall || s.what == kCallList || s.what == kUnknown;
      if (calls && !calls_) s.what = kWrite;
      s.a = Below(64);
      s.b = Below(64);
      s.c = Below(64);
      if (s.what >= kIf && s.what <= kLoopRotates) {
        if (depth >= deep_) {
          s.what = kFreshWritten;
        } else {
          s.first = Block(depth + 1, 1 + Below(4));
          s.second = Block(depth + 1, 1 + Below(3));
        }
      }
      out.push_back(std::move(s));
    }
    return out;
  }

  static Type TypeOf(Kind k) {
    const Type list = Type::List(Type::Tensor());
    switch (k) {
      case kLists:
        return list;
      case kListsOfLists:
        return Type::List(list);
      case kDicts:
        return Type::Dict(Type::Int(), Type::Tensor());
      case kTuples:
        return Type::Tuple({Type::Tensor(), list});
      default:
        return Type::Tensor();
    }
  }

  ValueId Fresh(ValueId v) {
    const ValueId made = b_->Relu(v);
    if (b_->block == b_->g->top()) made_.push_back(made);
    return made;
  }
  ValueId Pack(ValueId v, ValueId list) { return b_->Op("prim::TupleConstruct", {v, list}, TypeOf(kTuples)); }

  void Fill(State* s) {
    for (int k = 0; k < kKinds; ++k) {
      for (int i = 0; i < count_[k]; ++i) s->of[k].push_back(Make(static_cast<Kind>(k), *s));
    }
  }
  ValueId Make(Kind k, const State& s) {
    switch (k) {
      case kLists:
        return b_->List({s.of[kTensors][0]});
      case kListsOfLists:
        return b_->Op("prim::ListConstruct", {b_->List({s.of[kTensors][0]})}, TypeOf(k));
      case kDicts:
        return b_->Op("prim::DictConstruct", {}, TypeOf(k));
      case kTuples:
        return Pack(s.of[kTensors][0], b_->List({b_->Relu(b_->x)}));
      default:
        return Fresh(b_->x);
    }
  }

  static Values Flat(const State& s, const int* most) {
    Values out;
    for (int k = 0; k < kKinds; ++k) {
      for (int i = 0; i < std::min<int>(most[k], static_cast<int>(s.of[k].size())); ++i) out.push_back(s.of[k][i]);
    }
    return out;
  }
  static void Unflatten(Params p, const int* most, State* s) {
    size_t at = 0;
    for (int k = 0; k < kKinds; ++k) {
      for (int i = 0; i < std::min<int>(most[k], static_cast<int>(s->of[k].size())); ++i) s->of[k][i] = p[at++];
    }
  }
  std::vector<Type> Types(const Values& v) const {
    std::vector<Type> out;
    for (ValueId x : v) out.push_back(b_->g->value(x).type);
    return out;
  }

  template <typename F>
  State Loop(const State& s, const int* most, bool rotates, const F& body) {
    State out = s;
    const Values results = b_->Loop(Flat(s, most), [&](Params p) {
      State in = s;
      Unflatten(p, most, &in);
      in = body(in);
      if (rotates) {
        for (int k = 0; k < kKinds; ++k) {
          const int n = std::min<int>(most[k], static_cast<int>(in.of[k].size()));
          if (n > 1) std::rotate(in.of[k].begin(), in.of[k].begin() + 1, in.of[k].begin() + n);
        }
      }
      return Flat(in, most);
    });
    Unflatten(results, most, &out);
    return out;
  }
  template <typename F>
  State If(const State& s, const F& body) {
    State out = s;
    const Values before = Flat(s, count_);
    const Values results = b_->If(Types(before), [&](int k) { return Flat(body(k, s), count_); });
    Unflatten(results, count_, &out);
    return out;
  }
  template <typename F>
  State Surround(Around around, const State& s, const F& body) {
    switch (around) {
      case kLoopAround:
        return Loop(s, count_, false, body);
      case kBranchAround:
        return If(s, [&](int k, const State& in) { return k == 0 ? body(in) : in; });
      case kLoopsAround:
        return Loop(s, count_, true, [&](const State& in) { return Loop(in, count_, false, body); });
      default:
        return body(s);
    }
  }

  void Run(const Statements& all, State* at) {
    for (const Statement& s : all) Run(s, at);
  }
  // A value of long ago: the first, one half way back, one a little back.
  ValueId Far(const Statement& s) const {
    if (made_.empty()) return b_->x;
    const size_t n = made_.size();
    const size_t back[] = {n - 1, n / 2, n / 8, 5, (n * 2654435761u) % n};
    return made_[n - 1 - std::min(n - 1, back[s.c % 5])];
  }

  void Run(const Statement& s, State* at) {
    Builder& b = *b_;
    Values& t = at->of[kTensors];
    ValueId& x = t[s.a % t.size()];
    const ValueId y = t[s.b % t.size()];
    const auto pick = [&](Kind k) -> ValueId* {
      return at->of[k].empty() ? nullptr : &at->of[k][s.c % at->of[k].size()];
    };
    ValueId* const list = pick(kLists);
    ValueId* const lists = pick(kListsOfLists);
    ValueId* const dict = pick(kDicts);
    ValueId* const tuple = pick(kTuples);
    switch (s.what) {
      case kUnary:
        x = Fresh(y);
        break;
      case kBinary:
        x = b.Mul(x, y);
        break;
      case kFreshWritten:
        x = b.AddInPlace(Fresh(x), y);
        break;
      case kWrite:
        b.AddInPlace(x, y);
        break;
      case kWriteRow:
        b.AddInPlace(b.Select(x), y);
        break;
      case kWriteSomeRow:
        b.AddInPlace(b.Op("aten::select.int", {x, b.zero, index_}), y);
        break;
      case kWriteSlice:
        b.AddInPlace(b.Op("aten::slice.Tensor", {x, b.zero, b.zero, b.one, b.one}), y);
        break;
      case kWriteTurned:
        x = b.AddInPlace(b.Op("aten::t", {x}), y);
        break;
      case kView:
        x = b.Op("aten::t", {y});
        break;
      case kRow:
        x = b.Select(y);
        break;
      case kCopy:
        x = y;
        break;
      case kSwap:
        std::swap(x, t[s.b % t.size()]);
        break;
      case kRotate:
        std::rotate(t.begin(), t.begin() + (t.size() > 1 ? 1 : 0), t.end());
        break;
      case kFarRead:
        x = b.Mul(y, Far(s));
        break;
      case kFarWrite:
        b.AddInPlace(Far(s), y);
        break;
      case kFarKeep:
        x = Far(s);
        break;
      case kIf:
      case kIfOrKeep:
        *at = If(*at, [&](int k, State in) {
          if (k == 0 || s.what == kIf) Run(k == 0 ? s.first : s.second, &in);
          return in;
        });
        break;
      case kIfPicks:
        x = b.If([&](int k) { return k == 0 ? x : y; });
        break;
      case kLoop:
      case kLoopRotates:
        *at = Loop(*at, count_, s.what == kLoopRotates, [&](State in) {
          Run(s.first, &in);
          return in;
        });
        break;
      case kLoopOfSome: {
        const int most[kKinds] = {1 + s.b % 3, s.c % 2, 0, 0, s.a % 2};
        *at = Loop(*at, most, s.a % 4 == 0, [&](State in) {
          const State outside = in;
          Run(s.first, &in);
          State out = outside;
          Unflatten(Flat(in, most), most, &out);
          return out;
        });
        break;
      }
      case kNewList:
        if (list != nullptr) *list = b.List({x, y});
        break;
      case kAppend:
        if (list != nullptr) b.ListAppend(*list, x);
        break;
      case kExtend:
        if (list != nullptr) b.Do("aten::extend.t", {*list, at->of[kLists][s.a % at->of[kLists].size()]});
        break;
      case kSetItem:
      case kSetSomeItem: {
        const Type type = TypeOf(kLists);
        if (list != nullptr) b.Op("aten::_set_item.t", {*list, s.what == kSetItem ? b.zero : index_, x}, type);
        break;
      }
      case kGet:
        if (list != nullptr) x = b.GetItem(*list, b.zero);
        break;
      case kGetSome:
        if (list != nullptr) x = b.GetItem(*list, index_);
        break;
      case kGetWrite:
        if (list != nullptr) b.AddInPlace(b.GetItem(*list, b.one), y);
        break;
      case kPop:
        if (list != nullptr) x = b.Op("aten::pop.t", {*list, index_});
        break;
      case kConcat:
        if (list != nullptr) *list = b.Op("aten::add.t", {*list, b.List({x})}, TypeOf(kLists));
        break;
      case kUnpackList:
        if (list != nullptr) {
          const NodeId open =
              b.g->Append(b.block, OpName::Get("prim::ListUnpack"), {*list}, {Type::Tensor(), Type::Tensor()});
          t[s.a % t.size()] = b.g->node(open).outputs[0];
          t[s.b % t.size()] = b.g->node(open).outputs[1];
        }
        break;
      case kWriteList:
        if (list != nullptr) b.Do("aten::_foreach_neg_", {*list});
        break;
      case kJoinList:
        if (list != nullptr) x = b.Cat(*list);
        break;
      case kAppendList:
        if (lists != nullptr && list != nullptr) b.ListAppend(*lists, *list);
        break;
      case kGetList:
        if (lists != nullptr && list != nullptr) *list = b.GetItem(*lists, index_);
        break;
      case kSetKey:
        if (dict != nullptr) b.Do("aten::_set_item.int", {*dict, index_, x});
        break;
      case kGetKey:
        if (dict != nullptr) x = b.Op("aten::__getitem__.Dict_int", {*dict, index_});
        break;
      case kPackTuple:
        if (tuple != nullptr) *tuple = Pack(x, list != nullptr ? *list : b.List({y}));
        break;
      case kOpenTuple:
        if (tuple != nullptr) {
          const NodeId open =
              b.g->Append(b.block, OpName::Get("prim::TupleUnpack"), {*tuple}, {Type::Tensor(), TypeOf(kLists)});
          x = b.g->node(open).outputs[0];
          if (list != nullptr) *list = b.g->node(open).outputs[1];
        }
        break;
      case kCall:
        x = b.Op("prim::CallFunction", {function_, x, y});
        break;
      case kCallList:
        if (list != nullptr) x = b.Op("prim::CallFunction", {function_, *list, y});
        break;
      case kUnknown:
        if (s.c % 4 == 0) x = b.Op("mine::unknown", {x});
        break;
      case kHowMany:
        break;
    }
  }

  // Ends the graph with the values that were made outside of blocks.
  Values Finish(State* s) {
    Builder& b = *b_;
    Values all = made_;
    const Values flat = Flat(*s, count_);
    all.insert(all.end(), s->of[kTensors].begin(), s->of[kTensors].end());
    switch (end_) {
      case kReturnOne:
        return {flat[0]};
      case kReturnAll:
        all.insert(all.end(), flat.begin(), flat.end());
        return all;
      case kWriteAll:
        for (ValueId v : all) b.AddInPlace(v, b.y);
        return flat;
      case kListAll: {
        const ValueId list = b.List(all);
        for (size_t i = 0; i < all.size(); ++i) b.AddInPlace(b.GetItem(list, i % 2 == 0 ? b.zero : index_), b.y);
        return {list};
      }
      case kCallEach:
        for (ValueId v : all) b.Op("prim::CallFunction", {function_, v});
        return flat;
      case kLoopAll:
        return b.Loop(all, [&](Params p) {
          Values out(p.begin(), p.end());
          for (size_t i = 0; i < out.size(); i += 2) out[i] = b.AddInPlace(out[i], p[(i + 1) % p.size()]);
          std::rotate(out.begin(), out.begin() + 1, out.end());
          return out;
        });
      default:
        return {};
    }
  }

  std::mt19937_64 rng_;
  int count_[kKinds];
  Around around_;
  End end_;
  int deep_;
  bool calls_;
  Statements program_;
  // While a graph is made.
  Builder* b_ = nullptr;
  ValueId function_, index_;
  Values made_;  // outside of blocks
};

}  // namespace

Family RandomFamily(uint64_t seed) {
  return {absl::StrCat("random_", seed), [seed](int64_t nodes) { return RandomProgram(seed).Make(nodes); }};
}

}  // namespace smelt
