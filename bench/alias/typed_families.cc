// Families whose variables have types drawn from a seed: containers in containers, optional values, objects. A seed
// also decides the statements of a tile. A family repeats its tile, so it has the same shape at any size.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "smelt/bench/alias/builder.h"
#include "smelt/bench/alias/families.h"

namespace smelt {

namespace {

using Values = std::vector<ValueId>;
using Params = absl::Span<const ValueId>;

class TypedProgram {
 public:
  explicit TypedProgram(uint64_t seed) : seed_(seed), rng_(seed) {
    static constexpr int kVariables[] = {1, 2, 3, 3, 4, 4, 6, 6, 8, 12, 16, 32, 64};
    deep_ = Below(4);
    const int variables = kVariables[Below(13)], how_many_types = 1 + Below(4);
    std::vector<Type> types = {Type::Tensor()};
    for (int i = 0; i < how_many_types; ++i) types.push_back(RandomType(deep_));
    types_.push_back(Type::Tensor());
    for (int i = 1; i < variables; ++i) types_.push_back(types[Below(static_cast<int>(types.size()))]);
    statements_ = 2 + Below(9);
    nested_ = Below(5);
    around_ = Below(8);
    end_ = Below(6);
    calls_ = Below(3) == 0;
    geometry_ = Below(8) == 0;
    far_ = Below(2) == 0;
  }

  std::unique_ptr<Graph> Make(int64_t nodes) {
    Builder b;
    b_ = &b;
    b.WithLoops();
    index_ = b.g->AddInput("i", Type::Int());
    self_ = b.g->AddInput("self", Type::Class("Cell"));
    function_ = b.g->node(b.g->InsertBefore(b.g->block(b.g->top()).first, OpName::Get("prim::Constant"), {},
                                            {Type::Class("Function")}, {{"name", std::string("f")}}))
                    .outputs[0];
    made_.clear();
    all_.clear();
    rng_.seed(seed_ + 1);
    Values at;
    for (const Type& t : types_) at.push_back(Construct(t, {}));
    const auto tiles = [&](Values v) {
      while (b.g->num_nodes() < (end_ < 3 ? nodes : nodes * 2 / 3)) {
        rng_.seed(seed_ + 2);
        Run(statements_, 0, &v);
        v[0] = b.Relu(v[0]);
      }
      return v;
    };
    Values ends = around_ == 0   ? Loop(at, false, tiles)
                  : around_ == 1 ? If(at, [&](int k, Values v) { return k == 0 ? tiles(std::move(v)) : v; })
                  : around_ == 2 ? Loop(at, true, [&](Values v) { return Loop(v, false, tiles); })
                                 : tiles(at);
    Finish(&ends);
    for (ValueId v : ends) b.g->AddOutput(v);
    return std::move(b.g);
  }

 private:
  int Below(int n) { return static_cast<int>(rng_() % static_cast<uint64_t>(n)); }

  Type RandomType(int depth) {
    if (depth == 0) return Type::Tensor();
    switch (Below(7)) {
      case 0:
      case 1:
        return Type::List(RandomType(depth - 1));
      case 2:
        return Type::Dict(Type::Int(), RandomType(depth - 1));
      case 3:
        return Type::Tuple({RandomType(depth - 1), RandomType(depth - 1)});
      case 4:
        return Type::Optional(RandomType(depth - 1).kind() == TypeKind::kList ? Type::List(Type::Tensor())
                                                                              : Type::Tensor());
      case 5:
        return Type::Class("Cell");
      default:
        return Type::Tensor();
    }
  }

  ValueId Node(const char* op, absl::Span<const ValueId> inputs, Type type, const char* name) {
    return b_->g
        ->node(b_->g->Append(b_->block, OpName::Get(op), inputs, {std::move(type)}, {{"name", std::string(name)}}))
        .outputs[0];
  }

  // A value of the type: new, or an element of what there is, or what a call returns.
  ValueId Construct(const Type& t, const Values& at) {
    Builder& b = *b_;
    switch (t.kind()) {
      case TypeKind::kList: {
        Values elements;
        for (int i = Below(3); i >= 0; --i) elements.push_back(Take(t.element(), at));
        return b.Op("prim::ListConstruct", elements, t);
      }
      case TypeKind::kDict:
        return b.Op("prim::DictConstruct", {b.zero, Take(t.elements()[1], at)}, t);
      case TypeKind::kTuple:
        return b.Op("prim::TupleConstruct", {Take(t.elements()[0], at), Take(t.elements()[1], at)}, t);
      case TypeKind::kOptional:
        return b.If({t},
                    [&](int k) { return Values{k == 0 ? Take(t.element(), at) : b.Op("prim::Constant", {}, t)}; })[0];
      case TypeKind::kClass:
        return b.Op("prim::CreateObject", {}, t);
      default:
        break;
    }
    const ValueId made = b.Relu(b.x);
    if (b.block == b.g->top()) made_.push_back(made);
    return made;
  }
  // An existing value of the type, or an element of an existing one; else a new one.
  ValueId Take(const Type& t, const Values& at) {
    Builder& b = *b_;
    const int start = Below(64), how = Below(3);
    if (far_ && how == 2 && t.IsTensor() && !made_.empty()) {
      const size_t n = made_.size();
      const size_t back[] = {n - 1, n / 2, n / 8, 5};
      return made_[n - 1 - std::min(n - 1, back[Below(4)])];
    }
    for (size_t i = 0; i < at.size(); ++i) {
      const ValueId v = at[(i + start) % at.size()];
      const Type& type = b.g->value(v).type;
      if (type == t && how != 0) return v;
      if (type.kind() == TypeKind::kList && type.element() == t) return b.GetItem(v, Index());
      if (type.kind() == TypeKind::kDict && type.elements()[1] == t) {
        return b.Op("aten::__getitem__.Dict_int", {v, Index()}, t);
      }
      if (type.kind() == TypeKind::kTuple && (type.elements()[0] == t || type.elements()[1] == t)) {
        return b.Op("prim::TupleIndex", {v, type.elements()[0] == t ? b.zero : b.one}, t);
      }
      if (type.kind() == TypeKind::kOptional && type.element() == t) {
        return b.Op("prim::unchecked_unwrap_optional", {v}, t);
      }
      if (type.kind() == TypeKind::kClass && type != t) return Node("prim::GetAttr", {v}, t, Below(2) == 0 ? "p" : "q");
    }
    return Construct(t, at);
  }
  ValueId Index() {
    const int which = Below(3);
    return which == 0 ? b_->zero : which == 1 ? b_->one : index_;
  }

  ValueId View(ValueId v) {
    Builder& b = *b_;
    switch (Below(8)) {
      case 0:
        return b.Op("aten::t", {v});
      case 1:
        return b.Op("aten::select.int", {v, b.zero, Index()});
      case 2:
        return b.Op("aten::slice.Tensor", {v, b.zero, Index(), b.one, b.one});
      case 3:
        return b.Op("aten::unsqueeze", {v, b.zero});
      case 4:
        return b.GetItem(b.Op("aten::unbind.int", {v, b.zero}, Type::List(Type::Tensor())), Index());
      case 5:
        return b.GetItem(b.Op("aten::chunk", {v, b.one, b.zero}, Type::List(Type::Tensor())), Index());
      case 6:
        return b.Op("aten::detach", {v});
      default:
        return v;
    }
  }

  template <typename F>
  Values Loop(const Values& v, bool rotates, const F& body) {
    return b_->Loop(v, [&](Params p) {
      Values out = body(Values(p.begin(), p.end()));
      if (rotates) Permute(&out);
      return out;
    });
  }
  template <typename F>
  Values If(const Values& v, const F& body) {
    std::vector<Type> types;
    for (ValueId x : v) types.push_back(b_->g->value(x).type);
    return b_->If(types, [&](int k) { return body(k, v); });
  }
  // Each type's variables change places.
  void Permute(Values* v) {
    for (size_t i = 0; i < v->size(); ++i) {
      for (size_t k = i + 1; k < v->size(); ++k) {
        if (b_->g->value((*v)[i]).type == b_->g->value((*v)[k]).type) {
          std::swap((*v)[i], (*v)[k]);
          break;
        }
      }
    }
  }

  // Stores a value into the container.
  void Put(ValueId holder, const Values& at) {
    Builder& b = *b_;
    const Type type = b.g->value(holder).type;
    switch (type.kind()) {
      case TypeKind::kList: {
        const int how = Below(4);
        if (how == 0) {
          b.Do("aten::extend.t", {holder, Take(type, at)});
        } else if (how == 1) {
          b.Op("aten::_set_item.t", {holder, Index(), Take(type.element(), at)}, type);
        } else {
          b.ListAppend(holder, Take(type.element(), at));
        }
        break;
      }
      case TypeKind::kDict:
        b.Do("aten::_set_item.int", {holder, Index(), Take(type.elements()[1], at)});
        break;
      case TypeKind::kClass:
        b.g->Append(b.block, OpName::Get("prim::SetAttr"), {holder, Take(Type::Tensor(), at)}, {},
                    {{"name", std::string(Below(2) == 0 ? "p" : "q")}});
        break;
      default:
        break;
    }
  }

  void Run(int statements, int depth, Values* at) {
    Builder& b = *b_;
    for (int i = 0; i < statements; ++i) {
      const int what = Below(17);
      ValueId& x = (*at)[Below(static_cast<int>(at->size()))];
      const Type type = b.g->value(x).type;
      const bool nests = depth < nested_;
      const int size = 1 + Below(4);
      switch (what) {
        case 0:
          x = Construct(type, *at);
          break;
        case 1:
        case 2:
          x = Take(type, *at);
          break;
        case 3:
          b.AddInPlace(Take(Type::Tensor(), *at), (*at)[0]);
          break;
        case 4:
          b.AddInPlace(View(View(Take(Type::Tensor(), *at))), (*at)[0]);
          break;
        case 5:
          if (type.IsTensor()) x = View(Take(type, *at));
          break;
        case 6:
          if (type.IsTensor()) x = b.AddInPlace(b.Mul(x, Take(type, *at)), x);
          break;
        case 7:
        case 8:
          Put(x, *at);
          break;
        case 9:
          Permute(at);
          break;
        case 10:
          if (nests) {
            *at = If(*at, [&](int k, Values v) {
              Run(k == 0 ? size : size / 2, depth + 1, &v);
              return v;
            });
          }
          break;
        case 11:
        case 12:
          if (nests) {
            *at = Loop(*at, what == 11, [&](Values v) {
              Run(size, depth + 1, &v);
              return v;
            });
          }
          break;
        case 13:
          if (nests) {  // some of the variables, the others from outside
            const size_t begin = Below(static_cast<int>(at->size())), end = begin + 1 + (at->size() - begin - 1) / 2;
            const Values some(at->begin() + begin, at->begin() + end);
            const auto body = [&](Values v) {
              Values in = *at;
              std::copy(v.begin(), v.end(), in.begin() + begin);
              Run(size, depth + 1, &in);
              return Values(in.begin() + begin, in.begin() + end);
            };
            const Values out = size % 2 == 0 ? Loop(some, false, body)
                                             : If(some, [&](int k, Values v) { return k == 0 ? v : body(v); });
            std::copy(out.begin(), out.end(), at->begin() + begin);
          }
          break;
        case 14:
          if (calls_) x = b.Op("prim::CallFunction", {function_, x, Take(Type::Tensor(), *at)}, type);
          break;
        case 15:
          if (calls_ && size == 1) {
            x = Node("prim::GetAttr", {self_}, type, "r");
          } else if (type.IsTensor()) {
            x = b.If([&](int k) { return k == 0 ? x : Take(type, *at); });
          }
          break;
        default:
          if (geometry_ && type.IsTensor()) {
            size % 2 == 0 ? b.Op("aten::t_", {x}) : b.Op("aten::set_.source_Tensor", {x, Take(type, *at)});
          }
          break;
      }
      if (depth == 0) all_.push_back((*at)[0]);
    }
  }

  void Finish(Values* ends) {
    Builder& b = *b_;
    if (end_ < 3 || around_ < 3) return;
    if (end_ == 3) {
      for (ValueId v : all_) b.AddInPlace(v, b.y);
    } else if (end_ == 4) {
      const ValueId list = b.List(all_);
      for (size_t i = 0; i < all_.size(); ++i) b.AddInPlace(b.GetItem(list, Index()), b.y);
      ends->push_back(list);
    } else {
      ends->insert(ends->end(), all_.begin(), all_.end());
    }
  }

  const uint64_t seed_;
  std::mt19937_64 rng_;
  std::vector<Type> types_;
  int deep_, statements_, nested_, around_, end_;
  bool calls_, geometry_, far_;
  // While a graph is made.
  Builder* b_ = nullptr;
  ValueId function_, index_, self_;
  Values made_, all_;  // outside of blocks
};

}  // namespace

Family TypedFamily(uint64_t seed) {
  return {absl::StrCat("typed_", seed), [seed](int64_t nodes) { return TypedProgram(seed).Make(nodes); }};
}

}  // namespace smelt
