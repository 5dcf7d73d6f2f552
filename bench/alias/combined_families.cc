// Families written by hand in which several things meet: containers that loops and branches carry and merge, calls that
// take them, writes through views of their elements, deep nesting, and views of views with bounds that are not known.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "smelt/bench/alias/builder.h"
#include "smelt/bench/alias/families.h"

namespace smelt {

namespace {

using Values = std::vector<ValueId>;
using Params = absl::Span<const ValueId>;

const Type kList = Type::List(Type::Tensor());
const Type kListOfLists = Type::List(kList);

Values Copy(Params p) { return Values(p.begin(), p.end()); }
Values Rotated(Values v) {
  std::rotate(v.begin(), v.begin() + (v.empty() ? 0 : 1), v.end());
  return v;
}
std::vector<Type> TypesOf(const Builder& b, const Values& v) {
  std::vector<Type> out;
  for (ValueId x : v) out.push_back(b.g->value(x).type);
  return out;
}
ValueId Function(Builder& b) { return b.Op("prim::Constant", {}, Type::Class("Function")); }
// A loop without values, for its effects.
template <typename F>
void Repeat(Builder& b, const F& body) {
  b.Loop({}, [&](Params) {
    body();
    return Values();
  });
}

// Each view begins somewhere in the one before it.
std::unique_ptr<Graph> SlicesOfSlices(int64_t nodes) {
  Builder b;
  ValueId at = b.g->AddInput("i", Type::Int()), v = b.Relu(b.x);
  for (int64_t i = 0; i < nodes / 3; ++i) {
    at = b.Op("aten::add.int", {at, b.one}, Type::Int());
    v = b.Op("aten::slice.Tensor", {v, b.zero, at, b.Constant(std::monostate()), b.one});
    if (i % 4 == 0) b.AddInPlace(v, b.y);
  }
  return b.Return(v);
}

// The pieces of one tensor whose sizes are known, each of them written.
std::unique_ptr<Graph> ManyPieces(int64_t nodes) {
  Builder b;
  const int64_t rows = nodes / 3;
  const ValueId whole = b.g->AddInput("w", Type::Tensor(DType::kFloat32, {Expr(rows), Expr(4)}));
  const ValueId all = b.Op("aten::unbind.int", {whole, b.zero}, kList);
  for (int64_t i = 0; i < rows; ++i) b.AddInPlace(b.GetItem(all, b.Constant(i)), b.y);
  return b.Return(whole);
}

// Loops that carry lists, which change places, and of which one grows and one is written.
template <int kCarried>
std::unique_ptr<Graph> RotatingLists(int64_t nodes) {
  Builder b;
  b.WithLoops();
  Values lists;
  for (int k = 0; k < kCarried; ++k) lists.push_back(b.List({b.Relu(b.x)}));
  for (int64_t i = 0; i < nodes / (kCarried + 8); ++i) {
    lists = b.Loop(lists, [&](Params p) {
      b.ListAppend(p[0], b.Mul(b.x, b.y));
      b.AddInPlace(b.Select(b.GetItem(p[p.size() / 2], b.zero)), b.y);
      return Rotated(Copy(p));
    });
  }
  return b.Return(lists[0]);
}

std::unique_ptr<Graph> CallsWithCarriedLists(int64_t nodes) {
  Builder b;
  b.WithLoops();
  const ValueId f = Function(b);
  Values v = {b.Relu(b.x), b.Relu(b.y), b.List({b.Relu(b.x)}), b.List({b.Relu(b.y)})};
  while (b.g->num_nodes() < nodes) {
    v = b.Loop(v, [&](Params p) {
      const ValueId r = b.Op("prim::CallFunction", {f, p[2], p[0]});
      b.ListAppend(p[3], r);
      b.AddInPlace(b.GetItem(p[2], b.zero), r);
      return Values{p[1], r, p[3], p[2]};
    });
  }
  return b.Return(v[0]);
}

// Branches that return one list or the other, and sometimes a new one.
std::unique_ptr<Graph> MergesOfLists(int64_t nodes) {
  Builder b;
  Values v = {b.List({b.Relu(b.x)}), b.List({b.Relu(b.y)})};
  for (int64_t i = 0; b.g->num_nodes() < nodes; ++i) {
    v = b.If({kList, kList}, [&](int k) {
      b.ListAppend(v[k], b.Mul(b.x, b.y));
      return k == 0 ? v : Values{v[1], i % 3 == 0 ? b.List({b.GetItem(v[0], b.zero)}) : v[0]};
    });
    b.AddInPlace(b.Op("aten::t", {b.GetItem(v[0], b.one)}), b.y);
  }
  return b.Return(v[0]);
}

// Lists in lists and in dictionaries, filled and read in loops, with writes through views of the elements.
std::unique_ptr<Graph> NestedContainersInLoops(int64_t nodes) {
  Builder b;
  b.WithLoops();
  const ValueId some = b.g->AddInput("i", Type::Int());
  const ValueId lists = b.Op("prim::ListConstruct", {b.List({b.Relu(b.x)})}, kListOfLists);
  const ValueId dict = b.Op("prim::DictConstruct", {}, Type::Dict(Type::Int(), kList));
  while (b.g->num_nodes() < nodes) {
    const Values v = b.Loop({b.List({b.x})}, [&](Params p) {
      const ValueId list = b.GetItem(lists, some);
      b.ListAppend(list, b.Relu(b.GetItem(p[0], b.zero)));
      b.Do("aten::_set_item.int", {dict, some, list});
      const ValueId held = b.Op("aten::__getitem__.Dict_int", {dict, b.one}, kList);
      b.AddInPlace(b.Select(b.GetItem(held, some)), b.y);
      return Values{held};
    });
    b.ListAppend(lists, v[0]);
  }
  return b.Return(lists);
}

// Branches in loops in branches, with values that change places at each level.
template <int kDepth, int kCarried>
std::unique_ptr<Graph> DeepMixture(int64_t nodes) {
  Builder b;
  b.WithLoops();
  Values v = {b.List({b.Relu(b.x)})};
  for (int k = 0; k < kCarried; ++k) v.push_back(b.Relu(b.x));
  auto level = [&](auto& self, int depth, const Values& in) -> Values {
    b.AddInPlace(in[1], b.y);
    if (depth == 0) return in;
    const auto inside = [&](Values p) {
      p[1 + depth % kCarried] = depth % 3 == 0 ? b.GetItem(p[0], b.zero) : b.Select(p[1]);
      b.ListAppend(p[0], p[1]);
      Values out = self(self, depth - 1, p);
      std::rotate(out.begin() + 1, out.begin() + 2, out.end());
      return out;
    };
    if (depth % 2 == 0) return b.Loop(in, [&](Params p) { return inside(Copy(p)); });
    return b.If(TypesOf(b, in), [&](int k) { return k == 0 ? in : inside(in); });
  };
  while (b.g->num_nodes() < nodes) v = level(level, kDepth, v);
  return b.Return(v[1]);
}

// Objects with attributes that loops set and get, some of them by methods.
std::unique_ptr<Graph> ObjectsInLoops(int64_t nodes) {
  Builder b;
  b.WithLoops();
  const auto get = [&](ValueId self) {
    return b.g
        ->node(b.g->Append(b.block, OpName::Get("prim::GetAttr"), {self}, {Type::Tensor()},
                           {{"name", std::string("state")}}))
        .outputs[0];
  };
  ValueId v = b.Relu(b.x);
  while (b.g->num_nodes() < nodes) {
    const ValueId self = b.Op("prim::CreateObject", {}, Type::Class("Cell"));
    v = b.Loop({v}, [&](Params p) {
      b.g->Append(b.block, OpName::Get("prim::SetAttr"), {self, p[0]}, {}, {{"name", std::string("state")}});
      const ValueId r = b.g->node(b.g->Append(b.block, OpName::Get("prim::CallMethod"), {self, p[0]}, {Type::Tensor()},
                                              {{"name", std::string("step")}}))
                            .outputs[0];
      b.AddInPlace(get(self), r);
      return Values{get(self)};
    })[0];
  }
  return b.Return(v);
}

// Every loop fills a list of the loop before it, and writes rows of what it finds there.
std::unique_ptr<Graph> RowsOfListElements(int64_t nodes) {
  Builder b;
  b.WithLoops();
  const ValueId some = b.g->AddInput("i", Type::Int());
  ValueId list = b.List({b.Relu(b.x)});
  while (b.g->num_nodes() < nodes) {
    const ValueId next = b.List({});
    Repeat(b, [&] {
      const ValueId e = b.GetItem(list, some);
      for (int k = 0; k < 4; ++k) {
        b.AddInPlace(b.Op("aten::select.int", {e, b.zero, b.Constant(int64_t{k})}), b.y);
      }
      b.If({}, [&](int k) {
        b.ListAppend(next, k == 0 ? b.Op("aten::t", {e}) : b.Mul(e, b.y));
        return Values();
      });
    });
    list = next;
  }
  return b.Return(list);
}

// Geometries change in loops, and views are taken before and after.
std::unique_ptr<Graph> GeometryChangesInLoops(int64_t nodes) {
  Builder b;
  b.WithLoops();
  Values v = {b.Relu(b.x), b.Relu(b.y), b.Relu(b.y)};
  while (b.g->num_nodes() < nodes) {
    v = b.Loop(v, [&](Params p) {
      const ValueId row = b.Select(p[0]);
      b.Op("aten::t_", {p[1]});
      b.AddInPlace(row, b.Select(p[1]));
      return Values{p[1], p[2], row};
    });
  }
  return b.Return(v[0]);
}

// Pointwise chains between which rows of one base are written: a group must not move past them.
std::unique_ptr<Graph> GroupsBetweenWrites(int64_t nodes) {
  Builder b;
  const ValueId base = b.Relu(b.x);
  Values columns(16, b.y);
  for (int64_t i = 0; b.g->num_nodes() < nodes; ++i) {
    ValueId& v = columns[i * 7 % 16];
    v = b.Mul(b.Relu(v), b.Select(base));
    if (i % 4 == 0) b.AddInPlace(b.Op("aten::select.int", {base, b.zero, b.zero}), v);
  }
  return b.Return(b.Cat(b.List(columns)));
}

// Branches choose among `all`, in a balanced tree.
ValueId AnyOf(Builder& b, const Values& all) {
  Values level = all;
  while (level.size() > 1) {
    Values next;
    for (size_t i = 0; i + 1 < level.size(); i += 2) {
      next.push_back(b.If([&](int k) { return level[i + k]; }));
    }
    if (level.size() % 2 != 0) next.push_back(level.back());
    level = std::move(next);
  }
  return level[0];
}

// Writes of values that may be any of many tensors.
std::unique_ptr<Graph> WritesOfJoins(int64_t nodes) {
  constexpr int kMany = 24;
  Builder b;
  while (b.g->num_nodes() < nodes) {
    Values all;
    for (int i = 0; i < kMany; ++i) all.push_back(b.Relu(b.x));
    ValueId any = AnyOf(b, all);
    for (int i = 0; i < 10 * kMany; ++i) any = b.AddInPlace(any, b.y);
  }
  return b.Return(b.x);
}

// The same through views of them. Reads of the views take part, too.
std::unique_ptr<Graph> WritesOfViewsOfJoins(int64_t nodes) {
  constexpr int kMany = 24;
  Builder b;
  while (b.g->num_nodes() < nodes) {
    Values all, views;
    for (int i = 0; i < kMany; ++i) all.push_back(b.Relu(b.x));
    const ValueId any = AnyOf(b, all);
    for (int i = 0; i < kMany; ++i) views.push_back(b.Op("aten::t", {any}));
    const ValueId any_view = AnyOf(b, views);
    for (int i = 0; i < 10 * kMany; ++i) b.AddInPlace(any_view, any_view);
  }
  return b.Return(b.x);
}

// Writes of values that may be any of many tensors: each of other ones, which overlap those of the one before.
std::unique_ptr<Graph> WritesOfWindowsOfTensors(int64_t nodes) {
  constexpr size_t kMany = 12;
  Builder b;
  Values all;
  while (b.g->num_nodes() < nodes) {
    all.push_back(b.Relu(b.x));
    if (all.size() < kMany) continue;
    b.AddInPlace(AnyOf(b, Values(all.end() - kMany, all.end())), b.y);
  }
  return b.Return(b.x);
}

// Each call takes many values, and returns one of them for the next.
std::unique_ptr<Graph> CallsWithManyArguments(int64_t nodes) {
  constexpr int kMany = 16;
  Builder b;
  const ValueId f = Function(b);
  Values all = {f};
  for (int i = 0; i < kMany; ++i) all.push_back(b.Relu(b.x));
  for (int64_t i = 0; i < nodes / 3; ++i) {
    ValueId& v = all[1 + i % kMany];
    v = b.Op("prim::CallFunction", all);
    b.AddInPlace(v, b.Relu(b.y));
  }
  return b.Return(all[1]);
}

}  // namespace

std::vector<Family> CombinedFamilies() {
  return {
      {"slices_of_slices", SlicesOfSlices},
      {"many_pieces", ManyPieces},
      {"rotating_lists_2", RotatingLists<2>},
      {"rotating_lists_16", RotatingLists<16>},
      {"rotating_lists_64", RotatingLists<64>},
      {"calls_with_carried_lists", CallsWithCarriedLists},
      {"merges_of_lists", MergesOfLists},
      {"nested_containers_in_loops", NestedContainersInLoops},
      {"deep_mixture_12_5", DeepMixture<12, 5>},
      {"deep_mixture_200_2", DeepMixture<200, 2>},
      {"objects_in_loops", ObjectsInLoops},
      {"rows_of_list_elements", RowsOfListElements},
      {"geometry_changes_in_loops", GeometryChangesInLoops},
      {"groups_between_writes", GroupsBetweenWrites},
      {"writes_of_joins", WritesOfJoins},
      {"writes_of_views_of_joins", WritesOfViewsOfJoins},
      {"writes_of_windows_of_tensors", WritesOfWindowsOfTensors},
      {"calls_with_many_arguments", CallsWithManyArguments},
  };
}

}  // namespace smelt
