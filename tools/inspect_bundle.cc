#include "smelt/tools/inspect_bundle.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "smelt/core/base/sha256.h"
#include "smelt/core/convention/call_structure.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/runtime/json_text.h"
#include "smelt/schema/bundle_signature.h"
#include "smelt/tools/plain_text.h"

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

const char* const kPlaces[] = {"unknown",  "fresh",    "in-argument", "is-argument",
                               "in-state", "is-state", "shared",      "no-tensor"};

template <size_t N>
const char* Word(const char* const (&names)[N], size_t i) {
  return i < N ? names[i] : "?";
}

// Where a symbol's value comes from.
const char* const kSources[] = {"size", "stride", "offset", "number", "data of the call", "offset", "bytes"};

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
    if (!b_.method.empty()) out["method"] = b_.method;
    if (b_.methods.empty()) AddProgram(out);
    for (const auto& m : b_.methods) {
      Json method = {{"method", m->method}, {"model", m->model_name}};
      Inspector of_method(*m, file_);
      of_method.left_ = left_;
      of_method.AddProgram(method);
      left_ = of_method.left_;
      out["methods"].push_back(std::move(method));
    }
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
                         {"storage", s->storage},
                         {"mutated", b_.storages[s->storage]->is_mutated}});
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

  // The part of the description that each method has for itself.
  void AddProgram(Json& out) const {
    out["signature"] = Signature();
    Json plans = Json::array();
    for (const auto& p : b_.plans) plans.push_back(PlanJson(*p));
    if (!b_.plans.empty()) out["convention"] = plans[0]["convention"];
    out["plans"] = std::move(plans);
    if (!b_.refused_patterns.empty()) out["refused_patterns"] = b_.refused_patterns;
    for (const auto& op : b_.custom_operators) out["custom_operators"].push_back(op->schema);
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
    const std::vector<LeafPath> paths = LeafPaths(StructureOf(b_.argument_structure));
    const std::vector<uint8_t> effects = EffectsOnArguments(b_);
    for (size_t i = 0; i < b_.args.size(); ++i) {
      const auto& a = b_.args[i];
      Json j = {{"name", a->name}};
      if (i < paths.size() && paths[i].text != a->name && Fits(paths[i].text.size())) j["path"] = paths[i].text;
      j["kind"] = Word(kArgs, static_cast<size_t>(a->kind));
      if (a->kind == fb::ArgKind::Tensor) {
        j["dtype"] = std::string(Name(static_cast<DType>(a->dtype)));
        j["sizes"] = Values(a->sizes);
        j["strides"] = Values(a->strides);
        if (a->strides_of_ones) j["strides_of_ones"] = true;
        if (a->any_strides) j["any_strides"] = true;
      }
      if (a->kind == fb::ArgKind::Int && a->value >= 0) j["value"] = Value(a->value);
      if (a->has_constant) {
        j["constant"] = true;
        j["constant_value"] = ConstantOf(*a);
      }
      if (effects[i] != 0) j["effects"] = EffectNames(effects[i]);
      in.push_back(std::move(j));
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
      j["place"] = Word(kPlaces, static_cast<size_t>(type.place));
      if (type.index >= 0) j["index"] = type.index;
      out.push_back(std::move(j));
    }
    Json signature = {{"inputs", std::move(in)}, {"outputs", std::move(out)}};
    signature["symbols"] = Json::array();
    for (const auto& s : b_.symbols) {
      const bool of_argument = s->source != fb::SymbolSource::Data && s->source != fb::SymbolSource::StateOffset;
      Json j = {{"name", s->name}, {"source", Word(kSources, static_cast<size_t>(s->source))}};
      if (s->source != fb::SymbolSource::Data) j[of_argument ? "argument" : "state"] = s->arg;
      if (s->source == fb::SymbolSource::ArgSize || s->source == fb::SymbolSource::ArgStride) j["dim"] = s->dim;
      j["min"] = s->min;
      if (s->max != INT64_MAX) j["max"] = s->max;
      signature["symbols"].push_back(std::move(j));
    }
    if (!b_.argument_structure.empty()) signature["arguments"] = StructureJson(b_.argument_structure);
    if (!b_.result_structure.empty()) signature["results"] = StructureJson(b_.result_structure);
    return signature;
  }

  static Json ConstantOf(const fb::ArgDefT& a) {
    const auto number = [](double v) -> Json {
      if (std::isfinite(v)) return v;
      return std::isnan(v) ? "NaN" : v > 0 ? "Infinity" : "-Infinity";  // JSON has no words for them
    };
    switch (a.kind) {
      case fb::ArgKind::Int:
        return a.int_value;
      case fb::ArgKind::Bool:
        return a.int_value != 0;
      case fb::ArgKind::Float:
        return number(a.float_value);
      case fb::ArgKind::String:
        return a.string_value;
      default:
        return nullptr;
    }
  }
  static Json EffectNames(int flags) {
    Json out = Json::array();
    const char* const names[] = {"data", "geometry", "storage", "resized"};
    for (int k = 0; k < 4; ++k) {
      if (flags & (1 << k)) out.push_back(names[k]);
    }
    return out;
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
        Json j = {{m->is_state ? "state" : "argument", m->arg},
                  {"kinds", EffectNames(m->flags)},
                  {"written", ViewList(p, m->written)}};
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

// "[s0, 20]"; a size that only a call knows is "?".
std::string SizesText(const Json& sizes) {
  std::vector<std::string> texts;
  for (const Json& size : sizes) {
    texts.push_back(size.is_null() ? "?" : size.is_string() ? Printable(size.get<std::string>()) : JsonText(size));
  }
  return absl::StrCat("[", absl::StrJoin(texts, ", "), "]");
}

// Rows of cells, each column as wide as its widest cell.
std::string TableText(const std::vector<std::vector<std::string>>& rows) {
  constexpr size_t kWidest = 60;
  std::vector<size_t> widths;
  for (const std::vector<std::string>& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], std::min(WidthOf(row[c]), kWidest));
  }
  std::string out;
  for (const std::vector<std::string>& row : rows) {
    std::string line = " ";
    for (size_t c = 0; c < row.size(); ++c) {
      absl::StrAppend(&line, " ", row[c]);
      if (const size_t width = WidthOf(row[c]); c + 1 < row.size() && width < widths[c])
        line.append(widths[c] - width, ' ');
      if (c + 1 < row.size()) line += " ";
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    absl::StrAppend(&out, line, "\n");
  }
  return out;
}

constexpr size_t kName = 200;  // of an argument or state, which many lines may name

// The name that the caller has for an argument or a state, shortened; "?" if there is no such number.
std::string NameIn(const Json& list, size_t i) {
  if (i >= list.size()) return "?";
  const char* const field = list[i].contains("path") ? "path" : "name";
  return Printable(Shortened(list[i][field].get<std::string>(), kName));
}

// The description for people.
class Describer {
 public:
  // `program` describes the only method, or one of several; `j` is the bundle's.
  Describer(const Json& j, const Json& program)
      : j_(j), program_(program), in_(program["signature"]["inputs"]), weights_(j["weights"]) {}

  std::string Head() const {
    std::vector<std::string> targets;
    for (const Json& t : j_["targets"]) targets.push_back(Printable(Text(t, "name")));
    std::string out = absl::StrCat(Text(j_, "file"), ": model ", Printable(Text(j_, "model")), ", ",
                                   BytesText(j_["bytes"].get<int64_t>()), ", bundle format ", JsonText(j_["format"]),
                                   targets.empty() ? "" : ", for ", absl::StrJoin(targets, ", "), "\n");
    return out;
  }
  std::string Call() const {
    std::string out;
    Section("arguments", Arguments(), out);
    Section("sizes and numbers that vary", Symbols(), out);
    Section("results", Results(), out);
    return out;
  }
  std::string AllStates() const {
    std::string out;
    Section("states that calls write or return", States(), out);
    Section("weights", Weights(), out);
    return out;
  }
  std::string AllPlans() const {
    std::string out;
    Section("plans", Plans(), out);
    if (program_.contains("refused_patterns"))
      absl::StrAppend(&out, "  other calls are refused: ", Printable(Text(program_, "refused_patterns")), "\n");
    return out;
  }
  std::string File() const {
    std::string out;
    Section("kernels", Kernels(), out);
    Section("file", Segments(), out);
    return out;
  }

 private:
  using Rows = std::vector<std::vector<std::string>>;
  static constexpr size_t kMostKernels = 20;

  static std::string Text(const Json& j, const char* field) { return j[field].get<std::string>(); }
  static void Section(absl::string_view title, const Rows& rows, std::string& out) {
    if (!rows.empty()) absl::StrAppend(&out, "\n", title, "\n", TableText(rows));
  }
  std::string ArgumentName(size_t i) const { return NameIn(in_, i); }
  std::string StateName(size_t i) const { return NameIn(weights_, i); }

  Rows Arguments() const {
    static const std::map<std::string, std::string> kEffects = {{"data", "written"},
                                                                {"geometry", "its sizes or strides are changed"},
                                                                {"storage", "its memory is replaced"},
                                                                {"resized", "its memory may grow"}};
    Rows rows;
    for (size_t i = 0; i < in_.size(); ++i) {
      const Json& a = in_[i];
      std::vector<std::string> row = {ArgumentName(i)};
      std::vector<std::string> notes;
      if (Text(a, "kind") == "tensor") {
        row.push_back(Text(a, "dtype"));
        row.push_back(SizesText(a["sizes"]));
      } else {
        row.push_back(Text(a, "kind"));
        row.push_back("");
        if (a.contains("constant")) {
          notes.push_back(absl::StrCat("always ", Printable(JsonText(a["constant_value"])), ", as exported"));
        } else if (a.contains("value")) {
          notes.push_back(absl::StrCat("must be ", Printable(JsonText(a["value"]))));
        }
      }
      for (const Json& e : a.contains("effects") ? a["effects"] : Json::array())
        notes.push_back(kEffects.at(e.get<std::string>()));
      row.push_back(absl::StrJoin(notes, "; "));
      rows.push_back(std::move(row));
    }
    return rows;
  }

  Rows Symbols() const {
    Rows rows;
    for (const Json& s : program_["signature"]["symbols"]) {
      const std::string source = Text(s, "source");
      // Those of memory are for calls whose arguments share it.
      if (source == "stride" || source == "offset" || source == "bytes") continue;
      std::string of = source;
      if (s.contains("dim")) absl::StrAppend(&of, " ", JsonText(s["dim"]));
      if (s.contains("argument")) absl::StrAppend(&of, " of ", ArgumentName(s["argument"].get<size_t>()));
      if (s.contains("state")) absl::StrAppend(&of, " of ", StateName(s["state"].get<size_t>()));
      const std::string min = JsonText(s["min"]);
      rows.push_back({Printable(Text(s, "name")),
                      s.contains("max") ? absl::StrCat(min, "..", JsonText(s["max"])) : absl::StrCat(min, " or more"),
                      of});
    }
    return rows;
  }

  Rows Results() const {
    Rows rows;
    for (const Json& r : program_["signature"]["outputs"]) {
      const bool tensor = Text(r, "kind") == "tensor";
      rows.push_back({Printable(Text(r, "name")), r.contains("dtype") ? Text(r, "dtype") : Text(r, "kind"),
                      r.contains("sizes") ? SizesText(r["sizes"])
                      : tensor            ? "known after a call"
                                          : "",
                      MemoryOfResult(in_, weights_, r)});
    }
    return rows;
  }

  Rows States() const {
    Rows rows;
    for (const Json& w : weights_) {
      if (w["mutated"].get<bool>())
        rows.push_back({Printable(Text(w, "name")), Text(w, "kind"), Text(w, "dtype"), SizesText(w["sizes"])});
    }
    return rows;
  }

  // How many there are of each kind; the JSON lists them.
  Rows Weights() const {
    std::map<std::string, int64_t> kinds;
    for (const Json& w : weights_) ++kinds[Text(w, "kind")];
    int64_t bytes = 0;
    for (const Json& s : j_["storages"]) {
      if (__builtin_add_overflow(bytes, s["bytes"].get<int64_t>(), &bytes)) bytes = INT64_MAX;
    }
    std::vector<std::string> texts;
    for (const auto& [kind, n] : kinds) texts.push_back(Count(n, kind));
    if (texts.empty()) return {};
    return {{absl::StrCat(absl::StrJoin(texts, ", "), " in ", BytesText(bytes))}};
  }

  Rows Plans() const {
    Rows rows;
    for (const Json& p : program_["plans"]) {
      int64_t launches = 0, libraries = 0, copies = 0, others = 0;
      const Json& top = p["steps"];
      const auto count = [&](const Json& steps) {
        for (const Json& s : steps) {
          ++(s.contains("launch")    ? launches
             : s.contains("library") ? libraries
             : s.contains("copy")    ? copies
                                     : others);
        }
      };
      if (p.contains("blocks")) {
        for (const Json& block : p["blocks"]) count(block);
      } else {
        count(top);
      }
      std::vector<std::string> steps;
      if (launches > 0) steps.push_back(absl::StrCat(launches, launches == 1 ? " launch" : " launches"));
      if (libraries > 0) steps.push_back(Count(libraries, "library call"));
      if (copies > 0) steps.push_back(absl::StrCat(copies, copies == 1 ? " copy" : " copies"));
      if (others > 0) steps.push_back(Count(others, "other step"));
      if (Text(p, "variant") == "eager-order") {
        steps = {"one operator after the other"};
      } else if (steps.empty()) {
        steps.push_back("no steps");
      }
      const Json& arena = p["arena_bytes"];
      const auto guards = static_cast<int64_t>(p["guards"].size());
      rows.push_back(
          {CallsOfPlan(in_, p), absl::StrJoin(steps, ", "),
           absl::StrCat("working memory ", arena.is_number() ? BytesText(arena.get<int64_t>())
                                                             : absl::StrCat(Printable(arena.get<std::string>()), " B")),
           guards > 0 ? absl::StrCat("under ", Count(guards, "condition"), " on sizes or strides (--json)") : ""});
    }
    return rows;
  }

  Rows Kernels() const {
    Rows rows;
    for (const Json& k : j_["kernels"]) {
      if (rows.size() == kMostKernels) {
        rows.push_back({absl::StrCat("and ", j_["kernels"].size() - kMostKernels, " more, which --json lists")});
        break;
      }
      const int64_t uses = k["uses"].get<int64_t>();
      rows.push_back({Printable(Text(k, "key").substr(0, 16)), Printable(Text(k, "target")),
                      BytesText(k["bytes"].get<int64_t>()),
                      uses > 0 ? absl::StrCat("launched ", Count(uses, "time"), " by the first plan")
                               : "launched by other plans"});
    }
    return rows;
  }

  Rows Segments() const {
    Rows rows;
    for (const Json& s : j_["segments"]) rows.push_back({Text(s, "kind"), BytesText(s["bytes"].get<int64_t>())});
    return rows;
  }

  const Json& j_;
  const Json& program_;
  const Json& in_;
  const Json& weights_;
};

}  // namespace

absl::StatusOr<nlohmann::ordered_json> DescribeBundle(const fb::BundleT& bundle, const Container& file) {
  return Inspector(bundle, file).Run();
}

std::string CallsOfPlan(const nlohmann::ordered_json& arguments, const nlohmann::ordered_json& plan) {
  static const std::map<std::string, std::string> kTexts = {{"distinct", "distinct arguments"},
                                                            {"duplicate", "one tensor as two arguments"},
                                                            {"overlap", "arguments that share memory"},
                                                            {"eager-order", "other calls, in eager order"}};
  const std::string variant = plan["variant"].get<std::string>();
  if (variant == "duplicate") {
    // For each argument the number of its tensor.
    const Json& tensors = plan["convention"]["duplicates"];
    std::map<int64_t, std::vector<std::string>> names;
    for (size_t i = 0; i < tensors.size(); ++i) names[tensors[i].get<int64_t>()].push_back(NameIn(arguments, i));
    for (const auto& [tensor, all] : names) {
      if (all.size() == 2) return absl::StrCat("one tensor as ", all[0], " and ", all[1]);
    }
  }
  const auto text = kTexts.find(variant);
  return text == kTexts.end() ? variant : text->second;
}

std::string MemoryOfResult(const nlohmann::ordered_json& arguments, const nlohmann::ordered_json& states,
                           const nlohmann::ordered_json& result) {
  const size_t index = result.contains("index") ? result["index"].get<size_t>() : 0;
  const std::string place = result["place"].get<std::string>();
  if (place == "in-argument") return absl::StrCat("a view of the argument ", NameIn(arguments, index));
  if (place == "is-argument") return absl::StrCat("the argument ", NameIn(arguments, index), " itself");
  if (place == "in-state") return absl::StrCat("a view of the state ", NameIn(states, index));
  if (place == "is-state") return absl::StrCat("the state ", NameIn(states, index), " itself");
  if (place == "shared") return "may share memory with other results";
  return "";
}

nlohmann::ordered_json DescriptionOfMethod(const nlohmann::ordered_json& description, const std::string& method) {
  nlohmann::ordered_json out = description;
  out.erase("methods");
  for (const Json& m : description["methods"]) {
    if (m["method"] == method) out.update(m);
  }
  return out;
}

std::string DescriptionText(const nlohmann::ordered_json& j) {
  if (!j.contains("methods")) {
    const Describer d(j, j);
    return absl::StrCat(d.Head(), d.Call(), d.AllStates(), d.AllPlans(), d.File());
  }
  const Describer first(j, j["methods"][0]);
  std::string out = first.Head();
  for (const Json& m : j["methods"]) {
    const Describer d(j, m);
    absl::StrAppend(&out, "\nmethod ", m["method"].get<std::string>(), ", model ",
                    Printable(m["model"].get<std::string>()), "\n", d.Call(), d.AllPlans());
  }
  return absl::StrCat(out, first.AllStates(), first.File());
}

}  // namespace smelt
