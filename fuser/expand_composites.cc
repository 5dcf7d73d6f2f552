#include "smelt/fuser/expand_composites.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/decompose.h"
#include "smelt/core/op/emit.h"
#include "smelt/core/op/op_info.h"
#include "smelt/fuser/expander.h"
#include "smelt/fuser/lower_group.h"

namespace smelt {
namespace {

constexpr int kMaxSteps = 100000;  // from one node: a decomposition that does not end is a bug

<<<<<<< HEAD
=======
class Expander {
 public:
  explicit Expander(Graph& g) : g_(g) {}

  absl::Status Run() {
    SMELT_RETURN_IF_ERROR(ExpandBlock(g_.top()));
    if (has_cats_) {
      // Their readers are what they will be.
      readers_known_ = true;
      unsupported_.clear();
      SMELT_RETURN_IF_ERROR(ExpandBlock(g_.top()));
    }
    if (!unsupported_.empty()) {
      std::vector<std::string> lines;
      for (const auto& [op, places] : unsupported_) {
        std::string line = absl::StrCat(op, " (", places.count, places.count == 1 ? " time" : " times");
        if (!places.sources.empty()) absl::StrAppend(&line, ": ", absl::StrJoin(places.sources, ", "));
        if (places.count > static_cast<int>(places.sources.size()) && !places.sources.empty())
          absl::StrAppend(&line, ", ...");
        absl::StrAppend(&line, ")");
        if (!places.reason.empty()) absl::StrAppend(&line, ": ", places.reason);
        lines.push_back(std::move(line));
      }
      return absl::UnimplementedError(absl::StrCat("unsupported operators: ", absl::StrJoin(lines, "; ")));
    }
    for (NodeId n : g_.AllNodes()) {
      if (g_.node(n).op == "smelt::view") LookThroughCopy(n);
    }
    EraseDeadNodes(g_);
    return absl::OkStatus();
  }

 private:
  enum class Step { kKeep, kChanged, kUnsupported };
  struct Places {
    int count = 0;
    std::vector<std::string> sources;  // the first few
    std::string reason;
  };

  absl::Status ExpandBlock(BlockId b) {
    NodeId n = g_.block(b).first;
    int steps = 0;
    NodeId last_kept;
    while (n.valid()) {
      const NodeId prev = g_.node(n).prev;
      source_ = g_.node(n).source;
      absl::StatusOr<Step> step = ExpandNode(n);
      if (!step.ok()) {
        if (!absl::IsUnimplemented(step.status())) return At(n, step.status());
        AddUnsupported(n, step.status().message());
        step = Step::kKeep;
      }
      if (*step == Step::kChanged) {
        if (++steps > kMaxSteps) return absl::InternalError("the expansion of an operator does not end");
        // What replaced the node stands between `prev` and what followed.
        n = prev.valid() && g_.IsLive(prev) ? g_.node(prev).next : g_.block(b).first;
        continue;
      }
      if (*step == Step::kUnsupported) AddUnsupported(n, "");
      steps = 0;
      const std::vector<BlockId> blocks(g_.node(n).blocks.begin(), g_.node(n).blocks.end());
      for (BlockId inner : blocks) SMELT_RETURN_IF_ERROR(ExpandBlock(inner));
      n = g_.node(n).next;
    }
    return absl::OkStatus();
  }

  absl::Status At(NodeId n, const absl::Status& s) const {
    if (!g_.IsLive(n)) return s;
    const Node& node = g_.node(n);
    std::string where = node.op.full();
    if (node.source != nullptr) absl::StrAppend(&where, " (", node.source->ToString(), ")");
    return Annotate(s, where);
  }
  void AddUnsupported(NodeId n, absl::string_view reason) {
    if (!g_.IsLive(n)) return;
    const Node& node = g_.node(n);
    Places& p = unsupported_[node.op.full()];
    ++p.count;
    if (p.reason.empty()) p.reason = std::string(reason);
    if (node.source != nullptr && p.sources.size() < 5) {
      const std::string s = node.source->ToString();
      if (!s.empty() && std::find(p.sources.begin(), p.sources.end(), s) == p.sources.end()) p.sources.push_back(s);
    }
  }

  const TensorType& T(ValueId v) const { return g_.value(v).type.tensor(); }
  ValueId Out(NodeId n) const { return g_.node(n).outputs[0]; }

  void ReplaceWith(NodeId n, ValueId v) {
    g_.ReplaceAllUses(Out(n), v);
    g_.Erase(n);
  }

  // No kernel knows complex numbers: each becomes two real ones.
  absl::StatusOr<bool> ExpandComplex(NodeId n) {
    const std::string& name = g_.node(n).op.name();
    if (absl::StartsWith(name, "aten::")) {
      return GetOpInfo(g_.node(n).op).kind == OpKind::kView ? false : DecomposeComplex(g_, n);
    }
    const bool region = name == "smelt::write_region";
    if (!region && name != "smelt::materialize") return false;
    const ValueId value = g_.node(n).inputs[region ? 1 : 0];
    if (!IsComplex(*T(value).dtype)) return false;
    Emit e(g_, n);
    const ValueId real = e.Op("aten::view_as_real", {value});
    if (!e.ok()) return e.status();
    auto doubled = [](std::vector<Expr> v, const Expr& last) {
      for (Expr& x : v) x = x * 2;
      v.push_back(last);
      return v;
    };
    std::vector<Expr> strides = doubled(std::get<std::vector<Expr>>(*g_.node(n).FindAttribute("strides")), 1);
    if (region) {
      SymbolicGeometry where = RegionGeometry(g_.node(n));
      where.sizes.push_back(2);
      g_.SetAttribute(n, "sizes", where.sizes);
      g_.SetAttribute(n, "strides", strides);
      g_.SetAttribute(n, "offset", where.offset * 2);
      g_.SetAttribute(n, "dtype", ScalarTypeOf(*e.TypeOf(real).dtype));
      g_.SetInput(n, 1, real);
      return true;
    }
    const TensorType& t = e.TypeOf(real);
    NodeId copy =
        g_.InsertBefore(n, OpName::Get("smelt::materialize"), {real}, {Type::Tensor(*t.dtype, *t.sizes, strides)});
    g_.SetAttribute(copy, "strides", strides);
    g_.SetSource(copy, g_.node(n).source);
    const ValueId out = e.Op("aten::view_as_complex", {g_.node(copy).outputs[0]});
    if (!e.ok()) return e.status();
    ReplaceWith(n, out);
    return true;
  }

  absl::StatusOr<Step> ExpandNode(NodeId n) {
    const OpName op = g_.node(n).op;
    const std::string& name = op.name();
    if (name == "smelt::view") return ShortenView(n);
    if (HasComplexNumbers(g_, n)) {
      SMELT_ASSIGN_OR_RETURN(bool changed, ExpandComplex(n));
      if (changed) return Step::kChanged;
    }
    if (name == "prim::ListUnpack") {
      std::optional<std::vector<ValueId>> elements = GetListElements(g_, g_.node(n).inputs[0]);
      if (!elements || elements->size() != g_.node(n).outputs.size()) return Step::kKeep;
      for (size_t i = 0; i < elements->size(); ++i) g_.ReplaceAllUses(g_.node(n).outputs[i], (*elements)[i]);
      g_.Erase(n);
      return Step::kChanged;
    }
    if (absl::StartsWith(name, "prim::") || absl::StartsWith(name, "smelt::")) return Step::kKeep;
    if (name == "aten::_assert_async" || name == "aten::_assert_scalar") return Step::kKeep;
    if (name == "aten::cat" || name == "aten::stack" || name == "aten::concat" || name == "aten::concatenate") {
      has_cats_ = true;
      return readers_known_ && !IsReadByKernels(n) ? Cat(n) : Step::kKeep;
    }
    if (name == "aten::clone" || name == "aten::contiguous" || name == "aten::lift_fresh_copy" ||
        name == "aten::alias_copy" || name == "aten::detach_copy") {
      return Copy(n);
    }
    if (name == "aten::select_scatter" || name == "aten::slice_scatter" || name == "aten::diagonal_scatter" ||
        name == "aten::as_strided_scatter") {
      return ViewScatter(n);
    }
    if (IsIndexedWrite(name)) return IndexedWrite(n);
    if (name == "aten::addmm" || name == "aten::baddbmm") return AddMatmul(n);
    if (name == "aten::mm" || name == "aten::bmm") {
      SMELT_ASSIGN_OR_RETURN(bool changed, ThinMatmul(n));
      if (changed) return Step::kChanged;
    }
    const OpInfo& info = GetOpInfo(op);
    if (info.kind == OpKind::kView) return View(n);
    if (IsKernelNode(g_, n)) return Step::kKeep;
    if (info.decomposes) {
      SMELT_ASSIGN_OR_RETURN(bool changed, Decompose(g_, n));
      if (changed) return Step::kChanged;
    }
    switch (info.kind) {
      case OpKind::kLibrary:
      case OpKind::kMovement:
      case OpKind::kControl:
      case OpKind::kRandom:
      case OpKind::kScalar:
      case OpKind::kContainer:
        return Step::kKeep;
      case OpKind::kOther:
        if (name == "aten::_local_scalar_dense" || name == "aten::item") return Step::kKeep;
        return Step::kUnsupported;
      default:
        break;
    }
    bool numbers = !g_.node(n).outputs.empty();
    for (ValueId v : g_.node(n).outputs)
      numbers = numbers && !g_.value(v).type.IsTensor() && g_.value(v).expr.has_value();
    return numbers ? Step::kKeep : Step::kUnsupported;
  }

  // --- views ---
  // A view of a view is a view of what that one shows.
  absl::StatusOr<Step> ShortenView(NodeId n) {
    const ValueId base = g_.node(n).inputs[0];
    const NodeId def = g_.value(base).def;
    if (g_.IsParam(def) || g_.node(def).op != "smelt::view") return Step::kKeep;
    // Its home stays the argument that the inner one names, if it names one.
    if (g_.node(def).FindAttribute("argument") != nullptr) return Step::kKeep;
    g_.SetInput(n, 0, g_.node(def).inputs[0]);
    return Step::kChanged;
  }

  // A view of a copy shows the same elements as some view of what was copied, if their strides allow it: reshape of a
  // transposed tensor copies in eager PyTorch even where dims of size 1 alone stand in its way, and matmul's batches
  // are made so.
  void LookThroughCopy(NodeId n) {
    const ValueId copy = g_.node(n).inputs[0];
    const NodeId def = g_.value(copy).def;
    if (g_.IsParam(def) || g_.node(def).op != "smelt::materialize" || g_.node(n).FindAttribute("argument") != nullptr)
      return;
    const ValueId source = g_.node(def).inputs[0];
    const TensorType& t = T(copy);
    const SymbolicGeometry from = GeometryOf(source);
    if (from.dtype != *t.dtype || from.sizes != *t.sizes) return;
    ValueId root = source;
    const NodeId source_def = g_.value(source).def;
    if (!g_.IsParam(source_def) && g_.node(source_def).op == "smelt::view") {
      if (g_.node(source_def).FindAttribute("argument") != nullptr) return;
      root = g_.node(source_def).inputs[0];
    }
    // A result's strides are the caller's to see, and a view's base has its storage's.
    for (const Use& u : g_.value(Out(n)).uses) {
      if (g_.IsReturn(u.user) || absl::StartsWith(g_.node(u.user).op.name(), "smelt::") ||
          absl::StartsWith(g_.node(u.user).op.name(), "prim::")) {
        return;
      }
    }
    // Memory that is taken over later must be copied by someone.
    for (const Use& u : g_.value(root).uses) {
      if (g_.IsReturn(u.user)) continue;
      const Node& user = g_.node(u.user);
      if (u.index == 0 && (user.op == "smelt::write_region" || absl::StartsWith(user.op.name(), "smelt::inplace_")))
        return;
    }
    SymbolicGeometry view = RegionGeometry(g_.node(n));
    if (view.dtype != *t.dtype) return;
    std::vector<size_t> order;  // the copy's dims, widest first
    for (size_t j = 0; j < t.sizes->size(); ++j) {
      if ((*t.sizes)[j] != Expr(1)) order.push_back(j);
    }
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      auto less = g_.symbols.Less((*t.strides)[b], (*t.strides)[a]);
      return less && *less;
    });
    SymbolicGeometry out = view;
    out.offset = from.offset;
    std::vector<Expr> high(t.sizes->size(), Expr(0));
    Expr rest = view.offset;
    for (size_t j : order) {
      if (rest == Expr(0)) break;
      const Expr q = FloorDiv(rest, (*t.strides)[j]);
      if (!rest.IsConstant() && q * (*t.strides)[j] != rest) continue;
      high[j] = q;
      out.offset = out.offset + q * from.strides[j];
      rest = rest - q * (*t.strides)[j];
    }
    if (rest != Expr(0)) return;
    bool unit = false;
    for (size_t k = 0; k < view.sizes.size(); ++k) {
      if (view.sizes[k] == Expr(1) || view.strides[k] == Expr(0)) continue;
      bool placed = false;
      for (size_t i = 0; i < order.size() && !placed; ++i) {
        const size_t j = order[i];
        const Expr q = FloorDiv(view.strides[k], (*t.strides)[j]);
        if (q == Expr(0) || q * (*t.strides)[j] != view.strides[k]) continue;
        const Expr reach = high[j] + q * (view.sizes[k] - 1);
        const auto fits = g_.symbols.Less(reach, (*t.sizes)[j]);
        if (fits && *fits) {
          out.strides[k] = q * from.strides[j];
          high[j] = reach;
          placed = true;
          break;
        }
        // Over this dim and those around it, if the source runs through them evenly too.
        if (q != Expr(1) || high[j] != Expr(0)) return;
        Expr left = view.sizes[k];
        size_t at = i;
        while (true) {
          const size_t d = order[at];
          const Expr parts = FloorDiv(left, (*t.sizes)[d]);
          if (parts * (*t.sizes)[d] != left || high[d] != Expr(0)) return;
          left = parts;
          high[d] = (*t.sizes)[d] - 1;
          if (left == Expr(1)) break;
          if (at == 0) return;
          const size_t outer = order[at - 1];
          if ((*t.strides)[outer] != (*t.strides)[d] * (*t.sizes)[d] ||
              from.strides[outer] != from.strides[d] * (*t.sizes)[d])
            return;
          --at;
        }
        out.strides[k] = from.strides[j];
        placed = true;
      }
      if (!placed) return;
      unit = unit || out.strides[k] == Expr(1);
    }
    // Library calls want one dim whose elements are neighbours.
    if (!unit) return;
    g_.SetInput(n, 0, root);
    g_.SetAttribute(n, "strides", out.strides);
    g_.SetAttribute(n, "offset", out.offset);
    g_.SetType(Out(n), Type::Tensor(out.dtype, out.sizes, out.strides));
  }

  // The geometry of a value over its storage; views of top-level states are absolute in theirs.
  SymbolicGeometry GeometryOf(ValueId v) const {
    const TensorType& t = T(v);
    SymbolicGeometry out{*t.dtype, *t.sizes, *t.strides, Expr(0)};
    ValueId at = v;
    while (true) {
      const NodeId def = g_.value(at).def;
      if (g_.IsParam(def)) {
        if (g_.node(def).parent == g_.top() && def == g_.block(g_.top()).param_node) {
          const InputInfo& info = g_.input_infos[g_.value(at).def_index];
          if (info.kind == InputInfo::Kind::kWeight) out.offset = g_.weights[info.weight].geometry.offset;
        }
        return out;
      }
      const Node& node = g_.node(def);
      if (node.op == "smelt::view") {
        out.offset = RegionGeometry(node).offset;
        return out;
      }
      if (node.op != "smelt::write_region") return out;
      at = node.inputs[0];
    }
  }

  NodeId InsertView(NodeId anchor, ValueId base, const SymbolicGeometry& geometry) {
    // A view counts from the storage's beginning, or from the argument's that it names: not from the view it is of.
    const NodeId def = g_.value(base).def;
    const bool shortened = !g_.IsParam(def) && g_.node(def).op == "smelt::view";
    if (shortened) base = g_.node(def).inputs[0];
    const NodeId view = InsertRegionNode(anchor, "smelt::view", {base},
                                         Type::Tensor(geometry.dtype, geometry.sizes, geometry.strides), geometry);
    if (shortened) {
      // Copied: setting an attribute may move others.
      if (const Attribute* home = g_.node(def).FindAttribute("argument"))
        g_.SetAttribute(view, "argument", Attribute(*home));
    }
    return view;
  }
  NodeId InsertRegionNode(NodeId anchor, absl::string_view op, std::vector<ValueId> inputs, Type type,
                          const SymbolicGeometry& g) {
    NodeId n = g_.InsertBefore(anchor, OpName::Get(op), inputs, {type},
                               {{"sizes", g.sizes},
                                {"strides", g.strides},
                                {"offset", g.offset},
                                {"dtype", static_cast<int64_t>(ScalarTypeOf(g.dtype))}});
    g_.SetSource(n, source_);
    return n;
  }

  absl::StatusOr<Step> View(NodeId n) {
    SMELT_ASSIGN_OR_RETURN(OpCall call, OpCall::Of(g_, n));
    // Which argument is the base: the first tensor, but for those that say otherwise.
    const std::vector<ValueId> inputs(g_.node(n).inputs.begin(), g_.node(n).inputs.end());
    int base = -1;
    for (size_t i = 0; i < inputs.size() && base < 0; ++i) {
      if (g_.value(inputs[i]).type.IsTensor()) base = static_cast<int>(i);
    }
    if (base < 0 || !T(inputs[base]).IsComplete())
      return absl::UnimplementedError("a view of something that is no tensor of a known type");
    SMELT_ASSIGN_OR_RETURN(ViewMeaning m, BuildView(call, GeometryOf(inputs[base]), g_.symbols));
    if (m.base != base) {
      SMELT_ASSIGN_OR_RETURN(m, BuildView(call, GeometryOf(inputs[m.base]), g_.symbols));
    }
    const ValueId of = inputs[m.base];
    std::vector<ValueId> views;
    for (const SymbolicGeometry& v : m.outputs) views.push_back(Shown(n, of, v));
    if (!m.is_list) {
      ReplaceWith(n, views[0]);
      return Step::kChanged;
    }
    ReplaceList(n, views);
    return Step::kChanged;
  }
  // A view that shows all of its base as it is, is the base.
  ValueId Shown(NodeId anchor, ValueId base, const SymbolicGeometry& v) {
    const SymbolicGeometry own = GeometryOf(base);
    bool same = own.dtype == v.dtype && own.sizes == v.sizes && own.offset == v.offset;
    for (size_t d = 0; same && d < v.sizes.size(); ++d)
      same = own.sizes[d] == Expr(1) || own.strides[d] == v.strides[d];
    if (same) return base;
    return Out(InsertView(anchor, base, v));
  }
  void ReplaceList(NodeId n, const std::vector<ValueId>& elements) {
    const ValueId list = Out(n);
    std::vector<NodeId> unpacks;
    for (const Use& u : g_.value(list).uses) {
      if (g_.node(u.user).op == "prim::ListUnpack" && g_.node(u.user).outputs.size() == elements.size())
        unpacks.push_back(u.user);
    }
    for (NodeId u : unpacks) {
      const std::vector<ValueId> outputs(g_.node(u).outputs.begin(), g_.node(u).outputs.end());
      for (size_t i = 0; i < outputs.size(); ++i) g_.ReplaceAllUses(outputs[i], elements[i]);
      g_.Erase(u);
    }
    if (!g_.value(list).uses.empty()) {
      NodeId construct = g_.InsertBefore(n, OpName::Get("prim::ListConstruct"), elements, {g_.value(list).type});
      g_.SetSource(construct, source_);
      g_.ReplaceAllUses(list, Out(construct));
    }
    g_.Erase(n);
  }

  // --- copies ---
  ValueId Materialize(NodeId anchor, ValueId v, const std::vector<Expr>& strides) {
    const TensorType t = T(v);
    bool same = true;
    for (size_t d = 0; d < strides.size(); ++d)
      same = same && ((*t.sizes)[d] == Expr(1) || (*t.strides)[d] == strides[d]);
    return same ? v : Copied(anchor, v, strides);
  }
  ValueId Copied(NodeId anchor, ValueId v, const std::vector<Expr>& strides) {
    const TensorType t = T(v);
    NodeId n = g_.InsertBefore(anchor, OpName::Get("smelt::materialize"), {v},
                               {Type::Tensor(*t.dtype, *t.sizes, strides)}, {{"strides", strides}});
    g_.SetSource(n, source_);
    return Out(n);
  }
  // A value that can be the base of a partial rewrite: all of its memory's contents, in the given layout. A view is
  // copied.
  ValueId Whole(NodeId anchor, ValueId v, const std::vector<Expr>& strides) {
    const NodeId def = g_.value(v).def;
    if (g_.IsParam(def) || g_.node(def).op != "smelt::view") return Materialize(anchor, v, strides);
    return Copied(anchor, v, strides);
  }
  // Contents are immutable: a copy in the same layout is the value itself.
  absl::StatusOr<Step> Copy(NodeId n) {
    const ValueId in = g_.node(n).inputs[0];
    if (!T(Out(n)).IsComplete()) return absl::UnimplementedError("a copy of a type that is not known");
    ReplaceWith(n, Materialize(n, in, *T(Out(n)).strides));
    return Step::kChanged;
  }

  ValueId Cast(NodeId anchor, ValueId v, DType to) {
    const TensorType t = T(v);
    if (*t.dtype == to) return v;
    std::vector<ValueId> args = {v, InsertConstant(g_, anchor, ScalarTypeOf(to))};
    NodeId n = g_.InsertBefore(anchor, OpName::Get("prims::convert_element_type"), args,
                               {Type::Tensor(to, *t.sizes, *t.strides)});
    g_.SetSource(n, source_);
    return Out(n);
  }

  ValueId IntList(NodeId anchor, const std::vector<Expr>& sizes) {
    std::vector<int64_t> constants;
    for (const Expr& e : sizes) {
      if (e.IsConstant()) constants.push_back(*e.Constant());
    }
    if (constants.size() == sizes.size()) return InsertConstant(g_, anchor, constants);
    std::vector<ValueId> elements;
    for (const Expr& e : sizes) {
      elements.push_back(e.IsConstant() ? InsertConstant(g_, anchor, *e.Constant()) : InsertSize(g_, anchor, e));
    }
    return Out(g_.InsertBefore(anchor, OpName::Get("prim::ListConstruct"), elements, {Type::List(Type::Int())}));
  }
  ValueId Empty(NodeId anchor, const TensorType& t) {
    const ValueId none = InsertConstant(g_, anchor, std::monostate());
    NodeId n = g_.InsertBefore(
        anchor, OpName::Get("aten::empty_strided"),
        {IntList(anchor, *t.sizes), IntList(anchor, *t.strides), InsertConstant(g_, anchor, ScalarTypeOf(*t.dtype)),
         none, none, InsertConstant(g_, anchor, false)},
        {Type::Tensor(*t.dtype, *t.sizes, *t.strides)});
    g_.SetSource(n, source_);
    return Out(n);
  }

  // --- cat and stack ---
  // Whether kernels alone read what a cat makes, and few enough parts that each element may choose among them: then no
  // memory holds it. (Of a stack along the innermost dim no two neighbours come from one part.)
  bool IsReadByKernels(NodeId n) const {
    constexpr size_t kMaxParts = 4;
    const std::optional<std::vector<ValueId>> parts = GetListElements(g_, g_.node(n).inputs[0]);
    if (g_.node(n).op.name() == "aten::stack" || !parts || parts->size() < 2 || parts->size() > kMaxParts ||
        !IsKernelNode(g_, n) || g_.value(Out(n)).uses.empty()) {
      return false;
    }
    return IsReadByKernels(Out(n), g_.node(n).parent);
  }
  bool IsReadByKernels(ValueId v, BlockId block) const {
    return absl::c_all_of(g_.value(v).uses, [&](const Use& u) {
      if (g_.IsReturn(u.user)) return false;
      const Node& user = g_.node(u.user);
      if (user.parent != block) return false;
      if (user.op == "smelt::view") return IsReadByKernels(user.outputs[0], block);
      if (!IsKernelNode(g_, u.user)) return false;
      if (user.op == "smelt::write_region") return u.index == 1;
      const OpKind kind = GetOpInfo(user.op).kind;
      return kind == OpKind::kPointwise || kind == OpKind::kReduction;
    });
  }
  absl::StatusOr<Step> Cat(NodeId n) {
    const bool stack = g_.node(n).op.name() == "aten::stack";
    std::optional<std::vector<ValueId>> elements = GetListElements(g_, g_.node(n).inputs[0]);
    const std::optional<Expr> dim_arg = GetIntExpr(g_, g_.node(n).inputs[1]);
    if (!elements || elements->empty()) return absl::UnimplementedError("a list that is not made in place");
    if (!dim_arg || !dim_arg->IsConstant()) return absl::UnimplementedError("a dim that is not a constant");
    const TensorType out = T(Out(n));
    if (!out.IsComplete()) return absl::UnimplementedError("a result of unknown type");
    if (IsComplex(*out.dtype)) return Step::kUnsupported;
    int64_t dim = *dim_arg->Constant();
    if (dim < 0) dim += out.rank();
    if (dim < 0 || dim >= out.rank()) return absl::InvalidArgumentError(absl::StrCat("dim ", dim, " is out of range"));
    struct Part {
      ValueId value;
      SymbolicGeometry region;
    };
    std::vector<Part> parts;
    Expr offset = 0;
    for (ValueId e : *elements) {
      if (!g_.value(e).type.IsTensor() || !T(e).IsComplete())
        return absl::UnimplementedError("an element of unknown type");
      const std::vector<Expr>& sizes = *T(e).sizes;
      if (!stack && sizes.size() == 1 && sizes[0] == Expr(0) && out.rank() != 1)
        continue;  // PyTorch skips an empty list of numbers
      Part p;
      p.value = e;
      p.region.dtype = *out.dtype;
      p.region.sizes = sizes;
      p.region.strides = *out.strides;
      if (stack) p.region.strides.erase(p.region.strides.begin() + dim);
      p.region.offset = offset * (*out.strides)[dim];
      offset = offset + (stack ? Expr(1) : sizes[dim]);
      if (!stack && sizes[dim] == Expr(0)) continue;
      if (p.region.sizes.size() != p.region.strides.size())
        return absl::InvalidArgumentError("elements of different ranks");
      parts.push_back(std::move(p));
    }
    if (parts.empty()) {
      ReplaceWith(n, Empty(n, out));
      return Step::kChanged;
    }
    if (parts.size() == 1 && !stack) {
      // Not a view or an argument: views of the result count from its own beginning.
      const ValueId only = Cast(n, parts[0].value, *out.dtype);
      const NodeId def = g_.value(only).def;
      const bool owner = !g_.IsParam(def) && g_.node(def).op != "smelt::view";
      ReplaceWith(n, owner ? Materialize(n, only, *out.strides) : Copied(n, only, *out.strides));
      return Step::kChanged;
    }
    // Regions are disjoint, so any order will do: that in which the parts are made lets each be written where it is
    // made.
    std::stable_sort(parts.begin(), parts.end(),
                     [&](const Part& a, const Part& b) { return MadeBefore(n, a.value, b.value); });
    const Type type = Type::Tensor(*out.dtype, *out.sizes, *out.strides);
    ValueId whole = Empty(n, out);
    for (const Part& p : parts)
      whole = Out(InsertRegionNode(n, "smelt::write_region", {whole, Cast(n, p.value, *out.dtype)}, type, p.region));
    ReplaceWith(n, whole);
    return Step::kChanged;
  }
  // Among values of the block that `n` stands in; others come first.
  bool MadeBefore(NodeId n, ValueId a, ValueId b) const {
    auto place = [&](ValueId v) {
      NodeId def = g_.value(v).def;
      while (!g_.IsParam(def) && g_.node(def).op == "smelt::view") def = g_.value(g_.node(def).inputs[0]).def;
      return g_.IsParam(def) || g_.node(def).parent != g_.node(n).parent ? NodeId() : def;
    };
    const NodeId pa = place(a), pb = place(b);
    if (!pa.valid() || !pb.valid()) return !pa.valid() && pb.valid();
    return pa != pb && g_.IsBefore(pa, pb);
  }

  // select_scatter and its kin: `src` written over the region of self that the view of the same arguments shows.
  absl::StatusOr<Step> ViewScatter(NodeId n) {
    SMELT_ASSIGN_OR_RETURN(OpCall call, OpCall::Of(g_, n));
    const TensorType out = T(Out(n));
    const ValueId self = g_.node(n).inputs[0], src = g_.node(n).inputs[1];
    const SymbolicGeometry base{*out.dtype, *out.sizes, *out.strides, Expr(0)};
    // Where an argument begins in its storage is seen when it runs: a region in front of it does not lie in the copy.
    absl::flat_hash_map<std::string, int64_t> hints = g_.symbol_hints;
    for (const OpArg& a : call.args()) {
      if (a.kind != OpArg::Kind::kInt) continue;
      for (const std::string& s : a.expr.Symbols()) hints.try_emplace(s, 0);
    }
    SymbolicDecide decide(&g_.symbols, hints);
    SMELT_ASSIGN_OR_RETURN(ViewMeaning m, BuildScatteredView(call, base, decide));
    // The copy that is written into; in place where self dies here.
    const ValueId whole = Whole(n, self, *out.strides);
    ReplaceWith(n, Out(InsertRegionNode(n, "smelt::write_region", {whole, Cast(n, src, *out.dtype)},
                                        Type::Tensor(*out.dtype, *out.sizes, *out.strides), m.outputs[0])));
    return Step::kChanged;
  }

  // --- writes at indices from data ---
  static bool IsIndexedWrite(const std::string& name) {
    static const auto* const names = new absl::flat_hash_set<std::string>{
        "aten::scatter",           "aten::scatter_add",    "aten::scatter_reduce", "aten::index_add",
        "aten::index_copy",        "aten::index_fill",     "aten::index_put",      "aten::put",
        "aten::_unsafe_index_put", "aten::_index_put_impl"};
    return names->contains(name);
  }
  absl::StatusOr<Step> IndexedWrite(NodeId n) {
    const std::string name = g_.node(n).op.full();
    const std::vector<ValueId> inputs(g_.node(n).inputs.begin(), g_.node(n).inputs.end());
    const TensorType out = T(Out(n));
    if (!out.IsComplete()) return absl::UnimplementedError("a result of unknown type");
    if (IsComplex(*out.dtype)) return Step::kUnsupported;
    SMELT_ASSIGN_OR_RETURN(bool changed, Decompose(g_, n));  // means, and reductions that leave self out
    if (changed) return Step::kChanged;
    if (absl::StrContains(name, "index_put")) {
      std::optional<std::vector<ValueId>> list = GetListElements(g_, inputs[1]);
      if (!list) return absl::UnimplementedError("a list that is not made in place");
      for (ValueId v : *list) {
        const Type& t = g_.value(v).type;
        if (!t.IsTensor() || (t.tensor().dtype != DType::kBool && t.tensor().dtype != DType::kUInt8)) continue;
        return MaskedPut(n, *list, inputs);
      }
    }
    const ValueId self = Whole(n, inputs[0], *out.strides);
    if (self != inputs[0]) g_.SetInput(n, 0, self);
    g_.SetOp(n, OpName::Get(absl::StrCat("smelt::inplace_", absl::StripPrefix(name, "aten::"))));
    return Step::kChanged;
  }
  // x[..., mask, ...] = one value for all that the mask chooses: where(mask, value, x). Several values need the data.
  absl::StatusOr<Step> MaskedPut(NodeId n, const std::vector<ValueId>& list, const std::vector<ValueId>& inputs) {
    const TensorType self = T(inputs[0]), values = T(inputs[2]);
    ValueId chosen;
    int before = 0;  // dims in front of the mask's
    for (ValueId v : list) {
      const bool tensor = g_.value(v).type.IsTensor();
      if (tensor && chosen.valid()) return absl::UnimplementedError("a mask among other indices");
      if (tensor) chosen = v;
      before += !chosen.valid();
    }
    auto accumulate = inputs.size() > 3 ? GetConstant(g_, inputs[3]) : std::nullopt;
    const bool* add = accumulate ? std::get_if<bool>(&*accumulate) : nullptr;
    if (add == nullptr) return absl::UnimplementedError("accumulation that is decided at run time");
    const TensorType mask = T(chosen);
    // The values broadcast against self with the mask's dims made one: trailing dims, that one, leading dims.
    const int rest = self.rank() - before - mask.rank(), at = values.rank() - 1 - rest;
    if (rest < 0) return absl::InvalidArgumentError("too many indices for a tensor");
    if (at >= 0 && (*values.sizes)[at] != Expr(1))
      return absl::UnimplementedError("values chosen by a mask: their number is in the data");
    SymbolicGeometry m{*mask.dtype, *mask.sizes, *mask.strides, GeometryOf(chosen).offset};
    for (int d = 0; d < rest; ++d) {
      m.sizes.push_back(1);
      m.strides.push_back(1);
    }
    ValueId condition = Cast(n, rest > 0 ? Out(InsertView(n, chosen, m)) : chosen, DType::kBool);
    ValueId value = inputs[2];
    if (at >= 0 && mask.rank() != 1) {
      SymbolicGeometry v = GeometryOf(value);
      v.sizes.erase(v.sizes.begin() + at);
      v.strides.erase(v.strides.begin() + at);
      v.sizes.insert(v.sizes.begin() + at, mask.rank(), Expr(1));
      v.strides.insert(v.strides.begin() + at, mask.rank(), Expr(1));
      // Leading dims of one are more than self may have.
      while (static_cast<int>(v.sizes.size()) > self.rank() && v.sizes[0] == Expr(1)) {
        v.sizes.erase(v.sizes.begin());
        v.strides.erase(v.strides.begin());
      }
      value = Out(InsertView(n, value, v));
    }
    value = Cast(n, value, *self.dtype);
    if (*add) {
      NodeId sum = g_.InsertBefore(n, OpName::Get("aten::add.Tensor"),
                                   {inputs[0], value, InsertConstant(g_, n, int64_t{1})}, {g_.value(Out(n)).type});
      g_.SetSource(sum, source_);
      value = Out(sum);
    }
    NodeId where =
        g_.InsertBefore(n, OpName::Get("aten::where.self"), {condition, value, inputs[0]}, {g_.value(Out(n)).type});
    g_.SetSource(where, source_);
    ReplaceWith(n, Out(where));
    return Step::kChanged;
  }

  // --- matmul ---
  // A column times a row is a multiplication, and many rows times a column each are sums: kernels, which fuse. Whether
  // it was one.
  absl::StatusOr<bool> ThinMatmul(NodeId n) {
    if (!g_.node(n).op.overload().empty() || g_.node(n).inputs.size() != 2) return false;
    const ValueId a = g_.node(n).inputs[0], b = g_.node(n).inputs[1];
    const TensorType out = T(Out(n));
    if (!out.IsComplete() || !IsFloating(*out.dtype) || !T(a).sizes) return false;
    const std::vector<Expr>& sizes = *out.sizes;
    if (T(a).sizes->back() == Expr(1)) {
      NodeId product = g_.InsertBefore(n, OpName::Get("aten::mul.Tensor"), {a, b},
                                       {Type::Tensor(*out.dtype, *out.sizes, *out.strides)});
      g_.SetSource(product, source_);
      // A sum begins at 0: it is never -0.
      Emit e(g_, n);
      const ValueId sum = e.AddN(Out(product), 0.);
      if (!e.ok()) return e.status();
      ReplaceWith(n, sum);
      return true;
    }
    if (sizes.size() != 3 || sizes[0] == Expr(1) || sizes[1] != Expr(1) || sizes[2] != Expr(1)) return false;
    Emit e(g_, n);
    const DType compute = OpMathType(*out.dtype);
    const ValueId factors = e.Mul(e.Cast(a, compute), e.Cast(e.Transpose(b, 1, 2), compute));
    const ValueId sum = e.Cast(e.Sum(factors, {2}, true), *out.dtype);
    if (!e.ok()) return e.status();
    ReplaceWith(n, sum);
    return true;
  }

  // beta * self + alpha * (a @ b) with factors other than 1 (or integers): the library multiplies, a kernel does the
  // rest.
  absl::StatusOr<Step> AddMatmul(NodeId n) {
    if (!g_.node(n).op.overload().empty()) return Step::kUnsupported;
    const std::vector<ValueId> in(g_.node(n).inputs.begin(), g_.node(n).inputs.end());
    const TensorType out = T(Out(n));
    auto number = [&](ValueId v) -> std::optional<double> {
      auto c = GetConstant(g_, v);
      if (!c) return std::nullopt;
      if (const auto* i = std::get_if<int64_t>(&*c)) return static_cast<double>(*i);
      if (const auto* d = std::get_if<double>(&*c)) return *d;
      return std::nullopt;
    };
    std::optional<double> beta = number(in[3]), alpha = number(in[4]);
    // Of integers PyTorch takes the factors' integral parts.
    const bool whole = beta && alpha && IsIntegral(*out.dtype);
    if (whole) {
      beta = std::trunc(*beta);
      alpha = std::trunc(*alpha);
    }
    auto factor = [&](ValueId given, std::optional<double> v) {
      return whole ? InsertConstant(g_, n, static_cast<int64_t>(*v)) : given;
    };
    if (beta && alpha && *beta == 1 && *alpha == 1) return Step::kKeep;
    const bool batched = g_.node(n).op.name() == "aten::baddbmm";
    const Type type = Type::Tensor(*out.dtype, *out.sizes, *out.strides);
    auto insert = [&](absl::string_view op, std::vector<ValueId> args, Type t) {
      NodeId x = g_.InsertBefore(n, OpName::Get(op), args, {std::move(t)});
      g_.SetSource(x, source_);
      return Out(x);
    };
    ValueId product = insert(batched ? "aten::bmm" : "aten::mm", {in[1], in[2]}, type);
    if (!alpha || *alpha != 1) product = insert("aten::mul.Scalar", {product, factor(in[4], alpha)}, type);
    // A beta of 0 ignores self, NaN and all.
    if (beta && *beta == 0) {
      ReplaceWith(n, product);
      return Step::kChanged;
    }
    ValueId self = in[0];
    if (!beta || *beta != 1) self = insert("aten::mul.Scalar", {self, factor(in[3], beta)}, g_.value(self).type);
    ReplaceWith(n, insert("aten::add.Tensor", {product, self, InsertConstant(g_, n, int64_t{1})}, type));
    return Step::kChanged;
  }

  Graph& g_;
  std::shared_ptr<const SourceLocation> source_;
  std::map<std::string, Places> unsupported_;
  bool has_cats_ = false, readers_known_ = false;
};

>>>>>>> 4d25de6 (as_strided_scatter counts from the storage of an argument or of a view, as PyTorch's; the l1 loss of complex numbers is real)
bool HasEffect(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  if (!node.blocks.empty()) {
    // Control flow without effects inside is as dead as its results.
    for (BlockId b : node.blocks) {
      for (NodeId inner : g.Nodes(b)) {
        if (HasEffect(g, inner)) return true;
      }
    }
    return node.op == "smelt::while_loop" || node.op == "prim::Loop";  // it may not end
  }
  const std::string& name = node.op.name();
  if (absl::StartsWith(name, "smelt::assert_")) return true;
  if (absl::StartsWith(name, "prim::")) return name == "prim::RaiseException" || name == "prim::Print";
  if (absl::StartsWith(name, "smelt::")) return false;
  if (absl::StrContains(name, "assert")) return true;
  switch (GetOpInfo(node.op).kind) {
    case OpKind::kRandom:
    case OpKind::kInplace:
    case OpKind::kOut:
    case OpKind::kInplaceView:
    case OpKind::kUnknown:
      return true;
    default:
      return false;
  }
}

void EraseDeadIn(Graph& g, BlockId b) {
  std::vector<NodeId> nodes = g.Nodes(b);
  for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
    if (!g.IsLive(*it)) continue;
    bool used = false;
    for (ValueId v : g.node(*it).outputs) used = used || !g.value(v).uses.empty();
    if (!used && !HasEffect(g, *it)) {
      g.Erase(*it);
      continue;
    }
    const std::vector<BlockId> blocks(g.node(*it).blocks.begin(), g.node(*it).blocks.end());
    for (BlockId inner : blocks) EraseDeadIn(g, inner);
  }
}

}  // namespace

absl::Status Expander::Run() {
  SMELT_RETURN_IF_ERROR(ExpandBlock(g_.top()));
  if (has_cats_) {
    // Their readers are what they will be.
    readers_known_ = true;
    unsupported_.clear();
    SMELT_RETURN_IF_ERROR(ExpandBlock(g_.top()));
  }
  if (!unsupported_.empty()) {
    std::vector<std::string> lines;
    for (const auto& [op, places] : unsupported_) {
      std::string line = absl::StrCat(op, " (", places.count, places.count == 1 ? " time" : " times");
      if (!places.sources.empty()) absl::StrAppend(&line, ": ", absl::StrJoin(places.sources, ", "));
      if (places.count > static_cast<int>(places.sources.size()) && !places.sources.empty())
        absl::StrAppend(&line, ", ...");
      absl::StrAppend(&line, ")");
      if (!places.reason.empty()) absl::StrAppend(&line, ": ", places.reason);
      lines.push_back(std::move(line));
    }
    return absl::UnimplementedError(absl::StrCat("unsupported operators: ", absl::StrJoin(lines, "; ")));
  }
  for (NodeId n : g_.AllNodes()) {
    if (g_.node(n).op == "smelt::view") LookThroughCopy(n);
  }
  EraseDeadNodes(g_);
  return absl::OkStatus();
}

absl::Status Expander::ExpandBlock(BlockId b) {
  NodeId n = g_.block(b).first;
  int steps = 0;
  NodeId last_kept;
  while (n.valid()) {
    const NodeId prev = g_.node(n).prev;
    source_ = g_.node(n).source;
    absl::StatusOr<Step> step = ExpandNode(n);
    if (!step.ok()) {
      if (!absl::IsUnimplemented(step.status())) return At(n, step.status());
      AddUnsupported(n, step.status().message());
      step = Step::kKeep;
    }
    if (*step == Step::kChanged) {
      if (++steps > kMaxSteps) return absl::InternalError("the expansion of an operator does not end");
      // What replaced the node stands between `prev` and what followed.
      n = prev.valid() && g_.IsLive(prev) ? g_.node(prev).next : g_.block(b).first;
      continue;
    }
    if (*step == Step::kUnsupported) AddUnsupported(n, "");
    steps = 0;
    const std::vector<BlockId> blocks(g_.node(n).blocks.begin(), g_.node(n).blocks.end());
    for (BlockId inner : blocks) SMELT_RETURN_IF_ERROR(ExpandBlock(inner));
    n = g_.node(n).next;
  }
  return absl::OkStatus();
}

absl::Status Expander::At(NodeId n, const absl::Status& s) const {
  if (!g_.IsLive(n)) return s;
  const Node& node = g_.node(n);
  std::string where = node.op.full();
  if (node.source != nullptr) absl::StrAppend(&where, " (", node.source->ToString(), ")");
  return Annotate(s, where);
}

void Expander::AddUnsupported(NodeId n, absl::string_view reason) {
  if (!g_.IsLive(n)) return;
  const Node& node = g_.node(n);
  Places& p = unsupported_[node.op.full()];
  ++p.count;
  if (p.reason.empty()) p.reason = std::string(reason);
  if (node.source != nullptr && p.sources.size() < 5) {
    const std::string s = node.source->ToString();
    if (!s.empty() && std::find(p.sources.begin(), p.sources.end(), s) == p.sources.end()) p.sources.push_back(s);
  }
}

void Expander::ReplaceWith(NodeId n, ValueId v) {
  g_.ReplaceAllUses(Out(n), v);
  g_.Erase(n);
}

absl::StatusOr<bool> Expander::ExpandComplex(NodeId n) {
  const std::string& name = g_.node(n).op.name();
  if (absl::StartsWith(name, "aten::")) {
    return GetOpInfo(g_.node(n).op).kind == OpKind::kView ? false : DecomposeComplex(g_, n);
  }
  const bool region = name == "smelt::write_region";
  if (!region && name != "smelt::materialize") return false;
  const ValueId value = g_.node(n).inputs[region ? 1 : 0];
  if (!IsComplex(*T(value).dtype)) return false;
  Emit e(g_, n);
  const ValueId real = e.Op("aten::view_as_real", {value});
  if (!e.ok()) return e.status();
  auto doubled = [](std::vector<Expr> v, const Expr& last) {
    for (Expr& x : v) x = x * 2;
    v.push_back(last);
    return v;
  };
  std::vector<Expr> strides = doubled(std::get<std::vector<Expr>>(*g_.node(n).FindAttribute("strides")), 1);
  if (region) {
    SymbolicGeometry where = RegionGeometry(g_.node(n));
    where.sizes.push_back(2);
    g_.SetAttribute(n, "sizes", where.sizes);
    g_.SetAttribute(n, "strides", strides);
    g_.SetAttribute(n, "offset", where.offset * 2);
    g_.SetAttribute(n, "dtype", ScalarTypeOf(*e.TypeOf(real).dtype));
    g_.SetInput(n, 1, real);
    return true;
  }
  const TensorType& t = e.TypeOf(real);
  NodeId copy =
      g_.InsertBefore(n, OpName::Get("smelt::materialize"), {real}, {Type::Tensor(*t.dtype, *t.sizes, strides)});
  g_.SetAttribute(copy, "strides", strides);
  g_.SetSource(copy, g_.node(n).source);
  const ValueId out = e.Op("aten::view_as_complex", {g_.node(copy).outputs[0]});
  if (!e.ok()) return e.status();
  ReplaceWith(n, out);
  return true;
}

absl::StatusOr<Expander::Step> Expander::ExpandNode(NodeId n) {
  const OpName op = g_.node(n).op;
  const std::string& name = op.name();
  if (name == "smelt::view") return ShortenView(n);
  if (HasComplexNumbers(g_, n)) {
    SMELT_ASSIGN_OR_RETURN(bool changed, ExpandComplex(n));
    if (changed) return Step::kChanged;
  }
  if (name == "prim::ListUnpack") {
    std::optional<std::vector<ValueId>> elements = GetListElements(g_, g_.node(n).inputs[0]);
    if (!elements || elements->size() != g_.node(n).outputs.size()) return Step::kKeep;
    for (size_t i = 0; i < elements->size(); ++i) g_.ReplaceAllUses(g_.node(n).outputs[i], (*elements)[i]);
    g_.Erase(n);
    return Step::kChanged;
  }
  if (absl::StartsWith(name, "prim::") || absl::StartsWith(name, "smelt::")) return Step::kKeep;
  if (name == "aten::_assert_async" || name == "aten::_assert_scalar") return Step::kKeep;
  if (name == "aten::cat" || name == "aten::stack" || name == "aten::concat" || name == "aten::concatenate") {
    has_cats_ = true;
    return readers_known_ && !IsReadByKernels(n) ? Cat(n) : Step::kKeep;
  }
  if (name == "aten::clone" || name == "aten::contiguous" || name == "aten::lift_fresh_copy" ||
      name == "aten::alias_copy" || name == "aten::detach_copy") {
    return Copy(n);
  }
  if (name == "aten::select_scatter" || name == "aten::slice_scatter" || name == "aten::diagonal_scatter" ||
      name == "aten::as_strided_scatter") {
    return ViewScatter(n);
  }
  if (IsIndexedWrite(name)) return IndexedWrite(n);
  if (name == "aten::addmm" || name == "aten::baddbmm") return AddMatmul(n);
  if (name == "aten::mm" || name == "aten::bmm") {
    SMELT_ASSIGN_OR_RETURN(bool changed, ThinMatmul(n));
    if (changed) return Step::kChanged;
  }
  const OpInfo& info = GetOpInfo(op);
  if (info.kind == OpKind::kView) return View(n);
  if (IsKernelNode(g_, n)) return Step::kKeep;
  if (info.decomposes) {
    SMELT_ASSIGN_OR_RETURN(bool changed, Decompose(g_, n));
    if (changed) return Step::kChanged;
  }
  switch (info.kind) {
    case OpKind::kLibrary:
    case OpKind::kMovement:
    case OpKind::kControl:
    case OpKind::kRandom:
    case OpKind::kScalar:
    case OpKind::kContainer:
      return Step::kKeep;
    case OpKind::kOther:
      if (name == "aten::_local_scalar_dense" || name == "aten::item") return Step::kKeep;
      return Step::kUnsupported;
    default:
      break;
  }
  bool numbers = !g_.node(n).outputs.empty();
  for (ValueId v : g_.node(n).outputs)
    numbers = numbers && !g_.value(v).type.IsTensor() && g_.value(v).expr.has_value();
  return numbers ? Step::kKeep : Step::kUnsupported;
}

void EraseDeadNodes(Graph& g) { EraseDeadIn(g, g.top()); }

absl::Status ExpandComposites(Graph& g) { return Expander(g).Run(); }

}  // namespace smelt
