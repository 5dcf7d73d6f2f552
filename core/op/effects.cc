#include "smelt/core/op/effects.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "smelt/core/op/effect_tables.h"
#include "smelt/core/op/recent.h"
#include "smelt/core/op/schema.h"

namespace smelt {

using effects_internal::Bit;
using effects_internal::GeometryReaders;
using effects_internal::GeometryWriters;
using effects_internal::HiddenPureViews;
using effects_internal::kReadsAll;
using effects_internal::MakeSpecial;
using effects_internal::MayBeItself;
using effects_internal::MayCopy;
using effects_internal::NameSet;
using effects_internal::NewHandles;
using effects_internal::Partitions;
using effects_internal::RandomNames;
using effects_internal::SideEffects;
using effects_internal::UnknownEffects;
using effects_internal::Unwrap;

extern const char kHiddenEffects[];  // testdata/hidden_effects.txt

namespace {

bool IsTypeVariable(const Type& t) {
  return t.kind() == TypeKind::kClass && (t.class_name() == "t" || t.class_name() == "tVal");
}

// Lists, dictionaries and objects hold elements; a schema's `t[]` with an annotation means the container.
bool IsElementContainer(const Type& t) {
  const Type& u = Unwrap(t);
  return u.kind() == TypeKind::kList || u.kind() == TypeKind::kDict;
}
bool IsTensorList(const Type& t) {
  const Type& u = Unwrap(t);
  return u.kind() == TypeKind::kList && Unwrap(u.element()).IsTensor();
}
// A type variable in a schema may be any type.
bool FormalMayAlias(const Type& t) {
  return IsTypeVariable(t) || IsAliasingType(t) || (t.kind() == TypeKind::kOptional && FormalMayAlias(t.element()));
}

bool SharesSet(const AliasInfo& result, const std::vector<std::string>& before) {
  for (const std::string& set : result.after) {
    if (set == "*") continue;
    if (std::find(before.begin(), before.end(), set) != before.end()) return true;
  }
  return false;
}

bool AnyWrite(const AliasInfo& a) {
  if (a.is_write) return true;
  for (const AliasInfo& c : a.contained) {
    if (AnyWrite(c)) return true;
  }
  return false;
}
bool IsStored(const AliasInfo& a) { return a.IsWildcardAfter() && !a.IsWildcardBefore() && !a.before.empty(); }

// Describes the list and dictionary operators: the meaning of `t` and of `t[]` in a schema.
void DescribeContainers(const FunctionSchema& s, OpEffects* e) {
  absl::string_view name = s.op.name();
  uint64_t containers = 0, written = 0;
  for (size_t i = 0; i < s.arguments.size(); ++i) {
    const Argument& a = s.arguments[i];
    if (!IsElementContainer(a.type)) continue;
    containers |= Bit(i);
    if (name == "aten::update" && i == 1) {
      // The argument is only read, although the schema declares it as written.
      e->args[i] = kReadsContainer;
    } else if (a.alias.is_write) {
      written |= Bit(i);
      e->args[i] |= kWritesContainer | kReadsContainer;
      static const NameSet* const kKeepPlaces = new NameSet{"aten::append", "aten::_set_item",  "aten::extend",
                                                            "aten::add_",   "aten::setdefault", "aten::update"};
      if (!kKeepPlaces->contains(name)) e->args[i] |= kShufflesContainer;
    }
  }
  for (size_t i = 0; i < s.arguments.size(); ++i) {
    const Argument& a = s.arguments[i];
    if (IsStored(a.alias)) e->args[i] |= kStored;
    if (written != 0 && (containers & Bit(i)) && !(written & Bit(i))) e->args[i] |= kStoresElements;
  }
  int default_arg = s.FindArgument("default_value");
  if (name == "aten::setdefault" && default_arg >= 0) e->args[default_arg] |= kStored;
  for (size_t k = 0; k < s.returns.size(); ++k) {
    const Argument& r = s.returns[k];
    ResultEffects& out = e->results[k];
    if (!FormalMayAlias(r.type)) continue;
    if (r.alias.is_write) continue;  // self, said by the annotation
    if (name == "aten::add_") {
      // The result is the list itself, even if the annotation leaves that out.
      out.self = 1;
      out.fresh = false;
      continue;
    }
    if (IsElementContainer(r.type)) {
      out.fresh = true;
      out.view = 0;
      const bool pairs = name == "aten::dict" && Unwrap(s.arguments[0].type).kind() == TypeKind::kList;
      if (name == "aten::items" || pairs) {
        out.elements_deep = true;
        out.elements_element = containers;
      } else if (name == "aten::keys") {
        // Only one kind of dictionary has tensors as keys.
        if (s.op.overload() == "Tensor") out.elements_element = containers;
      } else {
        out.elements_element = containers;
      }
      if (name == "aten::get") out.element |= 1;
      continue;
    }
    out.fresh = false;
    if (name == "aten::popitem") {
      out.fresh = true;
      out.elements_element = containers;
      continue;
    }
    out.element |= containers;
    if (default_arg >= 0) out.self |= Bit(default_arg);
    if ((name == "aten::__getitem__" || name == "aten::select") && s.arguments.size() > 1 &&
        Unwrap(s.arguments[0].type).kind() == TypeKind::kList) {
      out.slot_arg = 1;
    }
  }
}

bool IsContainerOp(const FunctionSchema& s) {
  bool has_type_variable = false, has_container = false;
  for (const Argument& a : s.arguments) {
    const Type& u = Unwrap(a.type);
    if (u.kind() == TypeKind::kDict) return true;
    if (u.kind() == TypeKind::kList) {
      has_container = true;
      if (IsTypeVariable(Unwrap(u.element()))) has_type_variable = true;
      if (a.alias.is_write && !Unwrap(u.element()).IsTensor()) return true;
    }
  }
  static const NameSet* const kNames =
      new NameSet{"aten::sort",  "aten::reverse", "aten::remove",       "aten::sorted",    "aten::list",
                  "aten::copy",  "aten::append",  "aten::insert",       "aten::extend",    "aten::clear",
                  "aten::pop",   "aten::slice",   "aten::__getitem__",  "aten::_set_item", "aten::Delete",
                  "aten::index", "aten::count",   "aten::__contains__", "aten::dict"};
  if (has_container && kNames->contains(s.op.name()) && !s.arguments.empty() && IsElementContainer(s.arguments[0].type))
    return true;
  return has_type_variable && s.op.name() != "aten::as_tensor" && s.op.name() != "aten::tensor";
}

void ApplyHidden(OpEffects* e, absl::string_view line, const FunctionSchema& s) {
  std::vector<absl::string_view> fields = absl::StrSplit(line, '\t');
  absl::string_view name = s.op.name();
  for (size_t f = 1; f < fields.size(); ++f) {
    std::vector<absl::string_view> w = absl::StrSplit(fields[f], ' ');
    auto number = [&](size_t i) {
      int n = -1;
      return i < w.size() && absl::SimpleAtoi(w[i], &n) ? n : -1;
    };
    if (w.size() == 3 && w[0] == "writes") {
      int i = number(2);
      if (i < 0 || i >= static_cast<int>(e->args.size())) continue;
      e->args[i] |= IsTensorList(s.arguments[i].type) ? kWritesElements : kWritesData;
      e->writes = true;
    } else if (w.size() == 6 && w[0] == "output" && w[4] == "input") {
      int k = number(1), i = number(5);
      if (k < 0 || k >= static_cast<int>(e->results.size()) || i < 0 || i >= static_cast<int>(s.arguments.size()))
        continue;
      ResultEffects& r = e->results[k];
      bool list_result = IsElementContainer(s.returns[k].type), list_arg = IsElementContainer(s.arguments[i].type);
      bool may_be_self = !NewHandles().contains(name);
      r.fresh = true;
      if (list_result) {
        if (list_arg) {
          r.elements_element_view |= Bit(i);
          if (may_be_self) r.elements_element |= Bit(i);
        } else {
          r.elements_view |= Bit(i);
          if (may_be_self) r.elements_self |= Bit(i);
        }
        r.elements_fresh = !HiddenPureViews().contains(name);
      } else {
        if (list_arg) {
          r.element_view |= Bit(i);
          if (may_be_self) r.element |= Bit(i);
        } else {
          r.view |= Bit(i);
          if (may_be_self) r.self |= Bit(i);
        }
        r.fresh = !HiddenPureViews().contains(name);
      }
      if (HiddenPureViews().contains(name)) {
        e->args[i] &= ~static_cast<uint16_t>(kReadsData | kReadsElements);
      }
    } else if (w.size() == 6 && w[0] == "outputs") {
      int k = number(1), l = number(3);
      if (k < 0 || l < 0 || k >= static_cast<int>(e->results.size()) || l >= static_cast<int>(e->results.size()))
        continue;
      if (k == l) {
        if (!Partitions().contains(name)) e->results[k].elements_overlap = true;
      } else {
        e->results[std::max(k, l)].overlaps_results |= 1u << std::min(k, l);
      }
    } else if (w.size() == 6 && w[0] == "input") {
      e->geometry_from = number(5);
    } else if (w[0] == "draws") {
      e->random = true;
    }
  }
}

const absl::flat_hash_map<absl::string_view, absl::string_view>& HiddenLines() {
  static const auto* const kLines = [] {
    auto* lines = new absl::flat_hash_map<absl::string_view, absl::string_view>();
    for (absl::string_view line : absl::StrSplit(absl::string_view(kHiddenEffects), '\n')) {
      if (line.empty() || line[0] == '#') continue;
      size_t tab = line.find('\t');
      if (tab == absl::string_view::npos || line.substr(tab + 1) == "not run") continue;
      lines->emplace(line.substr(0, tab), line);
    }
    return lines;
  }();
  return *kLines;
}

// Derives the effects in one pass over the schema, then corrects them by the tables of this folder. The corrections
// depend on their order, so they stand in one function.
OpEffects FromSchema(const FunctionSchema& s) {
  OpEffects e;
  const std::string& name = s.op.name();
  if (MakeSpecial(name, &e)) return e;
  if (s.is_vararg || s.is_varret) return UnknownEffects();
  const bool declared = s.op.IsDeclared();
  const bool container_op = IsContainerOp(s) && !declared;
  const bool geometry_reader = GeometryReaders().contains(name);
  bool any_memory = false;
  for (const Argument& a : s.arguments) {
    uint16_t bits = 0;
    const Type& u = Unwrap(a.type);
    if (u.IsTensor()) {
      bits = kReadsGeometry | (geometry_reader ? 0 : kReadsData);
    } else if (u.kind() == TypeKind::kList || u.kind() == TypeKind::kDict) {
      bits = kReadsContainer;
      if (!container_op && IsTensorList(u)) bits |= kReadsElements | kReadsGeometry;
    } else if (FormalMayAlias(a.type) && !IsTypeVariable(u)) {
      bits = kReadsAll;
    }
    if (bits != 0 || FormalMayAlias(a.type)) any_memory = true;
    if (AnyWrite(a.alias) && !container_op) {
      e.writes = true;
      if (u.IsTensor()) {
        if (GeometryWriters().contains(name) && !a.kw_only) {
          bits = kWritesGeometry | kReadsGeometry;
        } else {
          bits |= kWritesData;
          if (a.kw_only && !declared) {
            bits |= kWritesGeometry;
            e.by = OpEffects::By::kOut;
          }
        }
      } else {
        bits |= kWritesElements;
        if (a.kw_only && !declared) bits |= kReshapesElements;
      }
    }
    e.args.push_back(bits);
  }
  for (const Argument& r : s.returns) {
    ResultEffects out;
    if (FormalMayAlias(r.type)) {
      any_memory = true;
      const bool list_result = IsElementContainer(r.type);
      const AliasInfo& elements = list_result && !r.alias.contained.empty() ? r.alias.contained[0] : r.alias;
      uint64_t self = 0, view = 0, element = 0;
      for (size_t i = 0; i < s.arguments.size(); ++i) {
        const Argument& a = s.arguments[i];
        const AliasInfo& info =
            IsElementContainer(a.type) && !a.alias.contained.empty() ? a.alias.contained[0] : a.alias;
        if (!SharesSet(elements, info.before) && !SharesSet(elements, a.alias.before)) continue;
        if (IsElementContainer(a.type)) {
          element |= Bit(i);
        } else if (elements.is_write && info.is_write) {
          self |= Bit(i);
        } else if (Unwrap(a.type).IsTensor()) {
          view |= Bit(i);
        } else {
          self |= Bit(i);
        }
      }
      if (container_op && r.alias.is_write) {
        out.self = element | self;
      } else if (list_result) {
        out.fresh = true;
        out.elements_self = self;
        out.elements_view = view;
        out.elements_element = element;
        out.elements_fresh = (self | view | element) == 0;
        out.partition = view != 0 && Partitions().contains(name);
      } else {
        out.self = self;
        out.view = view;
        out.element = element;
        out.fresh = (self | view | element) == 0;
        out.unknown = elements.IsWildcardAfter() && !container_op;
        if (MayBeItself().contains(name)) {
          out.self |= view;
          e.by = OpEffects::By::kItself;
        }
        if (MayCopy().contains(name) && view != 0) {
          out.fresh = true;
          if (!NewHandles().contains(name)) out.self |= view;
        } else if (view != 0 && !s.IsMutable() && !declared) {
          // A view reads no bytes.
          for (size_t i = 0; i < s.arguments.size(); ++i) e.args[i] &= ~static_cast<uint16_t>(kReadsData);
        }
      }
      if (declared) {
        // Only PyTorch's views are known to be views in every call, to be handles of their own, and to read no bytes.
        out.self |= out.view;
        out.element_view |= out.element;
        out.fresh |= (out.view | out.element) != 0;
        out.elements_self |= out.elements_view;
        out.elements_element_view |= out.elements_element;
        out.elements_fresh |= (out.elements_view | out.elements_element) != 0;
      } else if (out.elements_view != 0 && !s.IsMutable()) {
        for (size_t i = 0; i < s.arguments.size(); ++i) e.args[i] &= ~static_cast<uint16_t>(kReadsData);
      }
    }
    e.results.push_back(out);
  }
  if (container_op) {
    DescribeContainers(s, &e);
    for (uint16_t a : e.args) e.writes |= (a & kWritesContainer) != 0;
  }
  if (declared) {
    // The tables below are of PyTorch's operators. One that returns nothing does something else.
    e.side_effect = s.returns.empty();
    if (!any_memory && !e.side_effect) e.kind = EffectKind::kScalar;
    return e;
  }
  if (auto hidden = HiddenLines().find(s.op.full()); hidden != HiddenLines().end()) ApplyHidden(&e, hidden->second, s);
  for (size_t k = 0; k < e.results.size(); ++k) {
    if (Partitions().contains(name)) e.results[k].partition = IsElementContainer(s.returns[k].type);
  }

  // Describes by hand the effects in PyTorch that neither the schema nor testdata/hidden_effects.txt contains.
  if (name == "aten::set_" || name == "aten::set_data") {
    for (size_t i = 1; i < s.arguments.size(); ++i) {
      if (Unwrap(s.arguments[i].type).IsTensor()) {
        e.geometry_from = static_cast<int>(i);
        e.args[i] = kReadsGeometry;
      } else if (absl::StrContains(s.arguments[i].type_text, "Storage")) {
        e.storage_unknown = true;
      }
    }
    if (!e.args.empty()) e.args[0] = kWritesGeometry | kReadsGeometry;
    e.writes = true;
  }
  if ((name == "aten::expand_as" || name == "aten::view_as" || name == "aten::reshape_as" || name == "aten::type_as" ||
       name == "aten::resize_as_" || name == "aten::broadcast_to") &&
      e.args.size() > 1) {
    e.args[1] &= ~static_cast<uint16_t>(kReadsData);
  }
  e.keeps_geometry = name == "aten::detach_" || name == "aten::rename_" || name == "aten::requires_grad_" ||
                     name == "aten::retain_grad" || name == "aten::retain_grad_";
  e.takes_strides = name == "aten::empty_strided" || name == "aten::new_empty_strided";
  if (effects_internal::TakesSizes().contains(name)) {
    for (size_t i = 0; i < s.arguments.size(); ++i) {
      if (s.arguments[i].name == "size") e.sizes_arg = static_cast<int8_t>(i);
      if (s.arguments[i].name == "memory_format") e.format_arg = static_cast<int8_t>(i);
    }
  }
  if (name == "aten::_size_if_not_equal" && !e.results.empty()) {
    e.results[0].self = 1;
    e.results[0].fresh = true;
  }

  auto argument = [&](absl::string_view a) { return static_cast<int8_t>(s.FindArgument(a)); };
  if (absl::StrContains(name, "batch_norm") || absl::StrContains(name, "instance_norm")) {
    for (absl::string_view flag : {"training", "train", "use_input_stats"}) {
      if (int8_t i = argument(flag); i >= 0) {
        e.by = OpEffects::By::kTraining;
        e.by_arg = i;
        for (absl::string_view stat : {"running_mean", "running_var"}) {
          if (int8_t k = argument(stat);
              k >= 0 && !absl::StrContains(name, "no_training") && !absl::StrContains(name, "backward") &&
              !absl::StrContains(name, "functional") && !absl::StrContains(name, "no_stats")) {
            e.args[k] |= kWritesData;
            e.writes = true;
          }
        }
        break;
      }
    }
  } else if (absl::StrContains(name, "dropout") && argument("train") >= 0) {
    e.by = OpEffects::By::kDropout;
    e.by_arg = argument("train");
    e.by_arg2 = argument("p");
  } else if (name == "aten::to" && argument("copy") >= 0) {
    e.by = OpEffects::By::kTo;
    e.by_arg = argument("copy");
    e.by_arg2 = s.op.overload() == "dtype" ? argument("dtype") : -1;
    for (size_t i = 1; i < e.args.size(); ++i) e.args[i] &= ~static_cast<uint16_t>(kReadsData);
  } else if (name == "aten::contiguous") {
    e.by = OpEffects::By::kContiguous;
    e.by_arg = 1;
  } else if (name == "aten::reshape" || name == "aten::flatten" || name == "aten::ravel") {
    e.by = OpEffects::By::kReshape;
    if (name == "aten::reshape") e.by_arg = 1;
    if (name == "aten::flatten") e.by_arg2 = 1;
  } else if (name == "aten::sum_to_size") {
    e.by = OpEffects::By::kSumTo;
    e.by_arg = 1;
  } else if (name == "aten::type_as") {
    e.by = OpEffects::By::kTypeAs;
  } else if (name == "aten::unsafe_split" || name == "aten::unsafe_split_with_sizes" || name == "aten::unsafe_chunk") {
    e.by = OpEffects::By::kLazy;
  } else if (e.by != OpEffects::By::kNothing) {
    // A result that is given: see kOut.
  } else if (name == "aten::einsum" || name == "aten::cartesian_prod" || name == "aten::flatten_dense_tensors") {
    e.by = OpEffects::By::kOfOne;
    e.by_arg = argument("tensors");
  } else if (int8_t p = std::max(argument("dropout_p"), argument("dropout"));
             p >= 0 && !absl::StrContains(name, "backward") && name != "aten::_fused_sdp_choice") {
    // Attention, and networks with dropout between their layers.
    e.random = true;
    e.by = OpEffects::By::kDraws;
    e.by_arg = argument("train");
    e.by_arg2 = p;
  } else if (name == "aten::embedding_backward" || name == "aten::gather_backward") {
    e.by = OpEffects::By::kSparse;
    e.by_arg = std::max(argument("sparse"), argument("sparse_grad"));
  } else if (absl::StartsWith(name, "aten::rrelu") && argument("training") >= 0) {
    e.by = OpEffects::By::kDraws;
    e.by_arg = argument("training");
  }
  e.random |= RandomNames().contains(name);
  e.side_effect |= SideEffects().contains(name);
  for (const Argument& a : s.arguments) {
    if (absl::StrContains(a.type_text, "Generator")) e.random = true;
  }
  if (!any_memory && !e.random && !e.side_effect) e.kind = EffectKind::kScalar;
  return e;
}

void Finish(OpEffects* e) {
  e->pure = !e->writes && !e->random && !e->side_effect &&
            (e->kind == EffectKind::kGeneric || e->kind == EffectKind::kScalar);
  auto plain = [](const ResultEffects& r) {
    return r.self == 0 && r.view == 0 && r.element == 0 && r.element_view == 0 && !r.unknown && r.elements_self == 0 &&
           r.elements_view == 0 && r.elements_element == 0 && r.elements_element_view == 0 && !r.elements_fresh &&
           !r.elements_unknown;
  };
  for (const ResultEffects& r : e->results) e->pure &= plain(r);
  e->pure &= plain(e->more_results);
}

void Or(ResultEffects* a, const ResultEffects& b) {
  a->self |= b.self;
  a->view |= b.view;
  a->element |= b.element;
  a->element_view |= b.element_view;
  a->fresh |= b.fresh;
  a->unknown |= b.unknown;
  a->elements_self |= b.elements_self;
  a->elements_view |= b.elements_view;
  a->elements_element |= b.elements_element;
  a->elements_element_view |= b.elements_element_view;
  a->elements_fresh |= b.elements_fresh;
  a->elements_unknown |= b.elements_unknown;
  a->elements_deep |= b.elements_deep;
  a->elements_overlap |= b.elements_overlap;
  a->slot_arg = -1;
  a->partition = false;
  a->overlaps_results |= b.overlaps_results;
}

// A name without an overload has the effects of all its overloads.
OpEffects UnionOf(const std::vector<const FunctionSchema*>& overloads) {
  OpEffects e = FromSchema(*overloads[0]);
  for (size_t i = 1; i < overloads.size(); ++i) {
    OpEffects o = FromSchema(*overloads[i]);
    if (o.kind == EffectKind::kUnknown) return o;
    if (o.args.size() > e.args.size()) e.args.resize(o.args.size());
    for (size_t k = 0; k < o.args.size(); ++k) e.args[k] |= o.args[k];
    if (o.results.size() > e.results.size()) e.results.resize(o.results.size());
    for (size_t k = 0; k < o.results.size(); ++k) Or(&e.results[k], o.results[k]);
    if (e.kind == EffectKind::kScalar) e.kind = o.kind;
    e.random |= o.random;
    e.side_effect |= o.side_effect;
    e.writes |= o.writes;
    e.storage_unknown |= o.storage_unknown;
    e.takes_strides |= o.takes_strides;
    e.keeps_geometry &= o.keeps_geometry;
    if (o.sizes_arg != e.sizes_arg || o.format_arg != e.format_arg) e.sizes_arg = -1;
    if (o.geometry_from >= 0) e.geometry_from = o.geometry_from;
    e.by = OpEffects::By::kNothing;
  }
  return e;
}

OpEffects Make(OpName op) {
  OpEffects e;
  const FunctionSchema* schema = FindSchema(op);
  if (schema != nullptr) {
    e = FromSchema(*schema);
  } else if (MakeSpecial(op.name(), &e)) {
  } else if (op.full() == "smelt::view") {
    e.args = {kReadsGeometry};
    e.results.resize(1);
    e.results[0].view = 1;
  } else if (std::vector<const FunctionSchema*> overloads = FindOverloads(op.name());
             !overloads.empty() && op.overload().empty()) {
    e = UnionOf(overloads);
  } else {
    e = UnknownEffects();
  }
  if (op.full() == "smelt::view" && !e.results.empty()) {
    e.args = {kReadsGeometry};
    e.results[0] = ResultEffects();
    e.results[0].view = 1;
  }
  // Operators of the pure form (docs/architecture.md): the result takes over the memory of its first argument, which
  // matters wherever the order of nodes does.
  const bool acts = absl::StartsWith(op.name(), "smelt::inplace_");
  if (acts) e = GetOpEffects(OpName::Get(absl::StrCat("aten::", op.full().substr(sizeof("smelt::inplace_") - 1))));
  if ((acts || op.full() == "smelt::write_region") && !e.args.empty()) {
    e.args[0] |= kWritesData;
    e.results.resize(1);
    e.results[0] = ResultEffects();
    e.results[0].self = 1;
    e.writes = true;
  }
  Finish(&e);
  return e;
}

}  // namespace

bool IsTensorType(const Type& t) { return Unwrap(t).IsTensor(); }

// prim::Constant[name="f"] passes a function to prim::CallFunction, and a member of an enumeration is a name. Neither
// holds memory.
static bool HoldsNothing(const Type& t) {
  return t.kind() == TypeKind::kClass && (t.class_name() == "Function" || absl::StartsWith(t.class_name(), "Enum<"));
}

bool IsContainerType(const Type& t) {
  switch (Unwrap(t).kind()) {
    case TypeKind::kList:
    case TypeKind::kTuple:
    case TypeKind::kDict:
    case TypeKind::kFuture:
    case TypeKind::kUnion:
    case TypeKind::kAny:
      return true;
    case TypeKind::kClass:
      return !HoldsNothing(Unwrap(t));
    default:
      return false;
  }
}

bool IsAliasingType(const Type& t) {
  switch (t.kind()) {
    case TypeKind::kTensor:
    case TypeKind::kList:
    case TypeKind::kDict:
    case TypeKind::kFuture:
    case TypeKind::kAny:
      return true;
    case TypeKind::kClass:
      return !HoldsNothing(t);
    case TypeKind::kOptional:
      return IsAliasingType(t.element());
    case TypeKind::kUnion:
    case TypeKind::kTuple:
      for (const Type& e : t.elements()) {
        if (IsAliasingType(e)) return true;
      }
      return false;
    default:
      return false;
  }
}

namespace {

const OpEffects* FindOpEffects(OpName op) {
  static absl::Mutex mutex;
  static auto* const cache = new absl::flat_hash_map<OpName, std::unique_ptr<const OpEffects>>();
  {
    absl::ReaderMutexLock lock(&mutex);
    auto it = cache->find(op);
    if (it != cache->end()) return it->second.get();
  }
  auto made = std::make_unique<const OpEffects>(Make(op));
  absl::MutexLock lock(&mutex);
  auto [it, inserted] = cache->try_emplace(op, std::move(made));
  return it->second.get();
}

}  // namespace

const OpEffects& GetOpEffects(OpName op) { return *op_internal::Recent<OpEffects>(op, FindOpEffects); }

}  // namespace smelt
