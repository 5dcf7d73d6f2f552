#include "smelt/tools/inspect_bundle.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "smelt/core/base/sha256.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/runtime/json_text.h"
#include "smelt/schema/bundle_signature.h"

namespace smelt {

namespace {

using Json = nlohmann::ordered_json;

const char* const kVariants[] = {"distinct", "duplicate", "overlap", "eager-order"};
const char* const kOtherStrides[] = {"refused", "copied-in-order", "copied"};
const char* const kSlots[] = {"argument", "state", "arena", "fresh", "heap"};
const char* const kArgs[] = {"tensor", "int", "float", "bool", "none", "string", "complex"};
const char* const kStructures[] = {"leaf", "tuple", "list", "dict", "namedtuple", "object", "none"};
const char* const kOutputs[] = {
    "is-argument", "alias-of-argument", "alias-of-state", "alias-of-intermediate", "fresh", "scalar",
    "none",        "is-state"};

template <size_t N>
const char* Word(const char* const (&names)[N], size_t i) {
  return i < N ? names[i] : "?";
}

// A name that comes from the file: control characters would steer a terminal.
std::string Printable(absl::string_view text) {
  std::string out;
  for (char c : text) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) {
      absl::StrAppendFormat(&out, "\\x%02x", static_cast<unsigned char>(c));
    } else {
      out.push_back(c);
    }
  }
  return out;
}

class Inspector {
 public:
  Inspector(const fb::BundleT& b, const Container& file) : b_(b), file_(file) {
    const int metadata = file.Find(SegmentKind::kMetadata);
    const int64_t bytes = metadata < 0 ? 0 : file.segments()[metadata].size;
    most_ = left_ = kTimesMetadata * bytes + (int64_t{16} << 20);
  }

  absl::StatusOr<Json> Run() {
    Json out = Describe();
    if (left_ >= 0) return out;
    return absl::ResourceExhaustedError(absl::StrCat(
        file_.name(), ": a description of it takes more than ", most_,
        " bytes, out of proportion to the file: its steps or kernels name the same large things over and over"));
  }

 private:
  // A view or an expression is written out wherever a step names it. The description of a bundle that smelt made is
  // shorter than its metadata, and takes a few times as much memory.
  static constexpr int64_t kTimesMetadata = 40;

  Json Describe() {
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
    out["plans"] = std::move(plans);
    if (!b_.refused_patterns.empty()) out["refused_patterns"] = b_.refused_patterns;
    for (const auto& op : b_.custom_operators) out["custom_operators"].push_back(op->schema);
    Json kernels = Json::array();
    for (const auto& t : b_.targets) {
      for (size_t i = 0; i < b_.kernels.size() && Fits(200 + b_.kernels[i]->spec.size() + t->name.size()); ++i) {
        const std::string& key = t->kernels[i]->key;
        kernels.push_back({{"key", key.empty() ? b_.kernels[i]->key : key},
                           {"spec", b_.kernels[i]->spec},
                           {"target", t->name},
                           {"bytes", t->kernels[i]->size},
                           {"uses", b_.kernels[i]->uses}});
      }
    }
    out["kernels"] = std::move(kernels);
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

  // Returns whether the description has room for so many more bytes, and takes them.
  bool Fits(size_t bytes) const {
    left_ -= static_cast<int64_t>(bytes);
    return left_ >= 0;
  }

  std::string ExprText(int i) const {
    if (left_ < 0) return "";
    std::string out = ::smelt::ExprText(b_, i);
    Fits(out.size());
    return out;
  }
  // A number where it is one, else the expression's text.
  Json Value(int i) const {
    if (i >= 0 && i < static_cast<int>(b_.exprs.size()) && b_.exprs[i].op() == fb::ExprOp::Constant)
      return b_.exprs[i].constant();
    return ExprText(i);
  }
  Json Values(const std::vector<int>& v) const {
    Json out = Json::array();
    for (int i : v) {
      if (!Fits(sizeof(Json))) break;
      out.push_back(Value(i));
    }
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
    const std::vector<ResultType> types = ResultTypes(b_);
    for (size_t i = 0; i < b_.outputs.size(); ++i) {
      const fb::OutputDefT& o = *b_.outputs[i];
      const ResultType& type = types[i];
      Json j = {{"name", o.name}};
      if (!o.node.empty()) j["node"] = o.node;
      j["kind"] = Word(kArgs, static_cast<size_t>(type.kind));
      if (type.dtype >= 0) j["dtype"] = std::string(Name(static_cast<DType>(type.dtype)));
      if (type.has_sizes) {
        j["sizes"] = Json::array();
        for (const ResultSize& s : type.sizes) {
          if (!Fits(sizeof(Json))) break;
          j["sizes"].push_back(s.expr >= 0 ? Value(s.expr) : s.number >= 0 ? Json(s.number) : Json(nullptr));
        }
      }
      out.push_back(std::move(j));
    }
    Json signature = {{"inputs", in}, {"outputs", out}};
    if (!b_.argument_structure.empty()) signature["arguments"] = StructureJson(b_.argument_structure);
    if (!b_.result_structure.empty()) signature["results"] = StructureJson(b_.result_structure);
    return signature;
  }

  // A node before its children, each with its key.
  static Json StructureJson(const std::vector<std::unique_ptr<fb::StructureNodeT>>& nodes) {
    Json out = Json::array();
    for (const auto& n : nodes) {
      Json j = {{"kind", Word(kStructures, static_cast<size_t>(n->kind))}};
      if (n->key_kind == fb::StructureKey::Name) j["key"] = n->key;
      if (n->key_kind == fb::StructureKey::Number) j["number"] = n->key;
      if (!n->type.empty()) j["type"] = n->type;
      if (n->by_name) j["by_name"] = true;
      if (n->children > 0) j["children"] = n->children;
      out.push_back(std::move(j));
    }
    return out;
  }

  Json ViewJson(const fb::PlanT& p, int i) const {
    // The description of a view without dims.
    if (i < 0 || !Fits(600)) return nullptr;
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
    for (int i : v) {
      if (!Fits(sizeof(Json))) break;
      out.push_back(ViewJson(p, i));
    }
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
    out["other_strides"] =
        p.result_rule.empty() ? Word(kOtherStrides, static_cast<size_t>(p.other_strides)) : "copied-by-rule";
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
  int64_t most_;
  mutable int64_t left_;  // bytes of the description
};

}  // namespace

absl::StatusOr<nlohmann::ordered_json> DescribeBundle(const fb::BundleT& bundle, const Container& file) {
  return Inspector(bundle, file).Run();
}

std::string DescriptionText(const nlohmann::ordered_json& j) {
  std::string out;
  absl::StrAppendFormat(&out, "%s: bundle of %s, format %d, %d bytes\n", j["file"].get<std::string>(),
                        Printable(j["model"].get<std::string>()), j["format"].get<int>(), j["bytes"].get<int64_t>());
  absl::StrAppendFormat(&out, "signature\n");
  for (const Json& a : j["signature"]["inputs"]) absl::StrAppendFormat(&out, "  in   %s\n", JsonText(a));
  for (const Json& o : j["signature"]["outputs"])
    absl::StrAppendFormat(&out, "  out  %s\n", Printable(o["name"].get<std::string>()));
  for (const Json& p : j["plans"]) {
    absl::StrAppendFormat(&out, "plan for %s arguments, arena %s bytes\n", p["variant"].get<std::string>(),
                          JsonText(p["arena_bytes"]));
    for (const auto& g : p["guards"]) absl::StrAppendFormat(&out, "  where %s\n", JsonText(g["holds"]));
    absl::StrAppendFormat(&out, "  convention\n");
    for (auto it = p["convention"].begin(); it != p["convention"].end(); ++it)
      absl::StrAppendFormat(&out, "    %s: %s\n", it.key(), JsonText(*it));
    int k = 0;
    for (const Json& s : p["steps"]) absl::StrAppendFormat(&out, "  %3d %s\n", k++, JsonText(s));
  }
  absl::StrAppendFormat(&out, "kernels\n");
  for (const Json& k : j["kernels"]) {
    absl::StrAppendFormat(&out, "  %.16s %s %d bytes, used %d times\n", k["key"].get<std::string>(),
                          Printable(k["target"].get<std::string>()), k["bytes"].get<int64_t>(), k["uses"].get<int>());
  }
  absl::StrAppendFormat(&out, "weights\n");
  for (const Json& w : j["weights"]) absl::StrAppendFormat(&out, "  %s\n", JsonText(w));
  absl::StrAppendFormat(&out, "segments\n");
  for (const Json& s : j["segments"]) absl::StrAppendFormat(&out, "  %s\n", JsonText(s));
  return out;
}

}  // namespace smelt
