#include <array>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/ir/attribute_text.h"
#include "smelt/core/ir/cursor.h"
#include "smelt/core/ir/text.h"
#include "smelt/core/ir/text_names.h"
#include "smelt/core/ir/type_parser.h"

namespace smelt {

namespace {

// Appends a key of the part of a type that decides between overloads; geometry does not matter.
void AppendKinds(const Type& type, std::string& out) {
  out.push_back(static_cast<char>('A' + static_cast<int>(type.kind())));
  if (type.kind() == TypeKind::kClass) absl::StrAppend(&out, type.class_name(), ";");
  if (type.kind() == TypeKind::kTensor || type.kind() == TypeKind::kClass) return;
  for (const Type& t : type.elements()) AppendKinds(t, out);
  out.push_back('.');
}

// Parses one text, which its graphs share.
class Parser {
 public:
  Parser(absl::string_view text, const ParseOptions& options) : c_(text, options.file_name), options_(options) {
    type_options_.max_depth = options.max_depth;
  }

  absl::StatusOr<std::vector<std::unique_ptr<Graph>>> Run() {
    std::vector<std::unique_ptr<Graph>> graphs;
    for (c_.SkipSpacesAndComments(); graphs.empty() || !c_.AtEnd(); c_.SkipSpacesAndComments()) {
      size_t start = c_.pos();
      SMELT_ASSIGN_OR_RETURN(std::unique_ptr<Graph> g, ParseGraphAt(0));
      for (const auto& other : graphs) {
        if (other->name == g->name)
          return c_.ErrorAt(start, absl::StrCat("expected graphs of different names, found two @", g->name));
      }
      graphs.push_back(std::move(g));
    }
    return graphs;
  }

 private:
  // The state of reading one graph.
  struct Scope {
    std::unique_ptr<Graph> graph = std::make_unique<Graph>();
    std::vector<bool> visible;     // by the value's index
    std::vector<ValueId> defined;  // the visible ones, in order; a block's end takes its own away
    absl::flat_hash_map<absl::string_view, NodeId> groups;  // "prim::FusionGroup_0": nodes that a `with` may speak of
  };

  // --- values ---

  absl::StatusOr<std::string> ParseValueName() {
    c_.SkipSpaces();
    if (c_.Peek() != '%') return c_.Expected("a value, '%name'");
    c_.Skip();
    if (c_.Peek() == '"') {
      size_t start = c_.pos();
      SMELT_ASSIGN_OR_RETURN(std::string name, c_.QuotedString());
      if (name.empty()) return c_.ErrorAt(start, "expected a value's name");
      return name;
    }
    size_t start = c_.pos();
    // "%onnx::Conv_23 : Float(1)": two colons without blanks around them belong to the name.
    while (IsPlainValueChar(c_.Peek()) ||
           (c_.Peek() == ':' && c_.pos() > start &&
            ((c_.PeekAt(1) == ':' && IsIdentifierChar(c_.PeekAt(2))) || c_.text()[c_.pos() - 1] == ':'))) {
      c_.Skip();
    }
    if (c_.pos() == start) return c_.Expected("a value's name");
    return std::string(c_.Since(start));
  }

  absl::StatusOr<ValueId> ParseUse(Scope& s) {
    c_.SkipSpaces();
    size_t start = c_.pos();
    SMELT_ASSIGN_OR_RETURN(std::string name, ParseValueName());
    ValueId v = s.graph->FindValue(name);
    if (!v.valid() || v.index >= s.visible.size() || !s.visible[v.index]) {
      return c_.ErrorAt(start, absl::StrCat("expected a value that is defined here, found '%", name, "'"));
    }
    return v;
  }

  // "(%a, %b)"
  absl::Status ParseUses(Scope& s, std::vector<ValueId>& uses) {
    uses.clear();
    SMELT_RETURN_IF_ERROR(c_.Consume("("));
    for (c_.SkipSpaces(); c_.Peek() != ')'; c_.SkipSpaces()) {
      if (!uses.empty()) SMELT_RETURN_IF_ERROR(c_.Consume(","));
      SMELT_ASSIGN_OR_RETURN(ValueId v, ParseUse(s));
      uses.push_back(v);
    }
    c_.Skip();
    return absl::OkStatus();
  }

  struct Definition {
    size_t pos = 0;
    std::string name;
    Type type;
    std::optional<Expr> expr;
  };

  absl::StatusOr<Type> ParseCachedType() {
    c_.SkipSpaces();
    for (const auto& [text, type] : recent_types_) {
      if (text.empty() || !c_.LooksAt(text)) continue;
      char next = c_.PeekAt(text.size());
      if (IsIdentifierChar(next) || next == '[' || next == '?' || next == '(' || next == '.' || next == '<') continue;
      c_.Skip(text.size());
      return type;
    }
    size_t start = c_.pos();
    SMELT_ASSIGN_OR_RETURN(Type type, ParseType(c_, type_options_));
    recent_types_[next_recent_++ % recent_types_.size()] = {c_.Since(start), type};
    return type;
  }

  // "%x : Float(4)", "%n : int(2*s0)", "%x" (a Tensor)
  absl::StatusOr<Definition> ParseDefinition(const Scope& s) {
    Definition d;
    c_.SkipSpaces();
    d.pos = c_.pos();
    SMELT_ASSIGN_OR_RETURN(d.name, ParseValueName());
    if (s.graph->FindValue(d.name).valid()) {
      return c_.ErrorAt(d.pos, absl::StrCat("expected a name that is not taken yet, found '%", d.name, "'"));
    }
    c_.SkipBlanks();
    if (c_.Peek() != ':') {
      d.type = Type::Tensor();
      return d;
    }
    c_.Skip();
    SMELT_ASSIGN_OR_RETURN(d.type, ParseCachedType());
    if (c_.Peek() == '(' && !d.type.IsTensor()) {
      c_.Skip();
      SMELT_ASSIGN_OR_RETURN(d.expr, ParseSizeExpr(c_));
      SMELT_RETURN_IF_ERROR(c_.Consume(")"));
    }
    return d;
  }

  void Define(Scope& s, ValueId v) {
    if (v.index >= s.visible.size()) s.visible.resize(s.graph->value_index_bound() + s.graph->value_index_bound() / 2);
    s.visible[v.index] = true;
    s.defined.push_back(v);
  }

  // --- the head ---

  absl::StatusOr<std::unique_ptr<Graph>> ParseGraphAt(int depth) {
    if (depth > options_.max_depth) {
      return c_.Error(absl::StrCat("expected subgraphs nested at most ", options_.max_depth, " deep"));
    }
    Scope s;
    Graph& g = *s.graph;
    c_.SkipSpacesAndComments();
    SMELT_RETURN_IF_ERROR(c_.Consume("graph"));
    c_.SkipSpaces();
    if (c_.Peek() == '@') {
      c_.Skip();
      if (c_.Peek() == '"') {
        SMELT_ASSIGN_OR_RETURN(g.name, c_.QuotedString());
      } else {
        g.name = std::string(c_.DottedIdentifier());
      }
      if (g.name.empty()) return c_.Expected("the graph's name");
    }
    std::vector<std::pair<size_t, int>> weight_uses;
    SMELT_RETURN_IF_ERROR(c_.Consume("("));
    bool first = true;
    for (c_.SkipSpacesAndComments(); c_.Peek() != ')'; c_.SkipSpacesAndComments()) {
      if (!first) SMELT_RETURN_IF_ERROR(c_.Consume(","));
      first = false;
      c_.SkipSpacesAndComments();
      SMELT_ASSIGN_OR_RETURN(Definition d, ParseDefinition(s));
      InputInfo info;
      while (c_.TryConsume("=")) {
        size_t start = c_.pos();
        if (c_.TryConsume("weight")) {
          info.kind = InputInfo::Kind::kWeight;
          SMELT_ASSIGN_OR_RETURN(int64_t weight, c_.Integer());
          if (weight < 0 || weight > INT32_MAX) return c_.ErrorAt(start, "expected the number of a weight");
          info.weight = static_cast<int>(weight);
          weight_uses.emplace_back(start, info.weight);
        } else if (c_.TryConsume("const")) {
          info.is_constant = true;
          SMELT_RETURN_IF_ERROR(c_.Consume("["));
          SMELT_ASSIGN_OR_RETURN(info.constant, ParseAttribute(c_, nullptr));
          SMELT_RETURN_IF_ERROR(c_.Consume("]"));
        } else {
          return c_.Expected("'weight' or 'const'");
        }
      }
      ValueId v = g.AddInput(d.name, std::move(d.type), std::move(info));
      if (d.expr) g.SetExpr(v, std::move(d.expr));
      Define(s, v);
    }
    c_.Skip();
    SMELT_RETURN_IF_ERROR(c_.Consume(":"));
    SMELT_RETURN_IF_ERROR(ParseDeclarations(g));
    for (const auto& [pos, weight] : weight_uses) {
      if (weight >= static_cast<int>(g.weights.size())) {
        return c_.ErrorAt(pos,
                          absl::StrCat("expected one of the graph's ", g.weights.size(), " weights, found ", weight));
      }
    }
    SMELT_RETURN_IF_ERROR(ParseNodes(s, g.top(), 0));
    SMELT_RETURN_IF_ERROR(c_.Consume("return"));
    SMELT_RETURN_IF_ERROR(ParseUses(s, uses_));
    for (ValueId v : uses_) g.AddOutput(v);
    if (c_.TryConsume("named")) {
      SMELT_RETURN_IF_ERROR(c_.Consume("("));
      for (size_t i = 0; i < g.output_names.size(); ++i) {
        if (i > 0) SMELT_RETURN_IF_ERROR(c_.Consume(","));
        SMELT_ASSIGN_OR_RETURN(g.output_names[i], c_.QuotedString());
      }
      SMELT_RETURN_IF_ERROR(c_.Consume(")"));
    }
    SMELT_RETURN_IF_ERROR(ParseSubgraphs(s, depth));
    return std::move(s.graph);
  }

  absl::Status ParseDeclarations(Graph& g) {
    for (;;) {
      c_.SkipSpacesAndComments();
      size_t start = c_.pos();
      if (c_.TryConsume("symbol")) {
        std::string name;
        c_.SkipSpaces();
        if (c_.Peek() == '"') {
          SMELT_ASSIGN_OR_RETURN(name, c_.QuotedString());
        } else {
          name = std::string(c_.DottedIdentifier());
        }
        if (name.empty()) return c_.Expected("a symbol's name");
        if (c_.TryConsume("in")) {
          SymbolRanges::Range range;
          SMELT_RETURN_IF_ERROR(c_.Consume("["));
          SMELT_ASSIGN_OR_RETURN(range.min, c_.Integer());
          SMELT_RETURN_IF_ERROR(c_.Consume(","));
          if (!c_.TryConsume("inf")) {
            SMELT_ASSIGN_OR_RETURN(range.max, c_.Integer());
          }
          if (range.min > range.max) return c_.ErrorAt(start, "expected a range that is not empty");
          SMELT_RETURN_IF_ERROR(c_.Consume("]"));
          g.symbols.Set(name, range);
        }
        if (c_.TryConsume("hint")) {
          SMELT_ASSIGN_OR_RETURN(g.symbol_hints[name], c_.Integer());
        }
      } else if (c_.TryConsume("guard")) {
        Graph::SizeGuard guard;
        SMELT_ASSIGN_OR_RETURN(guard.text, c_.QuotedString());
        SMELT_ASSIGN_OR_RETURN(guard.holds, ParseSizeExpr(c_));
        g.AddSizeGuard(std::move(guard));
      } else if (c_.TryConsume("storage")) {
        SMELT_ASSIGN_OR_RETURN(int64_t index, c_.Integer());
        SMELT_RETURN_IF_ERROR(c_.Consume("bytes"));
        SMELT_ASSIGN_OR_RETURN(int64_t bytes, c_.Integer());
        if (index != static_cast<int64_t>(g.weight_storages.size()) || bytes < 0) {
          return c_.ErrorAt(start, absl::StrCat("expected storage ", g.weight_storages.size(), " with a size >= 0"));
        }
        g.weight_storages.push_back(Storage::Borrow(nullptr, bytes));
      } else if (c_.TryConsume("weight")) {
        SMELT_RETURN_IF_ERROR(ParseWeight(g, start));
      } else {
        return absl::OkStatus();
      }
    }
  }

  // weight 0 "layer.weight" parameter storage 0 Float(8, 8, strides=[8, 1]) offset 4
  absl::Status ParseWeight(Graph& g, size_t start) {
    Weight w;
    SMELT_ASSIGN_OR_RETURN(int64_t index, c_.Integer());
    if (index != static_cast<int64_t>(g.weights.size())) {
      return c_.ErrorAt(start, absl::StrCat("expected weight ", g.weights.size()));
    }
    SMELT_ASSIGN_OR_RETURN(w.name, c_.QuotedString());
    if (c_.TryConsume("parameter")) {
      w.kind = Weight::Kind::kParameter;
    } else if (c_.TryConsume("buffer")) {
      w.kind = Weight::Kind::kBuffer;
    } else if (c_.TryConsume("constant")) {
      w.kind = Weight::Kind::kConstant;
    } else {
      return c_.Expected("'parameter', 'buffer' or 'constant'");
    }
    SMELT_RETURN_IF_ERROR(c_.Consume("storage"));
    SMELT_ASSIGN_OR_RETURN(int64_t storage, c_.Integer());
    if (storage < 0 || storage >= static_cast<int64_t>(g.weight_storages.size())) {
      return c_.ErrorAt(
          start, absl::StrCat("expected one of the graph's ", g.weight_storages.size(), " storages, found ", storage));
    }
    w.storage = static_cast<int>(storage);
    SMELT_ASSIGN_OR_RETURN(Type type, ParseType(c_, type_options_));
    if (!type.IsTensor() || !type.tensor().IsComplete())
      return c_.ErrorAt(start, "expected a tensor type with dtype, sizes and strides");
    w.dtype = *type.tensor().dtype;
    for (int d = 0; d < type.tensor().rank(); ++d) {
      std::optional<int64_t> size = (*type.tensor().sizes)[d].Constant(),
                             stride = (*type.tensor().strides)[d].Constant();
      if (!size || !stride) return c_.ErrorAt(start, "expected constant sizes and strides");
      w.geometry.sizes.push_back(*size);
      w.geometry.strides.push_back(*stride);
    }
    if (c_.TryConsume("offset")) {
      SMELT_ASSIGN_OR_RETURN(w.geometry.offset, c_.Integer());
    }
    if (absl::Status status = CheckWeight(w, g.weight_storages[w.storage]->bytes()); !status.ok()) {
      return c_.ErrorAt(start, status.message());
    }
    g.weights.push_back(std::move(w));
    return absl::OkStatus();
  }

  // --- nodes ---

  // Parses nodes up to "return" or "->".
  absl::Status ParseNodes(Scope& s, BlockId b, int depth) {
    if (depth > options_.max_depth) {
      return c_.Error(absl::StrCat("expected blocks nested at most ", options_.max_depth, " deep"));
    }
    for (;;) {
      c_.SkipSpacesAndComments();
      char ch = c_.Peek();
      if (ch == '-' || (ch == 'r' && c_.LooksAtWord("return"))) return absl::OkStatus();
      SMELT_RETURN_IF_ERROR(ParseNode(s, b, depth));
    }
  }

  absl::Status ParseNode(Scope& s, BlockId b, int depth) {
    Graph& g = *s.graph;
    std::vector<Definition> outputs = std::move(definitions_);
    outputs.clear();
    if (c_.Peek() == '%') {
      do {
        SMELT_ASSIGN_OR_RETURN(Definition d, ParseDefinition(s));
        for (const Definition& other : outputs) {
          if (other.name == d.name) {
            return c_.ErrorAt(d.pos, absl::StrCat("expected a name that is not taken yet, found '%", d.name, "'"));
          }
        }
        outputs.push_back(std::move(d));
      } while (c_.TryConsume(","));
      SMELT_RETURN_IF_ERROR(c_.Consume("="));
    } else {
      (void)c_.TryConsume("=");  // PyTorch's " = prim::Print(%x)"
    }
    c_.SkipSpaces();
    size_t op_pos = c_.pos();
    Graph::Attributes attributes;
    absl::string_view op_name;
    if (c_.Peek() == '^') {
      SMELT_RETURN_IF_ERROR(ParsePythonOp(attributes));
      op_name = "prim::PythonOp";
    } else {
      while (IsIdentifierChar(c_.Peek()) || c_.Peek() == '.' || c_.Peek() == ':') c_.Skip();
      op_name = c_.Since(op_pos);
      if (op_name.empty() || !IsIdentifierStart(op_name[0])) {
        c_.Seek(op_pos);
        return c_.Expected(outputs.empty() ? "a node, 'return' or '->'" : "an operator's name");
      }
    }
    c_.SkipBlanks();
    if (c_.Peek() == '[') {
      const Type* hint = op_name == "prim::Constant" && outputs.size() == 1 ? &outputs[0].type : nullptr;
      SMELT_RETURN_IF_ERROR(ParseAttributes(hint, attributes));
    }
    SMELT_RETURN_IF_ERROR(ParseUses(s, uses_));
    SMELT_ASSIGN_OR_RETURN(OpName op, ResolveOp(g, op_name, op_pos));

    NodeId n = g.Append(b, op, uses_, {}, std::move(attributes));
    for (Definition& d : outputs) {
      ValueId v = g.AddNodeOutput(n, std::move(d.type), d.name);
      if (d.expr) g.SetExpr(v, std::move(d.expr));
    }
    // A constant integer has a known value.
    if (op == constant_ && outputs.size() == 1) {
      const Attribute* value = g.node(n).FindAttribute("value");
      ValueId v = g.node(n).outputs[0];
      const int64_t* i = value == nullptr ? nullptr : std::get_if<int64_t>(value);
      if (i != nullptr && !g.value(v).expr && g.value(v).type.kind() == TypeKind::kInt) g.SetExpr(v, Expr(*i));
    }
    size_t underscore = op_name.rfind('_');
    if (underscore != absl::string_view::npos && underscore + 1 < op_name.size() && IsDigit(op_name[underscore + 1])) {
      s.groups.try_emplace(op_name, n);
    }
    definitions_ = std::move(outputs);
    ParseTrailer(g, n);
    SMELT_RETURN_IF_ERROR(ParseBlocks(s, n, depth));
    for (ValueId v : g.node(n).outputs) Define(s, v);
    return absl::OkStatus();
  }

  absl::Status ParseBlocks(Scope& s, NodeId n, int depth) {
    Graph& g = *s.graph;
    for (;;) {
      size_t before = c_.pos();
      c_.SkipSpacesAndComments();
      if (!c_.LooksAt("block") || !IsDigit(c_.PeekAt(5))) {
        c_.Seek(before);
        return absl::OkStatus();
      }
      c_.Skip(5);
      SMELT_RETURN_IF_ERROR(c_.Integer());  // PyTorch counts them; nothing depends on it
      BlockId b = g.AddBlock(n);
      size_t defined = s.defined.size();
      SMELT_RETURN_IF_ERROR(c_.Consume("("));
      bool first = true;
      for (c_.SkipSpaces(); c_.Peek() != ')'; c_.SkipSpaces()) {
        if (!first) SMELT_RETURN_IF_ERROR(c_.Consume(","));
        first = false;
        SMELT_ASSIGN_OR_RETURN(Definition d, ParseDefinition(s));
        ValueId v = g.AddParam(b, std::move(d.type), d.name);
        if (d.expr) g.SetExpr(v, std::move(d.expr));
        Define(s, v);
      }
      c_.Skip();
      SMELT_RETURN_IF_ERROR(c_.Consume(":"));
      SMELT_RETURN_IF_ERROR(ParseNodes(s, b, depth + 1));
      SMELT_RETURN_IF_ERROR(c_.Consume("->"));
      SMELT_RETURN_IF_ERROR(ParseUses(s, uses_));
      for (ValueId v : uses_) g.AddResult(b, v);
      for (size_t i = defined; i < s.defined.size(); ++i) s.visible[s.defined[i].index] = false;
      s.defined.resize(defined);
    }
  }

  absl::StatusOr<OpName> ResolveOp(const Graph& g, absl::string_view name, size_t pos) {
    size_t colons = name.rfind("::");
    bool has_overload = colons != absl::string_view::npos && name.find('.', colons) != absl::string_view::npos;
    key_.assign(name.data(), name.size());
    bool resolve = options_.resolve_overload != nullptr && !has_overload;
    if (resolve) {
      key_.push_back(' ');
      for (ValueId v : uses_) AppendKinds(g.value(v).type, key_);
    }
    auto it = ops_.find(key_);
    if (it != ops_.end()) return it->second;
    OpName op;
    if (resolve) {
      std::vector<Type> types;
      for (ValueId v : uses_) types.push_back(g.value(v).type);
      absl::StatusOr<OpName> found = options_.resolve_overload(name, types);
      if (found.ok()) {
        op = *found;
      } else if (found.status().code() == absl::StatusCode::kNotFound) {
        op = OpName::Get(name);  // an operator without schema: as written
      } else {
        return c_.ErrorAt(pos,
                          absl::StrCat("expected an overload that takes these arguments: ", found.status().message()));
      }
    } else {
      op = OpName::Get(name);
    }
    ops_.emplace(key_, op);
    return op;
  }

  absl::Status ParseAttributes(const Type* hint, Graph::Attributes& attributes) {
    c_.Skip();
    for (;;) {
      c_.SkipSpaces();
      if (c_.Peek() == ']') break;
      size_t start = c_.pos();
      std::string name;
      if (c_.Peek() == '"') {
        SMELT_ASSIGN_OR_RETURN(name, c_.QuotedString());
      } else {
        name = std::string(c_.Identifier());
      }
      if (name.empty()) return c_.Expected("an attribute's name");
      for (const auto& [other, value] : attributes) {
        if (other == name)
          return c_.ErrorAt(start, absl::StrCat("expected each attribute once, found \"", name, "\" again"));
      }
      SMELT_RETURN_IF_ERROR(c_.Consume("="));
      SMELT_ASSIGN_OR_RETURN(Attribute value, ParseAttribute(c_, name == "value" ? hint : nullptr));
      attributes.emplace_back(std::move(name), std::move(value));
      c_.SkipSpaces();
      if (c_.Peek() == ']') break;
      SMELT_RETURN_IF_ERROR(c_.Consume(","));
      if (attributes.size() > 10000) return c_.Error("expected at most 10000 attributes");
    }
    c_.Skip();
    return absl::OkStatus();
  }

  // "^Name[inplace=0](True, 3)(%x)": a function written in Python.
  absl::Status ParsePythonOp(Graph::Attributes& attributes) {
    c_.Skip();
    absl::string_view name = c_.DottedIdentifier();
    if (name.empty()) return c_.Expected("the Python function's name");
    if (c_.Peek() == '[') SMELT_RETURN_IF_ERROR(ParseAttributes(nullptr, attributes));
    for (const auto& [other, value] : attributes) {
      if (other == "name" || other == "scalar_args") {
        return c_.Error(absl::StrCat("expected a Python function without an attribute \"", other, "\""));
      }
    }
    attributes.emplace_back("name", std::string(name));
    if (c_.Peek() != '(') return c_.Expected("'('");
    size_t start = c_.pos();
    int depth = 0;
    do {
      char ch = c_.Peek();
      if (c_.AtLineEnd()) return c_.ErrorAt(start, "expected the arguments that begin here to end in their line");
      if (ch == '"' || ch == '\'') {
        SMELT_RETURN_IF_ERROR(c_.QuotedString());
        continue;
      }
      if (ch == '(') ++depth;
      if (ch == ')') --depth;
      c_.Skip();
    } while (depth > 0);
    attributes.emplace_back("scalar_args", std::string(c_.Since(start)));
    return absl::OkStatus();
  }

  // After a node, in its line: ", scope: __module.layer" (dropped) and "# model.py:41:8".
  void ParseTrailer(Graph& g, NodeId n) {
    c_.SkipBlanks();
    if (c_.LooksAt(", scope:")) {
      while (!c_.AtLineEnd() && c_.Peek() != '#') c_.Skip();
    }
    if (c_.Peek() != '#') return;
    c_.Skip();
    c_.SkipBlanks();
    size_t start = c_.pos();
    while (!c_.AtLineEnd()) c_.Skip();
    absl::string_view comment = c_.Since(start);
    auto [it, is_new] = sources_.try_emplace(comment);
    if (is_new) it->second = ParseSource(comment);
    if (it->second != nullptr) g.SetSource(n, it->second);
  }

  // Returns nullptr for a comment that is not a source location.
  static std::shared_ptr<const SourceLocation> ParseSource(absl::string_view comment) {
    SourceLocation source;
    Cursor c(comment);
    // ":line:column", then the end or a blank; the file name may contain colons too.
    auto read_position = [&]() {
      if (c.Peek() != ':' || !IsDigit(c.PeekAt(1))) return false;
      c.Skip();
      absl::StatusOr<int64_t> line = c.Integer();
      if (!line.ok() || *line > INT32_MAX || c.Peek() != ':' || !IsDigit(c.PeekAt(1))) return false;
      c.Skip();
      absl::StatusOr<int64_t> column = c.Integer();
      if (!column.ok() || *column > INT32_MAX || !(c.AtEnd() || c.Peek() == ' ')) return false;
      source.line = static_cast<int>(*line);
      source.column = static_cast<int>(*column);
      return true;
    };
    if (c.Peek() == '"') {
      absl::StatusOr<std::string> file = c.QuotedString();
      if (!file.ok() || !read_position()) return nullptr;
      source.file = *std::move(file);
    } else {
      bool found = false;
      for (size_t colon = comment.find(':'); colon != absl::string_view::npos && !found;
           colon = comment.find(':', colon + 1)) {
        c.Seek(colon);
        found = read_position();
        if (found) source.file = std::string(comment.substr(0, colon));
      }
      if (!found) return nullptr;
    }
    c.SkipBlanks();
    if (c.Peek() == '"') {
      absl::StatusOr<std::string> text = c.QuotedString();
      if (text.ok()) source.text = *std::move(text);
    }
    return std::make_shared<const SourceLocation>(std::move(source));
  }

  // with prim::FusionGroup_0 = graph(...): ...   and, for an attribute of another name,   with smelt::op_0[body] =
  // graph(...)
  absl::Status ParseSubgraphs(Scope& s, int depth) {
    for (;;) {
      size_t start = c_.pos();
      c_.SkipSpacesAndComments();
      if (!c_.TryConsume("with")) {
        c_.Seek(start);
        return absl::OkStatus();
      }
      c_.SkipSpaces();
      size_t name_pos = c_.pos();
      while (IsIdentifierChar(c_.Peek()) || c_.Peek() == '.' || c_.Peek() == ':') c_.Skip();
      absl::string_view name = c_.Since(name_pos);
      auto it = s.groups.find(name);
      if (it == s.groups.end()) {
        if (depth == 0) {
          c_.Seek(name_pos);
          return c_.Expected("the name of a node of this graph that has a subgraph");
        }
        // It belongs to the outer graph: a graph's own subgraphs come right after it.
        c_.Seek(start);
        return absl::OkStatus();
      }
      std::string attribute = "Subgraph";
      if (c_.TryConsume("[")) {
        c_.SkipSpaces();
        if (c_.Peek() == '"') {
          SMELT_ASSIGN_OR_RETURN(attribute, c_.QuotedString());
        } else {
          attribute = std::string(c_.Identifier());
        }
        if (attribute.empty()) return c_.Expected("an attribute's name");
        SMELT_RETURN_IF_ERROR(c_.Consume("]"));
      }
      NodeId n = it->second;
      if (s.graph->node(n).FindAttribute(attribute) != nullptr) {
        // A second `with` of this name: an outer graph also counts its groups from 0.
        if (depth > 0) {
          c_.Seek(start);
          return absl::OkStatus();
        }
        return c_.ErrorAt(name_pos, absl::StrCat("expected one subgraph for ", name, ", found another"));
      }
      SMELT_RETURN_IF_ERROR(c_.Consume("="));
      SMELT_ASSIGN_OR_RETURN(std::unique_ptr<Graph> subgraph, ParseGraphAt(depth + 1));
      s.graph->SetAttribute(n, attribute, std::shared_ptr<Graph>(std::move(subgraph)));
      absl::string_view op = name.substr(0, name.rfind('_'));
      if (s.graph->node(n).op.full() == name) s.graph->SetOp(n, OpName::Get(op));
    }
  }

  Cursor c_;
  const ParseOptions& options_;
  TypeParseOptions type_options_;
  const OpName constant_ = OpName::Get("prim::Constant");
  std::array<std::pair<absl::string_view, Type>, 8> recent_types_;
  size_t next_recent_ = 0;
  absl::flat_hash_map<absl::string_view, std::shared_ptr<const SourceLocation>> sources_;
  absl::flat_hash_map<std::string, OpName> ops_;
  // Reused for every node.
  std::vector<ValueId> uses_;
  std::vector<Definition> definitions_;
  std::string key_;
};

// Returns the position of the first byte that is not valid UTF-8 (RFC 3629); npos if there is none.
size_t FindNoUtf8(absl::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  for (size_t i = 0; i < text.size();) {
    const unsigned b = byte(i);
    if (b < 0x80) {
      ++i;
      continue;
    }
    const size_t more = b >= 0xc2 && b < 0xe0 ? 1 : b >= 0xe0 && b < 0xf0 ? 2 : b >= 0xf0 && b < 0xf5 ? 3 : 0;
    if (more == 0) return i;
    // Overlong forms, surrogates and values beyond the last character are invalid.
    const unsigned least = b == 0xe0   ? 0xa0
                           : b == 0xf0 ? 0x90
                                       : 0x80,
                   most = b == 0xed   ? 0x9f
                          : b == 0xf4 ? 0x8f
                                      : 0xbf;
    if (byte(i + 1) < least || byte(i + 1) > most) return i;
    for (size_t k = 2; k <= more; ++k) {
      if ((byte(i + k) & 0xc0) != 0x80) return i;
    }
    i += more + 1;
  }
  return absl::string_view::npos;
}

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<Graph>>> ParseGraphs(absl::string_view text, const ParseOptions& options) {
  if (const size_t at = FindNoUtf8(text); at != absl::string_view::npos) {
    return absl::InvalidArgumentError(absl::StrCat(options.file_name, ": expected UTF-8, found byte ",
                                                   static_cast<unsigned char>(text[at]), " at ", at));
  }
  return Parser(text, options).Run();
}

absl::StatusOr<std::unique_ptr<Graph>> ParseGraph(absl::string_view text, const ParseOptions& options) {
  SMELT_ASSIGN_OR_RETURN(std::vector<std::unique_ptr<Graph>> graphs, ParseGraphs(text, options));
  if (graphs.size() != 1) {
    return absl::InvalidArgumentError(absl::StrCat(options.file_name, ": expected one graph, found ", graphs.size()));
  }
  return std::move(graphs[0]);
}

}  // namespace smelt
