#include "smelt/tools/inspect_bundle.h"

#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/sha256.h"
#include "smelt/core/tensor/dtype.h"

namespace smelt {

namespace {

using Json = nlohmann::ordered_json;

const char* const kVariants[] = {"distinct", "duplicate", "overlap", "eager-order"};
const char* const kOtherStrides[] = {"refused", "copied-in-order", "copied"};
const char* const kSlots[] = {"argument", "state", "arena", "fresh", "heap"};
const char* const kArgs[] = {"tensor", "int", "float", "bool", "none", "string", "complex"};
const char* const kOutputs[] = {
    "is-argument", "alias-of-argument", "alias-of-state", "alias-of-intermediate", "fresh", "scalar",
    "none",        "is-state"};

template <size_t N>
const char* Word(const char* const (&names)[N], size_t i) {
  return i < N ? names[i] : "?";
}

class Inspector {
 public:
  Inspector(const fb::BundleT& b, const Container& file) : b_(b), file_(file) {}

  Json Run() {
    Json out;
    out["file"] = file_.name();
    out["model"] = b_.model_name;
    out["format"] = b_.format;
    out["abi"] = b_.abi;
    out["bytes"] = file_.file_bytes();
    out["signature"] = Signature();
    Json plans = Json::array();
    for (const auto& p : b_.plans) plans.push_back(PlanJson(*p));
    if (!b_.plans.empty()) out["convention"] = plans[0]["convention"];
    out["plans"] = plans;
    if (!b_.refused_patterns.empty()) out["refused_patterns"] = b_.refused_patterns;
    Json kernels = Json::array();
    for (const auto& t : b_.targets) {
      for (size_t i = 0; i < b_.kernels.size(); ++i) {
        const std::string& key = t->kernels[i]->key;
        kernels.push_back({{"key", key.empty() ? b_.kernels[i]->key : key},
                           {"spec", b_.kernels[i]->spec},
                           {"target", t->name},
                           {"bytes", t->kernels[i]->size},
                           {"uses", b_.kernels[i]->uses}});
      }
    }
    out["kernels"] = kernels;
    Json targets = Json::array();
    for (const auto& t : b_.targets)
      targets.push_back({{"name", t->name}, {"triple", t->triple}, {"features", t->features}});
    out["targets"] = targets;
    Json weights = Json::array();
    for (const auto& s : b_.states) {
      weights.push_back({{"name", s->name},
                         {"kind", s->kind == fb::StateKind::Parameter ? "parameter"
                                  : s->kind == fb::StateKind::Buffer  ? "buffer"
                                                                      : "constant"},
                         {"dtype", std::string(Name(static_cast<DType>(s->dtype)))},
                         {"sizes", s->sizes},
                         {"strides", s->strides},
                         {"offset", s->offset},
                         {"storage", s->storage}});
    }
    out["weights"] = weights;
    Json storages = Json::array();
    for (const auto& s : b_.storages) storages.push_back({{"bytes", s->bytes}, {"mutated", s->is_mutated}});
    out["storages"] = storages;
    Json segments = Json::array();
    const char* const kinds[] = {"?", "metadata", "weights", "code", "text"};
    for (const Segment& s : file_.segments()) {
      segments.push_back({{"kind", Word(kinds, static_cast<size_t>(s.kind))},
                          {"offset", s.offset},
                          {"bytes", s.size},
                          {"sha256", ToHex(s.digest)}});
    }
    out["segments"] = segments;
    return out;
  }

 private:
  std::string ExprText(int i) const {
    if (i < 0 || i >= static_cast<int>(b_.exprs.size())) return "?";
    const fb::ExprNode& e = b_.exprs[i];
    auto both = [&](const char* op) { return absl::StrCat("(", ExprText(e.a()), " ", op, " ", ExprText(e.b()), ")"); };
    auto call = [&](const char* f) { return absl::StrCat(f, "(", ExprText(e.a()), ", ", ExprText(e.b()), ")"); };
    switch (e.op()) {
      case fb::ExprOp::Constant:
        return absl::StrCat(e.constant());
      case fb::ExprOp::Symbol:
        return e.a() >= 0 && e.a() < static_cast<int>(b_.symbols.size()) ? b_.symbols[e.a()]->name : "?";
      case fb::ExprOp::Add:
        return both("+");
      case fb::ExprOp::Sub:
        return both("-");
      case fb::ExprOp::Mul:
        return both("*");
      case fb::ExprOp::FloorDiv:
        return call("floordiv");
      case fb::ExprOp::Mod:
        return call("mod");
      case fb::ExprOp::Min:
        return call("min");
      case fb::ExprOp::Max:
        return call("max");
      case fb::ExprOp::Eq:
        return both("==");
      case fb::ExprOp::Lt:
        return both("<");
      case fb::ExprOp::Le:
        return both("<=");
      case fb::ExprOp::And:
        return both("and");
      case fb::ExprOp::Or:
        return both("or");
      case fb::ExprOp::Not:
        return absl::StrCat("not ", ExprText(e.a()));
      case fb::ExprOp::Select:
        return absl::StrCat("select(", ExprText(e.a()), ", ", ExprText(e.b()), ", ", ExprText(e.c()), ")");
    }
    return "?";
  }
  // A number where it is one, else the expression's text.
  Json Value(int i) const {
    if (i >= 0 && i < static_cast<int>(b_.exprs.size()) && b_.exprs[i].op() == fb::ExprOp::Constant)
      return b_.exprs[i].constant();
    return ExprText(i);
  }
  Json Values(const std::vector<int>& v) const {
    Json out = Json::array();
    for (int i : v) out.push_back(Value(i));
    return out;
  }

  Json Signature() const {
    Json in = Json::array(), out = Json::array();
    for (const auto& a : b_.args) {
      Json j = {{"name", a->name}, {"kind", Word(kArgs, static_cast<size_t>(a->kind))}};
      if (a->kind == fb::ArgKind::Tensor) {
        j["dtype"] = std::string(Name(static_cast<DType>(a->dtype)));
        j["sizes"] = Values(a->sizes);
        j["strides"] = Values(a->strides);
        if (a->strides_of_ones) j["strides_of_ones"] = true;
        if (a->any_strides) j["any_strides"] = true;
      }
      if (a->kind == fb::ArgKind::Int && a->value >= 0) j["value"] = Value(a->value);
      if (a->has_constant) j["constant"] = true;
      in.push_back(j);
    }
    for (const auto& o : b_.outputs) out.push_back({{"name", o->name}});
    return {{"inputs", in}, {"outputs", out}};
  }

  Json ViewJson(const fb::PlanT& p, int i) const {
    if (i < 0) return nullptr;
    const fb::ViewT& v = *p.views[i];
    const fb::SlotT& s = *p.slots[v.slot];
    return {{"slot", v.slot},
            {"memory", absl::StrCat(Word(kSlots, static_cast<size_t>(s.kind)),
                                    s.kind == fb::SlotKind::ArgStorage || s.kind == fb::SlotKind::StateStorage
                                        ? absl::StrCat(" ", s.index)
                                        : "")},
            {"dtype", std::string(Name(static_cast<DType>(v.dtype)))},
            {"sizes", Values(v.sizes)},
            {"strides", Values(v.strides)},
            {"offset", Value(v.offset)}};
  }
  Json ViewList(const fb::PlanT& p, const std::vector<int>& v) const {
    Json out = Json::array();
    for (int i : v) out.push_back(ViewJson(p, i));
    return out;
  }

  Json ConventionJson(const fb::PlanT& p) const {
    const fb::ConventionT& c = *p.convention;
    Json out;
    out["duplicates"] = c.duplicates ? Json(c.duplicates->inner_of_outer) : Json::array();
    Json groups = Json::array();
    if (c.overlaps) {
      for (const auto& g : c.overlaps->groups) groups.push_back(g->members);
    }
    out["overlaps"] = groups;
    Json mutated = Json::array();
    if (c.mutated) {
      for (const auto& m : c.mutated->inputs) {
        Json kinds = Json::array();
        const char* const names[] = {"data", "geometry", "storage", "resized"};
        for (int k = 0; k < 4; ++k) {
          if (m->flags & (1 << k)) kinds.push_back(names[k]);
        }
        Json j = {{m->is_state ? "state" : "argument", m->arg}, {"kinds", kinds}, {"written", ViewList(p, m->written)}};
        if (m->final_view >= 0) j["final"] = ViewJson(p, m->final_view);
        mutated.push_back(j);
      }
    }
    out["mutated_inputs"] = mutated;
    Json outputs = Json::array();
    if (c.outputs) {
      for (const auto& o : c.outputs->outputs) {
        Json j = {{"kind", Word(kOutputs, static_cast<size_t>(o->kind))}};
        if (o->index >= 0) j["index"] = o->index;
        if (o->view >= 0) j["view"] = ViewJson(p, o->view);
        if (o->expr >= 0) j["value"] = Value(o->expr);
        outputs.push_back(j);
      }
    }
    out["outputs"] = outputs;
    return out;
  }

  Json StepJson(const fb::PlanT& p, const fb::StepT& s) const {
    Json j;
    switch (s.step.type) {
      case fb::StepUnion::Launch: {
        const fb::LaunchT& l = *s.step.AsLaunch();
        j = {{"launch", l.kernel},
             {"tiles", Value(l.tiles)},
             {"reads", ViewList(p, l.reads)},
             {"writes", ViewList(p, l.writes)}};
        if (l.sequential) j["sequential"] = true;
        break;
      }
      case fb::StepUnion::LibraryCall: {
        const fb::LibraryCallT& l = *s.step.AsLibraryCall();
        j = {{"library", l.op},
             {"inputs", ViewList(p, l.inputs)},
             {"outputs", ViewList(p, l.outputs)},
             {"ints", Values(l.ints)}};
        if (l.epilogue) j["epilogue"] = "the next launch, on each part of the result";
        break;
      }
      case fb::StepUnion::Copy: {
        const fb::CopyT& c = *s.step.AsCopy();
        j = {{"copy", ViewJson(p, c.src)}, {"to", ViewJson(p, c.dst)}, {"copy_back", c.copy_back}};
        break;
      }
      case fb::StepUnion::Check:
        j = {{"check", s.step.AsCheck()->message}};
        break;
      case fb::StepUnion::ReadScalar:
        j = {{"read_scalar", ViewJson(p, s.step.AsReadScalar()->view)}, {"register", s.step.AsReadScalar()->register_}};
        break;
      case fb::StepUnion::Alloc:
        j = {{"alloc", s.step.AsAlloc()->slot}};
        break;
      case fb::StepUnion::If:
        j = {{"if", s.step.AsIf()->predicate},
             {"then_block", s.step.AsIf()->then_block},
             {"else_block", s.step.AsIf()->else_block}};
        break;
      case fb::StepUnion::While:
        j = {{"while", s.step.AsWhile()->predicate},
             {"cond_block", s.step.AsWhile()->cond_block},
             {"body_block", s.step.AsWhile()->body_block}};
        break;
      case fb::StepUnion::Random:
        j = {{"random", static_cast<int>(s.step.AsRandom()->kind)}, {"out", ViewJson(p, s.step.AsRandom()->out)}};
        break;
      case fb::StepUnion::SetRegister:
        j = {{"set_register", s.step.AsSetRegister()->register_}};
        break;
      case fb::StepUnion::ComputeNumber:
        j = {{"compute_number", fb::EnumNameNumberFunction(s.step.AsComputeNumber()->function)},
             {"inputs", s.step.AsComputeNumber()->inputs},
             {"register", s.step.AsComputeNumber()->register_}};
        break;
      default:
        j = {{"step", "?"}};
    }
    if (!s.source.empty()) j["source"] = s.source;
    return j;
  }

  Json PlanJson(const fb::PlanT& p) const {
    Json out;
    out["variant"] = Word(kVariants, static_cast<size_t>(p.variant));
    out["needs_exported_strides"] = p.needs_exported_strides;
    out["other_strides"] = Word(kOtherStrides, static_cast<size_t>(p.other_strides));
    Json guards = Json::array();
    for (const auto& g : p.guards) guards.push_back({{"holds", ExprText(g->expr)}, {"else", g->message}});
    out["guards"] = guards;
    out["arena_bytes"] = Value(p.arena_bytes);
    out["convention"] = ConventionJson(p);
    Json blocks = Json::array();
    for (const auto& b : p.blocks) {
      Json steps = Json::array();
      for (const auto& s : b->steps) steps.push_back(StepJson(p, *s));
      blocks.push_back(steps);
    }
    out["steps"] = blocks.empty() ? Json::array() : blocks[0];
    if (blocks.size() > 1) out["blocks"] = blocks;
    return out;
  }

  const fb::BundleT& b_;
  const Container& file_;
};

}  // namespace

nlohmann::ordered_json DescribeBundle(const fb::BundleT& bundle, const Container& file) {
  return Inspector(bundle, file).Run();
}

void PrintDescription(const nlohmann::ordered_json& j) {
  std::printf("%s: bundle of %s, format %d, %lld bytes\n", j["file"].get<std::string>().c_str(),
              j["model"].get<std::string>().c_str(), j["format"].get<int>(),
              static_cast<long long>(j["bytes"].get<int64_t>()));
  std::printf("signature\n");
  for (const Json& a : j["signature"]["inputs"]) std::printf("  in   %s\n", a.dump().c_str());
  for (const Json& o : j["signature"]["outputs"]) std::printf("  out  %s\n", o["name"].get<std::string>().c_str());
  for (const Json& p : j["plans"]) {
    std::printf("plan for %s arguments, arena %s bytes\n", p["variant"].get<std::string>().c_str(),
                p["arena_bytes"].dump().c_str());
    for (const auto& g : p["guards"]) std::printf("  where %s\n", g["holds"].dump().c_str());
    std::printf("  convention\n");
    for (auto it = p["convention"].begin(); it != p["convention"].end(); ++it)
      std::printf("    %s: %s\n", it.key().c_str(), it->dump().c_str());
    int k = 0;
    for (const Json& s : p["steps"]) std::printf("  %3d %s\n", k++, s.dump().c_str());
  }
  std::printf("kernels\n");
  for (const Json& k : j["kernels"]) {
    std::printf("  %.16s %s %lld bytes, used %d times\n", k["key"].get<std::string>().c_str(),
                k["target"].get<std::string>().c_str(), static_cast<long long>(k["bytes"].get<int64_t>()),
                k["uses"].get<int>());
  }
  std::printf("weights\n");
  for (const Json& w : j["weights"]) std::printf("  %s\n", w.dump().c_str());
  std::printf("segments\n");
  for (const Json& s : j["segments"]) std::printf("  %s\n", s.dump().c_str());
}

}  // namespace smelt
