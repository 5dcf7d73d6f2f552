#include "smelt/frontend/pt2.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/infer.h"
#include "smelt/core/op/schema.h"
#include "smelt/core/op/verify.h"
#include "smelt/frontend/sympy_expr.h"
#include "smelt/frontend/zip_archive.h"

namespace smelt {
namespace {

using Json = nlohmann::json;

constexpr int kMaxJsonDepth = 400;
constexpr int kSupportedMajor = 8;
constexpr int kMaxRank = 64;

// --- JSON with errors instead of exceptions
// ------------------------------------------------------------------------------

absl::StatusOr<Json> ParseJson(absl::string_view text, absl::string_view where) {
  bool too_deep = false;
  auto callback = [&](int depth, Json::parse_event_t, Json&) {
    if (depth > kMaxJsonDepth) too_deep = true;
    return !too_deep;
  };
  // The callback's depth check comes after a level is opened; nesting beyond any sense is cut off before parsing.
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxJsonDepth) {
        return absl::InvalidArgumentError(absl::StrCat(where, ": JSON nested deeper than ", kMaxJsonDepth, " levels"));
      }
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  Json json = Json::parse(text.begin(), text.end(), callback, /*allow_exceptions=*/false);
  if (json.is_discarded() || too_deep) return absl::InvalidArgumentError(absl::StrCat(where, ": not valid JSON"));
  return json;
}

const Json* Find(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  auto it = object.find(key);
  return it == object.end() ? nullptr : &*it;
}

absl::Status Expected(absl::string_view what) { return absl::InvalidArgumentError(absl::StrCat(what, " expected")); }

absl::StatusOr<const Json*> Get(const Json& object, const char* key) {
  const Json* found = Find(object, key);
  if (found == nullptr) return Expected(absl::StrCat("a field \"", key, "\""));
  return found;
}

absl::StatusOr<int64_t> AsInt(const Json& j) {
  if (j.is_number_unsigned() && j.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
    return absl::InvalidArgumentError(absl::StrCat(j.get<uint64_t>(), " is not an int64"));
  }
  if (!j.is_number_integer()) return Expected("an integer");
  return j.get<int64_t>();
}

absl::StatusOr<double> AsDouble(const Json& j) {
  if (j.is_number()) return j.get<double>();
  if (j.is_string()) {  // PyTorch writes non-finite numbers as strings
    double v;
    if (absl::SimpleAtod(j.get_ref<const std::string&>(), &v)) return v;
  }
  return Expected("a number");
}

absl::StatusOr<std::string> AsString(const Json& j) {
  if (!j.is_string()) return Expected("a string");
  return j.get<std::string>();
}

absl::StatusOr<bool> AsBool(const Json& j) {
  if (!j.is_boolean()) return Expected("true or false");
  return j.get<bool>();
}

absl::StatusOr<std::string> GetString(const Json& object, const char* key) {
  SMELT_ASSIGN_OR_RETURN(const Json* j, Get(object, key));
  auto s = AsString(*j);
  if (!s.ok()) return Annotate(s.status(), absl::StrCat("field \"", key, "\""));
  return s;
}

// The key and value of a one-key union such as {"as_int": 3}. "as_none" among the keys of an optional counts like any
// other.
absl::StatusOr<std::pair<std::string, const Json*>> AsUnion(const Json& j) {
  if (!j.is_object() || j.size() != 1) return Expected("an object with one key (a union)");
  return std::make_pair(j.begin().key(), &*j.begin());
}

// --- enumerations of the schema
// -------------------------------------------------------------------------------------------

absl::StatusOr<int64_t> C10ScalarType(int64_t pt2) {
  if (pt2 >= 1 && pt2 <= 12) return pt2 - 1;
  if (pt2 == 13) return 15;  // bfloat16
  return absl::UnimplementedError(
      absl::StrCat("dtype code ", pt2, " (uint16, uint32, uint64 and float8 are not supported)"));
}

absl::StatusOr<DType> ToDType(int64_t pt2) {
  SMELT_ASSIGN_OR_RETURN(int64_t code, C10ScalarType(pt2));
  std::optional<DType> t = DTypeFromScalarType(code);
  if (!t) return absl::UnimplementedError(absl::StrCat("dtype code ", pt2));
  return *t;
}

absl::StatusOr<int64_t> C10MemoryFormat(int64_t pt2) {
  switch (pt2) {
    case 1:
      return 0;  // contiguous
    case 2:
      return 2;  // channels last
    case 3:
      return 3;  // channels last 3d
    case 4:
      return 1;  // preserve
  }
  return absl::InvalidArgumentError(absl::StrCat("memory format ", pt2, ", 1 to 4 expected"));
}

// --- the reader
// -----------------------------------------------------------------------------------------------------------

// The values by name of one graph, and the metadata that the archive has for them.
struct Scope {
  const Json* graph = nullptr;
  absl::flat_hash_map<std::string, ValueId> values;
};

class Reader {
 public:
  Reader(const ZipArchive& zip, const Pt2Options& options) : zip_(zip), options_(options) {}

  absl::StatusOr<Pt2Model> Read() {
    SMELT_RETURN_IF_ERROR(FindEntries());
    SMELT_ASSIGN_OR_RETURN(std::string text, zip_.Read(model_entry_, options_.max_json_bytes));
    SMELT_ASSIGN_OR_RETURN(Json program, ParseJson(text, absl::StrCat(zip_.path(), ": ", model_entry_)));
    text = std::string();
    absl::Status s = ReadProgram(program);
    if (!s.ok()) return Annotate(s, absl::StrCat(zip_.path(), ": ", model_entry_));
    return Pt2Model{std::move(g_owner_), torch_version_};
  }

 private:
  // --- entries ---
  absl::Status FindEntries() {
    for (const std::string& name : zip_.names()) {
      const std::vector<std::string> parts = absl::StrSplit(name, '/');
      if (parts.size() == 3 && parts[1] == "models" && absl::EndsWith(parts[2], ".json")) {
        if (!model_entry_.empty()) {
          return absl::UnimplementedError(
              absl::StrCat(zip_.path(), ": two programs (", model_entry_, " and ", name, "), one expected"));
        }
        model_entry_ = name;
        root_ = parts[0];
      }
    }
    if (model_entry_.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(zip_.path(), ": no entry TOP/models/NAME.json, so this is no PyTorch export archive"));
    }
    const std::string order = root_ + "/byteorder";
    if (zip_.Contains(order)) {
      SMELT_ASSIGN_OR_RETURN(std::string value, zip_.Read(order, 64));
      if (absl::StripAsciiWhitespace(value) != "little") {
        return absl::UnimplementedError(
            absl::StrCat(zip_.path(), ": ", order, ": byte order \"", value.substr(0, 20), "\", \"little\" expected"));
      }
    }
    return absl::OkStatus();
  }

  // --- weights ---
  struct WeightEntry {
    std::string path;  // the archive's entry
    DType dtype;
    Geometry geometry;
  };

  absl::StatusOr<std::vector<int64_t>> ConcreteInts(const Json& list) {
    if (!list.is_array()) return Expected("a list");
    if (list.size() > kMaxRank)
      return absl::InvalidArgumentError(absl::StrCat("rank ", list.size(), ", at most ", kMaxRank, " expected"));
    std::vector<int64_t> out;
    for (const Json& e : list) {
      SMELT_ASSIGN_OR_RETURN(const Json* v, Get(e, "as_int"));
      SMELT_ASSIGN_OR_RETURN(int64_t i, AsInt(*v));
      out.push_back(i);
    }
    return out;
  }

  absl::StatusOr<WeightEntry> ReadWeightEntry(const Json& entry, const std::string& folder) {
    WeightEntry w;
    SMELT_ASSIGN_OR_RETURN(w.path, GetString(entry, "path_name"));
    if (const Json* pickled = Find(entry, "use_pickle");
        pickled != nullptr && pickled->is_boolean() && pickled->get<bool>()) {
      return absl::UnimplementedError(
          "use_pickle: the tensor is pickled, and unpickling runs code; save it as raw bytes");
    }
    w.path = absl::StrCat(root_, "/data/", folder, "/", w.path);
    SMELT_ASSIGN_OR_RETURN(const Json* meta, Get(entry, "tensor_meta"));
    SMELT_ASSIGN_OR_RETURN(const Json* dtype, Get(*meta, "dtype"));
    SMELT_ASSIGN_OR_RETURN(int64_t code, AsInt(*dtype));
    SMELT_ASSIGN_OR_RETURN(w.dtype, ToDType(code));
    SMELT_ASSIGN_OR_RETURN(const Json* sizes, Get(*meta, "sizes"));
    SMELT_ASSIGN_OR_RETURN(const Json* strides, Get(*meta, "strides"));
    SMELT_ASSIGN_OR_RETURN(const Json* offset, Get(*meta, "storage_offset"));
    SMELT_ASSIGN_OR_RETURN(w.geometry.sizes, ConcreteInts(*sizes));
    SMELT_ASSIGN_OR_RETURN(w.geometry.strides, ConcreteInts(*strides));
    SMELT_ASSIGN_OR_RETURN(const Json* offset_int, Get(*offset, "as_int"));
    SMELT_ASSIGN_OR_RETURN(w.geometry.offset, AsInt(*offset_int));
    if (const Json* layout = Find(*meta, "layout"); layout != nullptr && *layout != 7) {
      return absl::UnimplementedError("layout: only strided tensors are supported");
    }
    SMELT_RETURN_IF_ERROR(CheckGeometry(w.geometry, w.dtype));
    return w;
  }

  static absl::Status CheckGeometry(const Geometry& g, DType dtype) {
    if (g.sizes.size() != g.strides.size()) return absl::InvalidArgumentError("sizes and strides differ in number");
    int64_t last = g.offset;
    bool empty = false;
    if (g.offset < 0) return absl::InvalidArgumentError("negative storage_offset");
    for (size_t d = 0; d < g.sizes.size(); ++d) {
      if (g.sizes[d] < 0 || g.strides[d] < 0) return absl::InvalidArgumentError("negative size or stride");
      if (g.sizes[d] == 0) empty = true;
    }
    int64_t elements = 1;
    for (size_t d = 0; d < g.sizes.size() && !empty; ++d) {
      int64_t step;
      if (__builtin_mul_overflow(g.sizes[d] - 1, g.strides[d], &step) || __builtin_add_overflow(last, step, &last) ||
          __builtin_mul_overflow(elements, g.sizes[d], &elements)) {
        return absl::InvalidArgumentError("sizes and strides overflow 64 bits");
      }
    }
    int64_t bytes;
    if (__builtin_add_overflow(last, 1, &last) || __builtin_mul_overflow(last, ItemSize(dtype), &bytes) ||
        __builtin_mul_overflow(elements, ItemSize(dtype), &bytes)) {
      return absl::InvalidArgumentError("sizes and strides overflow 64 bits");
    }
    return absl::OkStatus();
  }

  absl::Status ReadWeightConfig(const std::string& folder, const std::string& file,
                                absl::flat_hash_map<std::string, WeightEntry>& into) {
    const std::string name = absl::StrCat(root_, "/data/", folder, "/", file);
    if (!zip_.Contains(name)) return absl::OkStatus();
    SMELT_ASSIGN_OR_RETURN(std::string text, zip_.Read(name, options_.max_json_bytes));
    SMELT_ASSIGN_OR_RETURN(Json json, ParseJson(text, absl::StrCat(zip_.path(), ": ", name)));
    const Json* config = Find(json, "config");
    if (config == nullptr || !config->is_object()) {
      return absl::InvalidArgumentError(
          absl::StrCat(zip_.path(), ": ", name, ": a field \"config\" with an object expected"));
    }
    for (auto it = config->begin(); it != config->end(); ++it) {
      auto entry = ReadWeightEntry(*it, folder);
      if (!entry.ok()) {
        bad_weights_.emplace(it.key(), Annotate(entry.status(), absl::StrCat(name, ": \"", it.key(), "\"")));
        continue;  // an error only if the graph needs it
      }
      into.emplace(it.key(), *std::move(entry));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<int> AddWeight(const std::string& name, Weight::Kind kind) {
    auto it = weights_.find(name);
    if (it == weights_.end() || (kind != Weight::Kind::kParameter && constants_.contains(name))) {
      auto c = constants_.find(name);
      if (c == constants_.end()) {
        auto bad = bad_weights_.find(name);
        if (bad != bad_weights_.end()) return bad->second;
        return absl::InvalidArgumentError(
            absl::StrCat("the signature names \"", name, "\", which neither the weights nor the constants hold"));
      }
      it = c;
    }
    const WeightEntry& w = it->second;
    auto [storage, fresh] = storages_.try_emplace(w.path, static_cast<int>(g_->weight_storages.size()));
    if (fresh) {
      SMELT_ASSIGN_OR_RETURN(std::shared_ptr<Storage> bytes, zip_.ReadStorage(w.path, options_.max_weight_bytes));
      g_->weight_storages.push_back(std::move(bytes));
    }
    Weight out;
    out.name = name;
    out.kind = kind;
    out.storage = storage->second;
    out.dtype = w.dtype;
    out.geometry = w.geometry;
    const int64_t have = g_->weight_storages[out.storage]->bytes();
    const int64_t need = out.geometry.Span().second * ItemSize(out.dtype);
    if (out.geometry.NumElements() > 0 && need > have) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", name, "\" reaches byte ", need, " of ", w.path, ", which has ", have));
    }
    g_->weights.push_back(std::move(out));
    return static_cast<int>(g_->weights.size()) - 1;
  }

  // --- program ---
  absl::Status ReadProgram(const Json& program) {
    SMELT_ASSIGN_OR_RETURN(const Json* version, Get(program, "schema_version"));
    SMELT_ASSIGN_OR_RETURN(const Json* major, Get(*version, "major"));
    SMELT_ASSIGN_OR_RETURN(int64_t major_number, AsInt(*major));
    if (major_number != kSupportedMajor) {
      return absl::UnimplementedError(
          absl::StrCat("schema_version.major is ", major_number, ", ", kSupportedMajor, " expected"));
    }
    if (const Json* t = Find(program, "torch_version"); t != nullptr && t->is_string())
      torch_version_ = t->get<std::string>();
    SMELT_RETURN_IF_ERROR(ReadWeightConfig("weights", "model_weights_config.json", weights_));
    SMELT_RETURN_IF_ERROR(ReadWeightConfig("constants", "model_constants_config.json", constants_));

    SMELT_ASSIGN_OR_RETURN(const Json* module, Get(program, "graph_module"));
    SMELT_ASSIGN_OR_RETURN(const Json* graph, Get(*module, "graph"));
    SMELT_ASSIGN_OR_RETURN(const Json* signature, Get(*module, "signature"));
    g_owner_ = std::make_unique<Graph>();
    g_ = g_owner_.get();
    Scope scope;
    scope.graph = graph;
    SMELT_RETURN_IF_ERROR(ReadInputs(*graph, *signature, scope));
    SMELT_RETURN_IF_ERROR(ReadNodes(*graph, g_->top(), scope, 0));
    SMELT_RETURN_IF_ERROR(ReadOutputs(*graph, *signature, scope));
    SMELT_RETURN_IF_ERROR(ReadRanges(program));
    // What the archive claims may still not fit together: nothing behind this border checks it again.
    SMELT_RETURN_IF_ERROR(VerifyGraph(*g_));
    SMELT_RETURN_IF_ERROR(
        VerifySchemas(*g_, {.check_types = false}));  // ReadArguments has checked them, and knows more
    if (!autocast_seen_) return absl::OkStatus();
    const std::vector<std::string> different = CheckTypes(*g_);
    return different.empty() ? absl::OkStatus()
                             : absl::UnimplementedError(absl::StrCat("autocast: ", absl::StrJoin(different, "; ")));
  }

  absl::Status ReadRanges(const Json& program) {
    const Json* ranges = Find(program, "range_constraints");
    if (ranges == nullptr || !ranges->is_object()) return absl::OkStatus();
    for (auto it = ranges->begin(); it != ranges->end(); ++it) {
      auto e = Expr::Parse(it.key());
      if (!e.ok() || !e->IsSymbol()) continue;  // "2*s44": follows from s44's own range
      SymbolRanges::Range r = g_->symbols.Get(e->SymbolName());
      if (const Json* min = Find(*it, "min_val"); min != nullptr && min->is_number_integer()) {
        auto v = AsInt(*min);
        if (v.ok()) r.min = std::max<int64_t>(*v, 0);
      }
      if (const Json* max = Find(*it, "max_val"); max != nullptr && max->is_number_integer()) {
        auto v = AsInt(*max);
        if (v.ok()) r.max = *v;
      }
      if (r.min > r.max)
        return absl::InvalidArgumentError(absl::StrCat("range_constraints: ", it.key(), " has an empty range"));
      auto hint = g_->symbol_hints.find(e->SymbolName());
      if (hint != g_->symbol_hints.end() && hint->second >= 2 && r.min < 2 && r.max >= 2) {
        r.accepted_min = r.min;
        r.min = 2;
      }
      g_->symbols.Set(e->SymbolName(), r);
    }
    return absl::OkStatus();
  }

  // --- sizes ---
  absl::StatusOr<Expr> ReadSize(const Json& j) {
    SMELT_ASSIGN_OR_RETURN(auto u, AsUnion(j));
    if (u.first == "as_int") {
      SMELT_ASSIGN_OR_RETURN(int64_t v, AsInt(*u.second));
      return Expr(v);
    }
    if (u.first != "as_expr") return Expected("as_int or as_expr");
    SMELT_ASSIGN_OR_RETURN(std::string text, GetString(*u.second, "expr_str"));
    SMELT_ASSIGN_OR_RETURN(Expr e, ParseSympyExpr(text));
    if (e.IsPoison())
      return absl::InvalidArgumentError(absl::StrCat("\"", text.substr(0, 200), "\" overflows 64 bits"));
    const Json* hint = Find(*u.second, "hint");
    if (hint != nullptr && hint->is_object()) {
      if (const Json* v = Find(*hint, "as_int"); v != nullptr && v->is_number_integer()) NoteHint(e, v->get<int64_t>());
    }
    return e;
  }

  // The example's value of a symbol, from that of a linear expression in it.
  void NoteHint(const Expr& e, int64_t value) {
    const std::vector<std::string> symbols = e.Symbols();
    if (symbols.size() != 1 || g_->symbol_hints.contains(symbols[0])) return;
    auto at0 = e.Evaluate({{symbols[0], 0}}), at1 = e.Evaluate({{symbols[0], 1}});
    if (!at0.ok() || !at1.ok()) return;
    const __int128 slope = static_cast<__int128>(*at1) - *at0, rest = static_cast<__int128>(value) - *at0;
    if (slope == 0 || rest % slope != 0) return;
    const __int128 hint = rest / slope;
    if (hint < 0 || hint > INT64_MAX) return;
    auto check = e.Evaluate({{symbols[0], static_cast<int64_t>(hint)}});
    if (check.ok() && *check == value) g_->symbol_hints[symbols[0]] = static_cast<int64_t>(hint);
  }

  absl::StatusOr<std::vector<Expr>> ReadSizes(const Json& list) {
    if (!list.is_array()) return Expected("a list");
    if (list.size() > kMaxRank)
      return absl::InvalidArgumentError(absl::StrCat("rank ", list.size(), ", at most ", kMaxRank, " expected"));
    std::vector<Expr> out;
    for (const Json& e : list) {
      SMELT_ASSIGN_OR_RETURN(Expr x, ReadSize(e));
      out.push_back(std::move(x));
    }
    return out;
  }

  absl::StatusOr<Type> TensorTypeOf(const Scope& scope, const std::string& name) {
    const Json* values = Find(*scope.graph, "tensor_values");
    const Json* meta = values == nullptr ? nullptr : Find(*values, name.c_str());
    if (meta == nullptr) return absl::InvalidArgumentError(absl::StrCat("tensor_values has no entry \"", name, "\""));
    auto read = [&]() -> absl::StatusOr<Type> {
      SMELT_ASSIGN_OR_RETURN(const Json* dtype, Get(*meta, "dtype"));
      SMELT_ASSIGN_OR_RETURN(int64_t code, AsInt(*dtype));
      SMELT_ASSIGN_OR_RETURN(DType t, ToDType(code));
      SMELT_ASSIGN_OR_RETURN(const Json* sizes, Get(*meta, "sizes"));
      SMELT_ASSIGN_OR_RETURN(const Json* strides, Get(*meta, "strides"));
      SMELT_ASSIGN_OR_RETURN(std::vector<Expr> s, ReadSizes(*sizes));
      SMELT_ASSIGN_OR_RETURN(std::vector<Expr> st, ReadSizes(*strides));
      if (s.size() != st.size()) return absl::InvalidArgumentError("sizes and strides differ in number");
      bool concrete = true;
      Geometry geometry;
      for (size_t d = 0; d < s.size(); ++d) {
        concrete = concrete && s[d].IsConstant() && st[d].IsConstant();
        if (concrete) {
          geometry.sizes.push_back(*s[d].Constant());
          geometry.strides.push_back(*st[d].Constant());
        }
      }
      if (concrete) SMELT_RETURN_IF_ERROR(CheckGeometry(geometry, t));
      return Type::Tensor(t, std::move(s), std::move(st));
    };
    auto type = read();
    if (!type.ok()) return Annotate(type.status(), absl::StrCat("tensor_values \"", name, "\""));
    return type;
  }

  absl::StatusOr<std::optional<Expr>> SymIntExpr(const Scope& scope, const std::string& name) {
    const Json* values = Find(*scope.graph, "sym_int_values");
    const Json* v = values == nullptr ? nullptr : Find(*values, name.c_str());
    if (v == nullptr) return std::optional<Expr>();
    auto e = ReadSize(*v);
    if (absl::IsUnimplemented(e.status())) return std::optional<Expr>();
    if (!e.ok()) return Annotate(e.status(), absl::StrCat("sym_int_values \"", name, "\""));
    return std::optional<Expr>(*e);
  }

  // --- inputs and outputs ---
  absl::StatusOr<std::string> InputName(const Json& input) {
    SMELT_ASSIGN_OR_RETURN(auto u, AsUnion(input));
    if (u.first == "as_tensor") return GetString(*u.second, "name");
    if (u.first == "as_sym_int" || u.first == "as_sym_float" || u.first == "as_sym_bool") {
      const Json* n = Find(*u.second, "as_name");
      if (n != nullptr) return AsString(*n);
    }
    if (u.first == "as_custom_obj")
      return absl::UnimplementedError("custom objects (TorchBind classes) among the inputs");
    return std::string();  // a constant
  }

  absl::Status ReadInputs(const Json& graph, const Json& signature, Scope& scope) {
    SMELT_ASSIGN_OR_RETURN(const Json* inputs, Get(graph, "inputs"));
    SMELT_ASSIGN_OR_RETURN(const Json* specs, Get(signature, "input_specs"));
    if (!inputs->is_array() || !specs->is_array() || inputs->size() != specs->size()) {
      return absl::InvalidArgumentError("signature.input_specs and graph.inputs must be lists of one length");
    }
    for (size_t i = 0; i < inputs->size(); ++i) {
      absl::Status s = ReadInput((*inputs)[i], (*specs)[i], scope);
      if (!s.ok()) return Annotate(s, absl::StrCat("signature.input_specs[", i, "]"));
    }
    return absl::OkStatus();
  }

  absl::Status ReadInput(const Json& input, const Json& spec, Scope& scope) {
    SMELT_ASSIGN_OR_RETURN(std::string name, InputName(input));
    SMELT_ASSIGN_OR_RETURN(auto u, AsUnion(spec));
    InputInfo info;
    Weight::Kind kind = Weight::Kind::kParameter;
    std::string weight;
    if (u.first == "parameter") {
      SMELT_ASSIGN_OR_RETURN(weight, GetString(*u.second, "parameter_name"));
    } else if (u.first == "buffer") {
      SMELT_ASSIGN_OR_RETURN(weight, GetString(*u.second, "buffer_name"));
      kind = Weight::Kind::kBuffer;
    } else if (u.first == "tensor_constant") {
      SMELT_ASSIGN_OR_RETURN(weight, GetString(*u.second, "tensor_constant_name"));
      kind = Weight::Kind::kConstant;
    } else if (u.first == "constant_input") {
      SMELT_ASSIGN_OR_RETURN(std::string constant_name, GetString(*u.second, "name"));
      SMELT_ASSIGN_OR_RETURN(const Json* value, Get(*u.second, "value"));
      SMELT_ASSIGN_OR_RETURN(auto c, AsUnion(*value));
      info.is_constant = true;
      Type type = Type::None();
      std::optional<Expr> expr;
      if (c.first == "as_int") {
        SMELT_ASSIGN_OR_RETURN(int64_t v, AsInt(*c.second));
        info.constant = v;
        expr = Expr(v);
        type = Type::Int();
      } else if (c.first == "as_float") {
        SMELT_ASSIGN_OR_RETURN(double v, AsDouble(*c.second));
        info.constant = v;
        type = Type::Float();
      } else if (c.first == "as_bool") {
        SMELT_ASSIGN_OR_RETURN(bool v, AsBool(*c.second));
        info.constant = v;
        type = Type::Bool();
      } else if (c.first == "as_string") {
        SMELT_ASSIGN_OR_RETURN(std::string v, AsString(*c.second));
        info.constant = v;
        type = Type::String();
      } else if (c.first != "as_none") {
        return absl::UnimplementedError(absl::StrCat("constant_input of kind ", c.first));
      }
      ValueId v = g_->AddInput(constant_name, type, std::move(info));
      if (expr) g_->SetExpr(v, expr);
      scope.values[constant_name] = v;
      return absl::OkStatus();
    } else if (u.first == "custom_obj" || u.first == "token") {
      return absl::UnimplementedError(absl::StrCat("input kind ", u.first));
    } else if (u.first != "user_input") {
      return absl::InvalidArgumentError(absl::StrCat("unknown input kind \"", u.first, "\""));
    }
    if (name.empty()) {
      // A user input that the archive gives no name: None or a constant written in place.
      SMELT_ASSIGN_OR_RETURN(auto c, AsUnion(input));
      info.is_constant = true;
      ValueId v = g_->AddInput(absl::StrCat("arg", g_->inputs().size()), Type::None(), std::move(info));
      (void)v;
      return absl::OkStatus();
    }
    if (!weight.empty()) {
      SMELT_ASSIGN_OR_RETURN(info.weight, AddWeight(weight, kind));
      info.kind = InputInfo::Kind::kWeight;
    }
    SMELT_ASSIGN_OR_RETURN(
        ValueId v, DeclareInput(input, name, scope, [&](Type t) { return g_->AddInput(name, std::move(t), info); }));
    if (!weight.empty()) {
      const Weight& w = g_->weights[info.weight];
      std::vector<Expr> sizes(w.geometry.sizes.begin(), w.geometry.sizes.end());
      std::vector<Expr> strides(w.geometry.strides.begin(), w.geometry.strides.end());
      g_->SetType(v, Type::Tensor(w.dtype, std::move(sizes), std::move(strides)));
    }
    return absl::OkStatus();
  }

  // Gives the value its type, by metadata, through `add`, and enters it in the scope.
  template <typename Add>
  absl::StatusOr<ValueId> DeclareInput(const Json& input, const std::string& name, Scope& scope, Add add) {
    if (scope.values.contains(name))
      return absl::InvalidArgumentError(absl::StrCat("two values are named \"", name, "\""));
    SMELT_ASSIGN_OR_RETURN(auto u, AsUnion(input));
    ValueId v;
    if (u.first == "as_tensor") {
      SMELT_ASSIGN_OR_RETURN(Type t, TensorTypeOf(scope, name));
      v = add(std::move(t));
    } else if (u.first == "as_sym_int") {
      SMELT_ASSIGN_OR_RETURN(std::optional<Expr> e, SymIntExpr(scope, name));
      v = add(Type::Int());
      g_->SetExpr(v, e);
    } else if (u.first == "as_sym_float") {
      v = add(Type::Float());
    } else if (u.first == "as_sym_bool") {
      v = add(Type::Bool());
    } else {
      return absl::UnimplementedError(absl::StrCat("a value of kind ", u.first));
    }
    scope.values[name] = v;
    return v;
  }

  absl::Status ReadOutputs(const Json& graph, const Json& signature, Scope& scope) {
    SMELT_ASSIGN_OR_RETURN(const Json* outputs, Get(graph, "outputs"));
    SMELT_ASSIGN_OR_RETURN(const Json* specs, Get(signature, "output_specs"));
    if (!outputs->is_array() || !specs->is_array() || outputs->size() != specs->size()) {
      return absl::InvalidArgumentError("signature.output_specs and graph.outputs must be lists of one length");
    }
    absl::flat_hash_map<std::string, std::string> input_of_weight;
    for (size_t i = 0; i < specs->size(); ++i) {
      auto read = [&]() -> absl::Status {
        SMELT_ASSIGN_OR_RETURN(auto u, AsUnion((*specs)[i]));
        SMELT_ASSIGN_OR_RETURN(ValueId v, ReadValue((*outputs)[i], scope, g_->block(g_->top()).return_node, Type()));
        if (u.first == "user_output" || u.first == "loss_output") {
          SMELT_ASSIGN_OR_RETURN(std::string name, InputName((*outputs)[i]));
          g_->AddOutput(v, name.empty() ? absl::StrCat("output", i) : name);
          return absl::OkStatus();
        }
        // Decomposed IR: the new contents of a buffer, parameter or input. It becomes the copy_ it stands for.
        const char* key = u.first == "buffer_mutation"       ? "buffer_name"
                          : u.first == "parameter_mutation"  ? "parameter_name"
                          : u.first == "user_input_mutation" ? "user_input_name"
                                                             : nullptr;
        if (key == nullptr) return absl::UnimplementedError(absl::StrCat("output kind ", u.first));
        SMELT_ASSIGN_OR_RETURN(std::string target, GetString(*u.second, key));
        ValueId destination;
        if (u.first == "user_input_mutation") {
          auto it = scope.values.find(target);
          if (it != scope.values.end()) destination = it->second;
        } else {
          for (size_t k = 0; k < g_->input_infos.size(); ++k) {
            const InputInfo& info = g_->input_infos[k];
            if (info.kind == InputInfo::Kind::kWeight && g_->weights[info.weight].name == target)
              destination = g_->inputs()[k];
          }
        }
        if (!g_->IsLive(destination))
          return absl::InvalidArgumentError(absl::StrCat(u.first, " names \"", target, "\", which is no input"));
        NodeId anchor = g_->block(g_->top()).return_node;
        ValueId non_blocking = InsertConstant(*g_, anchor, false);
        g_->InsertBefore(anchor, OpName::Get("aten::copy_"), {destination, v, non_blocking},
                         {g_->value(destination).type});
        return absl::OkStatus();
      };
      absl::Status s = read();
      if (!s.ok()) return Annotate(s, absl::StrCat("signature.output_specs[", i, "]"));
    }
    return absl::OkStatus();
  }

  // --- nodes ---
  absl::Status ReadNodes(const Json& graph, BlockId block, Scope& scope, int depth) {
    SMELT_ASSIGN_OR_RETURN(const Json* nodes, Get(graph, "nodes"));
    if (!nodes->is_array()) return Expected("a list of nodes");
    for (size_t i = 0; i < nodes->size(); ++i) {
      const Json& node = (*nodes)[i];
      absl::Status s = ReadNode(node, block, scope, depth);
      if (!s.ok()) {
        const Json* name = Find(node, "name");
        std::string where = name != nullptr && name->is_string() ? name->get<std::string>() : absl::StrCat("#", i);
        auto source = ReadSource(node);
        if (source)
          absl::StrAppend(&where, "\" (", source->ToString(), ")");
        else
          absl::StrAppend(&where, "\"");
        return Annotate(s, absl::StrCat("node \"", where));
      }
    }
    return absl::OkStatus();
  }

  // The innermost frame of the stack trace that is the model's own code.
  std::shared_ptr<const SourceLocation> ReadSource(const Json& node) {
    const Json* metadata = Find(node, "metadata");
    const Json* trace = metadata == nullptr ? nullptr : Find(*metadata, "stack_trace");
    if (trace == nullptr || !trace->is_string()) return nullptr;
    const std::string& text = trace->get_ref<const std::string&>();
    auto [it, fresh] = sources_.try_emplace(text);
    if (!fresh) return it->second;
    SourceLocation best;
    const std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
    for (size_t i = 0; i < lines.size(); ++i) {
      absl::string_view line = absl::StripAsciiWhitespace(lines[i]);
      if (!absl::ConsumePrefix(&line, "File \"")) continue;
      const size_t quote = line.find('"');
      if (quote == absl::string_view::npos) continue;
      const absl::string_view file = line.substr(0, quote);
      absl::string_view rest = line.substr(quote + 1);
      if (!absl::ConsumePrefix(&rest, ", line ")) continue;
      int number;
      if (!absl::SimpleAtoi(rest.substr(0, rest.find(',')), &number)) continue;
      const bool library = absl::StrContains(file, "<") || absl::StrContains(file, "site-packages/");
      if (library && !best.file.empty()) continue;
      const std::vector<absl::string_view> parts = absl::StrSplit(file, '/');
      best.file = std::string(absl::StrContains(file, "site-packages/") ? file.substr(file.rfind("site-packages/") + 14)
                                                                        : parts.back());
      best.line = number;
      best.text = i + 1 < lines.size() ? std::string(absl::StripAsciiWhitespace(lines[i + 1])) : "";
    }
    if (!best.file.empty()) it->second = std::make_shared<const SourceLocation>(std::move(best));
    return it->second;
  }

  // "torch.ops.aten.add_.Tensor" -> aten::add_.Tensor; "_operator.mul" -> aten::mul.int.
  absl::StatusOr<OpName> TargetName(const std::string& target, const Json& inputs) {
    if (absl::StartsWith(target, "torch.ops.")) {
      const std::vector<std::string> parts = absl::StrSplit(target.substr(10), '.');
      if (parts.size() == 2) return OpName::Get(absl::StrCat(parts[0], "::", parts[1]));
      if (parts.size() == 3) {
        return OpName::Get(parts[2] == "default" ? absl::StrCat(parts[0], "::", parts[1])
                                                 : absl::StrCat(parts[0], "::", parts[1], ".", parts[2]));
      }
      return absl::InvalidArgumentError(
          absl::StrCat("target \"", target, "\": torch.ops.NAMESPACE.NAME.OVERLOAD expected"));
    }
    // Arithmetic on symbolic numbers. Floats among the operands choose the float overload.
    bool is_float = false;
    for (const Json& input : inputs) {
      const Json* arg = Find(input, "arg");
      if (arg != nullptr && (arg->contains("as_float") || arg->contains("as_sym_float"))) is_float = true;
    }
    static const auto* const kNames = new std::map<std::string, std::string>{
        {"_operator.add", "aten::add"},       {"_operator.sub", "aten::sub"},
        {"_operator.mul", "aten::mul"},       {"_operator.floordiv", "aten::floordiv"},
        {"_operator.mod", "aten::remainder"}, {"_operator.neg", "aten::neg"},
        {"_operator.eq", "aten::eq"},         {"_operator.ne", "aten::ne"},
        {"_operator.lt", "aten::lt"},         {"_operator.le", "aten::le"},
        {"_operator.gt", "aten::gt"},         {"_operator.ge", "aten::ge"},
        {"_operator.truediv", "aten::div"},   {"torch.sym_max", "prim::max"},
        {"torch.sym_min", "prim::min"},       {"torch.sym_not", "aten::__not__"},
        {"_operator.and_", "aten::__and__"},  {"_operator.or_", "aten::__or__"},
        {"_operator.pow", "aten::pow"},       {"math.floor", "aten::floor"},
        {"math.ceil", "aten::ceil"},          {"torch.sym_float", "aten::Float.Scalar"},
        {"torch.sym_int", "aten::Int.Scalar"}};
    std::string key = target;
    if (absl::StartsWith(key, "operator.")) key = "_" + key;
    if (absl::StartsWith(key, "torch._sym_")) key = "torch.sym_" + key.substr(11);
    auto it = kNames->find(key);
    if (it == kNames->end()) return absl::UnimplementedError(absl::StrCat("target \"", target, "\""));
    const std::string& name = it->second;
    if (absl::StrContains(name, ".")) return OpName::Get(name);
    if (name == "aten::__not__") return OpName::Get(name);
    if (name == "aten::__and__" || name == "aten::__or__") return OpName::Get(name + ".bool");
    return OpName::Get(name + (is_float ? ".float" : ".int"));
  }

  absl::Status ReadNode(const Json& node, BlockId block, Scope& scope, int depth) {
    SMELT_ASSIGN_OR_RETURN(std::string target, GetString(node, "target"));
    SMELT_ASSIGN_OR_RETURN(const Json* inputs, Get(node, "inputs"));
    SMELT_ASSIGN_OR_RETURN(const Json* outputs, Get(node, "outputs"));
    if (!inputs->is_array() || !outputs->is_array()) return Expected("lists \"inputs\" and \"outputs\"");
    current_source_ = ReadSource(node);
    if (absl::StartsWith(target, "torch.ops.higher_order.")) {
      return ReadHigherOrder(target.substr(23), *inputs, *outputs, block, scope, depth);
    }
    SMELT_ASSIGN_OR_RETURN(OpName op, TargetName(target, *inputs));
    // They state what the exporter has checked already: the metadata of the very values at hand.
    if (op.name() == "aten::_assert_tensor_metadata" || op.name() == "aten::sym_constrain_range" ||
        op.name() == "aten::sym_constrain_range_for_size") {
      return absl::OkStatus();
    }
    const NodeId anchor = g_->block(block).return_node;
    std::vector<ValueId> args;
    const FunctionSchema* schema = FindSchema(op);
    if (schema == nullptr) {
      // An operator of somebody's own library. It is kept under its name, so that it can be listed as unsupported.
      for (const Json& input : *inputs) {
        SMELT_ASSIGN_OR_RETURN(const Json* arg, Get(input, "arg"));
        SMELT_ASSIGN_OR_RETURN(ValueId v, ReadValue(*arg, scope, anchor, Type()));
        args.push_back(v);
      }
    } else {
      SMELT_RETURN_IF_ERROR(ReadArguments(*schema, *inputs, scope, anchor, args));
    }
    if (autocast_) Autocast(op, anchor, args);
    return AddNode(op, args, *outputs, anchor, scope, schema);
  }

  // --- autocast ---
  // What eager PyTorch's autocast does to the arguments of an operator on the CPU. An operator that is in neither list
  // is left alone; CheckTypes finds those that autocast would have treated otherwise.
  void Autocast(OpName op, NodeId anchor, std::vector<ValueId>& args) {
    static const auto* const kLower = new absl::flat_hash_set<std::string>{"aten::conv1d",
                                                                           "aten::conv2d",
                                                                           "aten::conv3d",
                                                                           "aten::bmm",
                                                                           "aten::mm",
                                                                           "aten::linalg_vecdot",
                                                                           "aten::baddbmm",
                                                                           "aten::addmm",
                                                                           "aten::addbmm",
                                                                           "aten::linear",
                                                                           "aten::matmul",
                                                                           "aten::conv_tbc",
                                                                           "aten::conv_transpose1d",
                                                                           "aten::conv_transpose2d",
                                                                           "aten::conv_transpose3d",
                                                                           "aten::prelu",
                                                                           "aten::scaled_dot_product_attention"};
    static const auto* const kFull = new absl::flat_hash_set<std::string>{"aten::avg_pool3d",
                                                                          "aten::binary_cross_entropy",
                                                                          "aten::grid_sampler",
                                                                          "aten::polar",
                                                                          "aten::prod",
                                                                          "aten::quantile",
                                                                          "aten::nanquantile",
                                                                          "aten::cdist",
                                                                          "aten::trace",
                                                                          "aten::mse_loss",
                                                                          "aten::cosine_embedding_loss",
                                                                          "aten::nll_loss",
                                                                          "aten::nll_loss2d",
                                                                          "aten::hinge_embedding_loss",
                                                                          "aten::poisson_nll_loss",
                                                                          "aten::smooth_l1_loss",
                                                                          "aten::cross_entropy_loss",
                                                                          "aten::l1_loss",
                                                                          "aten::huber_loss",
                                                                          "aten::margin_ranking_loss",
                                                                          "aten::soft_margin_loss",
                                                                          "aten::triplet_margin_loss",
                                                                          "aten::multi_margin_loss",
                                                                          "aten::ctc_loss",
                                                                          "aten::kl_div",
                                                                          "aten::multilabel_margin_loss",
                                                                          "aten::binary_cross_entropy_with_logits"};
    const bool lower = kLower->contains(op.name());
    if (!lower && !kFull->contains(op.name())) return;
    const DType target = lower ? *autocast_ : DType::kFloat32;
    for (ValueId& v : args) {
      const Type& type = g_->value(v).type;
      if (!type.IsTensor() || !type.tensor().dtype) continue;
      const DType t = *type.tensor().dtype;
      if (!IsFloating(t) || t == DType::kFloat64 || t == target) continue;
      TensorType cast = type.tensor();
      cast.dtype = target;
      const ValueId no = Constant(anchor, false, Type::Bool()), none = Constant(anchor, std::monostate(), Type::None());
      const ValueId code = Constant(anchor, ScalarTypeOf(target), Type::Int());
      NodeId n = g_->InsertBefore(anchor, OpName::Get("aten::_to_copy"), {v, code, none, none, none, no, none},
                                  {Type::Tensor(*cast.dtype, *cast.sizes, *cast.strides)});
      g_->SetSource(n, current_source_);
      v = g_->node(n).outputs[0];
    }
  }

  absl::Status ReadArguments(const FunctionSchema& schema, const Json& inputs, const Scope& scope, NodeId anchor,
                             std::vector<ValueId>& args) {
    const size_t n = schema.arguments.size();
    std::vector<const Json*> given(n, nullptr);
    size_t position = 0;
    for (const Json& input : inputs) {
      SMELT_ASSIGN_OR_RETURN(const Json* arg, Get(input, "arg"));
      const Json* name = Find(input, "name");
      const Json* kind = Find(input, "kind");
      const bool keyword = kind != nullptr && kind->is_number_integer() && kind->get<int64_t>() == 2;
      size_t slot = n;
      if (name != nullptr && name->is_string()) {
        for (size_t k = 0; k < n; ++k) {
          if (schema.arguments[k].name == name->get_ref<const std::string&>()) slot = k;
        }
      }
      if (slot == n && !keyword) slot = position;
      if (slot >= n) {
        return absl::InvalidArgumentError(absl::StrCat("argument ",
                                                       name != nullptr ? name->dump() : std::to_string(position),
                                                       " is not one of ", schema.op.full()));
      }
      if (given[slot] != nullptr)
        return absl::InvalidArgumentError(
            absl::StrCat("argument \"", schema.arguments[slot].name, "\" is given twice"));
      given[slot] = arg;
      ++position;
    }
    for (size_t k = 0; k < n; ++k) {
      const Argument& a = schema.arguments[k];
      if (given[k] == nullptr) {
        if (!a.default_value)
          return absl::InvalidArgumentError(
              absl::StrCat("argument \"", a.name, "\" of ", schema.op.full(), " is missing"));
        args.push_back(Constant(anchor, *a.default_value, a.type));
        continue;
      }
      auto v = ReadValue(*given[k], scope, anchor, a.type);
      if (!v.ok()) return Annotate(v.status(), absl::StrCat("argument \"", a.name, "\""));
      args.push_back(*v);
    }
    std::vector<Type> types;
    for (size_t k = 0; k < n; ++k) types.push_back(AsArgument(g_->value(args[k]).type, schema.arguments[k].type));
    if (!TakesTypes(schema, types)) {
      std::string found;
      for (ValueId v : args) absl::StrAppend(&found, found.empty() ? "" : ", ", g_->value(v).type.ToString());
      return absl::InvalidArgumentError(
          absl::StrCat("arguments of types (", found, ") do not fit ", schema.ToString()));
    }
    return absl::OkStatus();
  }

  // The archive keeps `x + 1` as add.Tensor(x, 1): a number stands for the tensor that eager makes of it.
  static Type AsArgument(const Type& type, const Type& formal) {
    const Type& base = formal.kind() == TypeKind::kOptional ? formal.element() : formal;
    const bool number = type.kind() == TypeKind::kInt || type.kind() == TypeKind::kFloat ||
                        type.kind() == TypeKind::kBool || type.kind() == TypeKind::kComplex;
    return number && base.IsTensor() ? Type::Tensor() : type;
  }

  ValueId Constant(NodeId anchor, const ConstantValue& c, const Type& type) {
    const Type& base = type.kind() == TypeKind::kOptional ? type.element() : type;
    ValueId v;
    if (base.kind() == TypeKind::kFloat && std::holds_alternative<int64_t>(c)) {
      v = InsertConstant(*g_, anchor, static_cast<double>(std::get<int64_t>(c)));
    } else if (base.kind() == TypeKind::kList && base.element().kind() == TypeKind::kFloat &&
               std::holds_alternative<std::vector<int64_t>>(c)) {
      const auto& ints = std::get<std::vector<int64_t>>(c);
      v = InsertConstant(*g_, anchor, std::vector<double>(ints.begin(), ints.end()));
    } else if (base.kind() == TypeKind::kList && base.element().kind() == TypeKind::kInt &&
               std::holds_alternative<int64_t>(c)) {
      v = InsertConstant(*g_, anchor, std::vector<int64_t>{std::get<int64_t>(c)});
    } else {
      v = InsertConstant(*g_, anchor, c);
    }
    if (std::holds_alternative<std::string>(c) && base.kind() == TypeKind::kDevice) g_->SetType(v, Type::Device());
    return v;
  }

  absl::StatusOr<ValueId> Lookup(const Scope& scope, const std::string& name) {
    auto it = scope.values.find(name);
    if (it == scope.values.end())
      return absl::InvalidArgumentError(absl::StrCat("value \"", name, "\" is not defined before its use"));
    return it->second;
  }

  // An argument of any kind, as a value. `type` is the schema's (kAny if unknown).
  absl::StatusOr<ValueId> ReadValue(const Json& arg, const Scope& scope, NodeId anchor, const Type& type) {
    SMELT_ASSIGN_OR_RETURN(auto u, AsUnion(arg));
    const std::string& kind = u.first;
    const Json& v = *u.second;
    if (kind == "as_none") return Constant(anchor, std::monostate(), type);
    if (kind == "as_tensor") {
      SMELT_ASSIGN_OR_RETURN(std::string name, GetString(v, "name"));
      return Lookup(scope, name);
    }
    if (kind == "as_int") {
      SMELT_ASSIGN_OR_RETURN(int64_t i, AsInt(v));
      return Constant(anchor, i, type);
    }
    if (kind == "as_float") {
      SMELT_ASSIGN_OR_RETURN(double d, AsDouble(v));
      return Constant(anchor, d, type);
    }
    if (kind == "as_bool") {
      SMELT_ASSIGN_OR_RETURN(bool b, AsBool(v));
      return Constant(anchor, b, type);
    }
    if (kind == "as_string") {
      SMELT_ASSIGN_OR_RETURN(std::string s, AsString(v));
      return Constant(anchor, s, type);
    }
    if (kind == "as_complex") {
      SMELT_ASSIGN_OR_RETURN(const Json* re, Get(v, "real"));
      SMELT_ASSIGN_OR_RETURN(const Json* im, Get(v, "imag"));
      SMELT_ASSIGN_OR_RETURN(double r, AsDouble(*re));
      SMELT_ASSIGN_OR_RETURN(double i, AsDouble(*im));
      return Constant(anchor, std::complex<double>(r, i), type);
    }
    if (kind == "as_scalar_type") {
      SMELT_ASSIGN_OR_RETURN(int64_t code, AsInt(v));
      SMELT_ASSIGN_OR_RETURN(int64_t c10, C10ScalarType(code));
      return Constant(anchor, c10, Type::Int());
    }
    if (kind == "as_memory_format") {
      SMELT_ASSIGN_OR_RETURN(int64_t code, AsInt(v));
      SMELT_ASSIGN_OR_RETURN(int64_t c10, C10MemoryFormat(code));
      return Constant(anchor, c10, Type::Int());
    }
    if (kind == "as_layout") {
      SMELT_ASSIGN_OR_RETURN(int64_t code, AsInt(v));
      if (code != 7) return absl::UnimplementedError("a layout other than strided");
      return Constant(anchor, int64_t{0}, Type::Int());
    }
    if (kind == "as_device") {
      SMELT_ASSIGN_OR_RETURN(std::string device, GetString(v, "type"));
      return Constant(anchor, device, Type::Device());
    }
    if (kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool") {
      if (const Json* name = Find(v, "as_name")) {
        SMELT_ASSIGN_OR_RETURN(std::string s, AsString(*name));
        return Lookup(scope, s);
      }
      return ReadValue(v, scope, anchor, type);  // {"as_int": 3}
    }
    if (kind == "as_optional_tensor") return ReadValue(v, scope, anchor, type);
    if (kind == "as_operator") return absl::UnimplementedError("an operator as an argument");
    if (kind == "as_custom_obj") return absl::UnimplementedError("a custom object as an argument");
    return ReadList(kind, v, scope, anchor, type);
  }

  absl::StatusOr<ValueId> ReadList(const std::string& kind, const Json& v, const Scope& scope, NodeId anchor,
                                   const Type& type) {
    if (!v.is_array()) return Expected(absl::StrCat("a list in \"", kind, "\""));
    const Type& base = type.kind() == TypeKind::kOptional ? type.element() : type;
    const bool floats = base.kind() == TypeKind::kList && base.element().kind() == TypeKind::kFloat;
    if (kind == "as_ints" && !floats) {
      std::vector<int64_t> out;
      for (const Json& e : v) {
        SMELT_ASSIGN_OR_RETURN(int64_t i, AsInt(e));
        out.push_back(i);
      }
      return Constant(anchor, out, type);
    }
    if (kind == "as_floats" || kind == "as_ints") {
      std::vector<double> out;
      for (const Json& e : v) {
        SMELT_ASSIGN_OR_RETURN(double d, AsDouble(e));
        out.push_back(d);
      }
      return Constant(anchor, out, type);
    }
    if (kind == "as_bools") {
      std::vector<bool> out;
      for (const Json& e : v) {
        SMELT_ASSIGN_OR_RETURN(bool b, AsBool(e));
        out.push_back(b);
      }
      return Constant(anchor, out, type);
    }
    std::vector<ValueId> elements;
    Type element;
    if (kind == "as_tensors") {
      element = Type::Tensor();
      for (const Json& e : v) {
        SMELT_ASSIGN_OR_RETURN(std::string name, GetString(e, "name"));
        SMELT_ASSIGN_OR_RETURN(ValueId id, Lookup(scope, name));
        elements.push_back(id);
      }
    } else if (kind == "as_optional_tensors") {
      element = Type::Optional(Type::Tensor());
      for (const Json& e : v) {
        SMELT_ASSIGN_OR_RETURN(ValueId id, ReadValue(e, scope, anchor, element));
        elements.push_back(id);
      }
    } else if (kind == "as_sym_ints" || kind == "as_sym_floats" || kind == "as_sym_bools") {
      element = kind == "as_sym_ints" ? Type::Int() : kind == "as_sym_floats" ? Type::Float() : Type::Bool();
      for (const Json& e : v) {
        if (const Json* name = Find(e, "as_name")) {
          SMELT_ASSIGN_OR_RETURN(std::string s, AsString(*name));
          SMELT_ASSIGN_OR_RETURN(ValueId id, Lookup(scope, s));
          elements.push_back(id);
        } else {
          SMELT_ASSIGN_OR_RETURN(ValueId id, ReadValue(e, scope, anchor, element));
          elements.push_back(id);
        }
      }
    } else {
      return absl::UnimplementedError(absl::StrCat("an argument of kind ", kind));
    }
    NodeId list = g_->InsertBefore(anchor, OpName::Get("prim::ListConstruct"), elements, {Type::List(element)});
    g_->SetSource(list, current_source_);
    return g_->node(list).outputs[0];
  }

  // One declared output: its name ("" for none) and type.
  struct OutputDecl {
    std::string name;
    Type type;
    std::optional<Expr> expr;
    std::vector<OutputDecl> elements;  // of a list
    bool is_list = false;
  };
  absl::StatusOr<OutputDecl> ReadOutput(const Json& output, const Scope& scope) {
    OutputDecl d;
    SMELT_ASSIGN_OR_RETURN(auto u, AsUnion(output));
    if (u.first == "as_tensor" || u.first == "as_optional_tensor") {
      if (u.first == "as_optional_tensor") return ReadOutput(*u.second, scope);
      SMELT_ASSIGN_OR_RETURN(d.name, GetString(*u.second, "name"));
      SMELT_ASSIGN_OR_RETURN(d.type, TensorTypeOf(scope, d.name));
    } else if (u.first == "as_tensors" || u.first == "as_optional_tensors") {
      if (!u.second->is_array()) return Expected("a list of tensors");
      d.is_list = true;
      for (const Json& e : *u.second) {
        OutputDecl element;
        if (u.first == "as_tensors") {
          SMELT_ASSIGN_OR_RETURN(element.name, GetString(e, "name"));
          SMELT_ASSIGN_OR_RETURN(element.type, TensorTypeOf(scope, element.name));
        } else {
          SMELT_ASSIGN_OR_RETURN(element, ReadOutput(e, scope));
        }
        d.elements.push_back(std::move(element));
      }
      d.type = Type::List(Type::Tensor());
    } else if (u.first == "as_sym_int" || u.first == "as_sym_float" || u.first == "as_sym_bool") {
      SMELT_ASSIGN_OR_RETURN(d.name, GetString(*u.second, "as_name"));
      d.type = u.first == "as_sym_int" ? Type::Int() : u.first == "as_sym_float" ? Type::Float() : Type::Bool();
      if (u.first == "as_sym_int") {
        SMELT_ASSIGN_OR_RETURN(d.expr, SymIntExpr(scope, d.name));
      }
    } else if (u.first == "as_none") {
      d.type = Type::None();
    } else {
      return absl::UnimplementedError(absl::StrCat("an output of kind ", u.first));
    }
    return d;
  }

  absl::Status Define(const OutputDecl& d, ValueId v, Scope& scope) {
    if (d.name.empty()) return absl::OkStatus();
    if (!scope.values.emplace(d.name, v).second)
      return absl::InvalidArgumentError(absl::StrCat("two values are named \"", d.name, "\""));
    g_->SetName(v, d.name);
    if (d.expr) g_->SetExpr(v, d.expr);
    return absl::OkStatus();
  }

  absl::Status AddNode(OpName op, const std::vector<ValueId>& args, const Json& outputs, NodeId anchor, Scope& scope,
                       const FunctionSchema* schema) {
    std::vector<OutputDecl> declared;
    for (size_t i = 0; i < outputs.size(); ++i) {
      auto d = ReadOutput(outputs[i], scope);
      if (!d.ok()) return Annotate(d.status(), absl::StrCat("outputs[", i, "]"));
      declared.push_back(*std::move(d));
    }
    // An operator that returns a tuple has as many declared outputs; one that returns nothing may still be listed as
    // as_none.
    if (schema != nullptr && schema->returns.empty()) declared.clear();
    if (schema != nullptr) {
      if (declared.size() > schema->returns.size() && schema->returns.size() == 1 &&
          schema->returns[0].type.kind() == TypeKind::kList) {
        OutputDecl list;
        list.is_list = true;
        list.type = Type::List(Type::Tensor());
        list.elements = std::move(declared);
        declared = {std::move(list)};
      }
      if (declared.size() > schema->returns.size()) {
        return absl::InvalidArgumentError(
            absl::StrCat(declared.size(), " outputs, but ", op.full(), " has ", schema->returns.size()));
      }
    }
    std::vector<Type> types;
    for (const OutputDecl& d : declared) types.push_back(d.type);
    if (schema != nullptr) {
      for (size_t k = declared.size(); k < schema->returns.size(); ++k) types.push_back(schema->returns[k].type);
    }
    NodeId n = g_->InsertBefore(anchor, op, args, types);
    g_->SetSource(n, current_source_);
    for (size_t i = 0; i < declared.size(); ++i) {
      const ValueId v = g_->node(n).outputs[i];
      if (!declared[i].is_list) {
        SMELT_RETURN_IF_ERROR(Define(declared[i], v, scope));
        continue;
      }
      std::vector<Type> elements;
      for (const OutputDecl& d : declared[i].elements) elements.push_back(d.type);
      NodeId unpack = g_->InsertBefore(anchor, OpName::Get("prim::ListUnpack"), {v}, elements);
      g_->SetSource(unpack, current_source_);
      for (size_t k = 0; k < elements.size(); ++k) {
        SMELT_RETURN_IF_ERROR(Define(declared[i].elements[k], g_->node(unpack).outputs[k], scope));
      }
    }
    return absl::OkStatus();
  }

  // --- higher-order operators ---
  // Reads a nested graph into `block`, whose parameters are the graph's inputs.
  absl::Status ReadSubgraph(const Json& arg, BlockId block, int depth) {
    if (depth > 50) return absl::InvalidArgumentError("subgraphs are nested deeper than 50 levels");
    SMELT_ASSIGN_OR_RETURN(const Json* as_graph, Get(arg, "as_graph"));
    SMELT_ASSIGN_OR_RETURN(const Json* graph, Get(*as_graph, "graph"));
    SMELT_ASSIGN_OR_RETURN(const Json* inputs, Get(*graph, "inputs"));
    SMELT_ASSIGN_OR_RETURN(const Json* outputs, Get(*graph, "outputs"));
    if (!inputs->is_array() || !outputs->is_array()) return Expected("lists of inputs and outputs");
    Scope scope;
    scope.graph = graph;
    for (const Json& input : *inputs) {
      SMELT_ASSIGN_OR_RETURN(std::string name, InputName(input));
      if (name.empty()) return absl::UnimplementedError("a subgraph's input that is a constant");
      SMELT_RETURN_IF_ERROR(
          DeclareInput(input, name, scope, [&](Type t) { return g_->AddParam(block, std::move(t), name); }).status());
    }
    SMELT_RETURN_IF_ERROR(ReadNodes(*graph, block, scope, depth + 1));
    for (const Json& output : *outputs) {
      SMELT_ASSIGN_OR_RETURN(ValueId v, ReadValue(output, scope, g_->block(block).return_node, Type()));
      g_->AddResult(block, v);
    }
    return absl::OkStatus();
  }

  // An operand list: {"as_tensors": [...]} or a mixed tuple.
  absl::Status ReadOperands(const Json& arg, const Scope& scope, NodeId anchor, std::vector<ValueId>& out) {
    SMELT_ASSIGN_OR_RETURN(auto u, AsUnion(arg));
    if (u.first == "as_tensors") {
      if (!u.second->is_array()) return Expected("a list of tensors");
      for (const Json& e : *u.second) {
        SMELT_ASSIGN_OR_RETURN(std::string name, GetString(e, "name"));
        SMELT_ASSIGN_OR_RETURN(ValueId v, Lookup(scope, name));
        out.push_back(v);
      }
      return absl::OkStatus();
    }
    if ((u.first == "as_ints" || u.first == "as_sym_ints") && u.second->is_array()) {
      for (const Json& e : *u.second) {
        if (e.is_number_integer()) {
          SMELT_ASSIGN_OR_RETURN(int64_t i, AsInt(e));
          out.push_back(Constant(anchor, i, Type::Int()));
        } else {
          SMELT_ASSIGN_OR_RETURN(ValueId v, ReadValue(Json{{"as_sym_int", e}}, scope, anchor, Type::Int()));
          out.push_back(v);
        }
      }
      return absl::OkStatus();
    }
    if ((u.first == "as_args" || u.first == "as_list") && u.second->is_array()) {
      for (const Json& e : *u.second) {
        SMELT_ASSIGN_OR_RETURN(ValueId v, ReadValue(e, scope, anchor, Type()));
        out.push_back(v);
      }
      return absl::OkStatus();
    }
    SMELT_ASSIGN_OR_RETURN(ValueId v, ReadValue(arg, scope, anchor, Type()));
    out.push_back(v);
    return absl::OkStatus();
  }

  absl::StatusOr<const Json*> Operand(const Json& inputs, size_t i) {
    if (i >= inputs.size()) return absl::InvalidArgumentError(absl::StrCat("input ", i, " is missing"));
    return Get(inputs[i], "arg");
  }

  absl::Status ReadHigherOrder(const std::string& name, const Json& inputs, const Json& outputs, BlockId block,
                               Scope& scope, int depth) {
    const NodeId anchor = g_->block(block).return_node;
    auto source = current_source_;
    auto define_outputs = [&](NodeId n) -> absl::Status {
      std::vector<OutputDecl> declared;
      for (const Json& o : outputs) {
        SMELT_ASSIGN_OR_RETURN(OutputDecl d, ReadOutput(o, scope));
        if (d.is_list) {
          for (OutputDecl& e : d.elements) declared.push_back(std::move(e));
        } else {
          declared.push_back(std::move(d));
        }
      }
      for (const OutputDecl& d : declared) {
        ValueId v = g_->AddNodeOutput(n, d.type);
        SMELT_RETURN_IF_ERROR(Define(d, v, scope));
      }
      return absl::OkStatus();
    };
    if (name == "cond") {
      SMELT_ASSIGN_OR_RETURN(const Json* predicate, Operand(inputs, 0));
      SMELT_ASSIGN_OR_RETURN(const Json* on_true, Operand(inputs, 1));
      SMELT_ASSIGN_OR_RETURN(const Json* on_false, Operand(inputs, 2));
      std::vector<ValueId> args;
      SMELT_ASSIGN_OR_RETURN(ValueId p, ReadValue(*predicate, scope, anchor, Type::Bool()));
      args.push_back(p);
      if (inputs.size() > 3) {
        SMELT_ASSIGN_OR_RETURN(const Json* operands, Operand(inputs, 3));
        SMELT_RETURN_IF_ERROR(ReadOperands(*operands, scope, anchor, args));
      }
      NodeId n = g_->InsertBefore(anchor, OpName::Get("smelt::cond"), args, {});
      g_->SetSource(n, source);
      for (const Json* branch : {on_true, on_false}) {
        BlockId b = g_->AddBlock(n);
        SMELT_RETURN_IF_ERROR(ReadSubgraph(*branch, b, depth));
        if (g_->params(b).size() + 1 != args.size())
          return absl::InvalidArgumentError("cond: a branch takes another number of operands than are given");
      }
      if (g_->results(g_->node(n).blocks[0]).size() != g_->results(g_->node(n).blocks[1]).size()) {
        return absl::InvalidArgumentError("cond: the branches return different numbers of values");
      }
      SMELT_RETURN_IF_ERROR(define_outputs(n));
      return CheckResults(n, g_->node(n).outputs.size());
    }
    if (name == "while_loop") {
      SMELT_ASSIGN_OR_RETURN(const Json* cond, Operand(inputs, 0));
      SMELT_ASSIGN_OR_RETURN(const Json* body, Operand(inputs, 1));
      SMELT_ASSIGN_OR_RETURN(const Json* carried, Operand(inputs, 2));
      std::vector<ValueId> args;
      SMELT_RETURN_IF_ERROR(ReadOperands(*carried, scope, anchor, args));
      const int64_t num_carried = static_cast<int64_t>(args.size());
      if (inputs.size() > 3) {
        SMELT_ASSIGN_OR_RETURN(const Json* additional, Operand(inputs, 3));
        SMELT_RETURN_IF_ERROR(ReadOperands(*additional, scope, anchor, args));
      }
      NodeId n = g_->InsertBefore(anchor, OpName::Get("smelt::while_loop"), args, {});
      g_->SetSource(n, source);
      g_->SetAttribute(n, "num_carried", num_carried);
      for (const Json* graph : {cond, body}) {
        BlockId b = g_->AddBlock(n);
        SMELT_RETURN_IF_ERROR(ReadSubgraph(*graph, b, depth));
        if (g_->params(b).size() != args.size())
          return absl::InvalidArgumentError("while_loop: a subgraph takes another number of operands than are given");
      }
      if (g_->results(g_->node(n).blocks[0]).size() != 1)
        return absl::InvalidArgumentError("while_loop: its condition must return one value");
      if (static_cast<int64_t>(g_->results(g_->node(n).blocks[1]).size()) != num_carried) {
        return absl::InvalidArgumentError("while_loop: its body must return what is carried");
      }
      SMELT_RETURN_IF_ERROR(define_outputs(n));
      return static_cast<int64_t>(g_->node(n).outputs.size()) == num_carried
                 ? absl::OkStatus()
                 : absl::InvalidArgumentError("while_loop: it must have as many outputs as carried values");
    }
    if (name == "wrap_with_set_grad_enabled" || name == "wrap_with_autocast" || name == "wrap") {
      // Gradients do not concern smelt: the body is inlined. Autocast's casts are not in the body.
      const std::optional<DType> outer_autocast = autocast_;
      if (name == "wrap_with_autocast") SMELT_RETURN_IF_ERROR(BeginAutocast(inputs));
      size_t at = 0;
      auto is_graph = [](const Json& input) {
        const Json* arg = Find(input, "arg");
        return arg != nullptr && Find(*arg, "as_graph") != nullptr;
      };
      while (at < inputs.size() && !is_graph(inputs[at])) ++at;
      SMELT_ASSIGN_OR_RETURN(const Json* graph_arg, Operand(inputs, at));
      std::vector<ValueId> args;
      for (size_t i = at + 1; i < inputs.size(); ++i) {
        SMELT_ASSIGN_OR_RETURN(const Json* a, Operand(inputs, i));
        SMELT_RETURN_IF_ERROR(ReadOperands(*a, scope, anchor, args));
      }
      absl::Status inlined = InlineSubgraph(*graph_arg, args, outputs, block, scope, depth);
      autocast_ = outer_autocast;
      return inlined;
    }
    return absl::UnimplementedError(absl::StrCat("higher-order operator ", name));
  }

  // wrap_with_autocast(device_type, dtype, enabled, cache_enabled, graph, ...)
  absl::Status BeginAutocast(const Json& inputs) {
    SMELT_ASSIGN_OR_RETURN(const Json* dtype_arg, Operand(inputs, 1));
    SMELT_ASSIGN_OR_RETURN(const Json* enabled_arg, Operand(inputs, 2));
    SMELT_ASSIGN_OR_RETURN(const Json* enabled_json, Get(*enabled_arg, "as_bool"));
    SMELT_ASSIGN_OR_RETURN(bool enabled, AsBool(*enabled_json));
    DType target = DType::kBFloat16;  // the CPU's default
    if (const Json* code = Find(*dtype_arg, "as_scalar_type"); code != nullptr) {
      SMELT_ASSIGN_OR_RETURN(int64_t number, AsInt(*code));
      SMELT_ASSIGN_OR_RETURN(target, ToDType(number));
    }
    autocast_ = enabled ? std::optional<DType>(target) : std::nullopt;
    autocast_seen_ = autocast_seen_ || enabled;
    return absl::OkStatus();
  }

  absl::Status CheckResults(NodeId n, size_t expected) {
    for (BlockId b : g_->node(n).blocks) {
      if (g_->results(b).size() != expected)
        return absl::InvalidArgumentError("a branch returns another number of values than the node has outputs");
    }
    return absl::OkStatus();
  }

  absl::Status InlineSubgraph(const Json& arg, const std::vector<ValueId>& args, const Json& outputs, BlockId block,
                              Scope& outer, int depth) {
    if (depth > 50) return absl::InvalidArgumentError("subgraphs are nested deeper than 50 levels");
    SMELT_ASSIGN_OR_RETURN(const Json* as_graph, Get(arg, "as_graph"));
    SMELT_ASSIGN_OR_RETURN(const Json* graph, Get(*as_graph, "graph"));
    SMELT_ASSIGN_OR_RETURN(const Json* inputs, Get(*graph, "inputs"));
    SMELT_ASSIGN_OR_RETURN(const Json* results, Get(*graph, "outputs"));
    if (!inputs->is_array() || !results->is_array() || inputs->size() != args.size()) {
      return absl::InvalidArgumentError("a subgraph takes another number of operands than are given");
    }
    Scope scope;
    scope.graph = graph;
    for (size_t i = 0; i < args.size(); ++i) {
      SMELT_ASSIGN_OR_RETURN(std::string name, InputName((*inputs)[i]));
      if (!name.empty()) scope.values[name] = args[i];
    }
    SMELT_RETURN_IF_ERROR(ReadNodes(*graph, block, scope, depth + 1));
    std::vector<OutputDecl> declared;
    for (const Json& o : outputs) {
      SMELT_ASSIGN_OR_RETURN(OutputDecl d, ReadOutput(o, outer));
      if (d.is_list) {
        for (OutputDecl& e : d.elements) declared.push_back(std::move(e));
      } else {
        declared.push_back(std::move(d));
      }
    }
    if (declared.size() != results->size())
      return absl::InvalidArgumentError("a subgraph returns another number of values than the node has outputs");
    for (size_t i = 0; i < declared.size(); ++i) {
      SMELT_ASSIGN_OR_RETURN(ValueId v, ReadValue((*results)[i], scope, g_->block(block).return_node, Type()));
      if (!declared[i].name.empty() && !outer.values.emplace(declared[i].name, v).second) {
        return absl::InvalidArgumentError(absl::StrCat("two values are named \"", declared[i].name, "\""));
      }
    }
    return absl::OkStatus();
  }

  const ZipArchive& zip_;
  const Pt2Options& options_;
  std::string root_, model_entry_, torch_version_;
  std::unique_ptr<Graph> g_owner_;
  Graph* g_ = nullptr;
  absl::flat_hash_map<std::string, WeightEntry> weights_, constants_;
  absl::flat_hash_map<std::string, absl::Status> bad_weights_;
  absl::flat_hash_map<std::string, int> storages_;  // archive entry -> weight storage
  absl::flat_hash_map<std::string, std::shared_ptr<const SourceLocation>> sources_;
  std::shared_ptr<const SourceLocation> current_source_;
  std::optional<DType> autocast_;  // in a region of it: the lower precision
  bool autocast_seen_ = false;
};

}  // namespace

absl::StatusOr<Pt2Model> ReadPt2(const std::string& path, const Pt2Options& options) {
  SMELT_ASSIGN_OR_RETURN(std::unique_ptr<ZipArchive> zip, ZipArchive::Open(path));
  return Reader(*zip, options).Read();
}

}  // namespace smelt
