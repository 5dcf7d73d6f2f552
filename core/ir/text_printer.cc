#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/ir/attribute_text.h"
#include "smelt/core/ir/cursor.h"
#include "smelt/core/ir/text.h"
#include "smelt/core/ir/text_names.h"
#include "smelt/core/ir/type_parser.h"

namespace smelt {

bool IsPlainValueChar(char c) { return IsIdentifierChar(c) || c == '.' || c == '/' || c == '$'; }

namespace {

bool IsPlainName(absl::string_view name) {
  if (name.empty()) return false;
  for (char c : name) {
    if (!IsPlainValueChar(c)) return false;
  }
  return true;
}

bool IsPlainIdentifier(absl::string_view name) {
  if (name.empty() || !IsIdentifierStart(name[0])) return false;
  for (char c : name) {
    if (!IsIdentifierChar(c) && c != '.') return false;
  }
  return name.back() != '.' && name.find("..") == absl::string_view::npos;
}

bool IsPlainFile(absl::string_view file) {
  if (file.empty()) return false;
  for (char c : file) {
    if (static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '#') return false;
  }
  return file.front() != ' ' && file.back() != ' ';
}

class Printer {
 public:
  explicit Printer(const Graph& g) : g_(g) {}

  std::string PrintAll() {
    out_.reserve(static_cast<size_t>(g_.num_nodes()) * 64 + 256);
    PrintHeader();
    PrintNodes(g_.top());
    out_ += "  return (";
    PrintValues(g_.outputs());
    out_ += ")";
    if (std::any_of(g_.output_names.begin(), g_.output_names.end(), [](const std::string& s) { return !s.empty(); })) {
      out_ += " named (";
      for (size_t i = 0; i < g_.output_names.size(); ++i) {
        if (i > 0) out_ += ", ";
        out_ += Quote(g_.output_names[i]);
      }
      out_ += ")";
    }
    out_ += "\n";
    for (size_t i = 0; i < subgraphs_.size(); ++i) {
      const Subgraph& s = subgraphs_[i];
      absl::StrAppend(&out_, "with ", s.op_name);
      if (s.attribute != "Subgraph") absl::StrAppend(&out_, "[", AttributeName(s.attribute), "]");
      out_ += " = ";
      out_ += Printer(*s.graph).PrintAll();
    }
    return std::move(out_);
  }

  std::string PrintOne(NodeId n) {
    PrintNodeLine(n);
    return std::move(out_);
  }

 private:
  struct Subgraph {
    std::string op_name;  // "prim::FusionGroup_0"
    std::string attribute;
    const Graph* graph;
  };

  static std::string AttributeName(absl::string_view name) {
    return IsPlainIdentifier(name) && name.find('.') == absl::string_view::npos ? std::string(name) : Quote(name);
  }

  void PrintValue(ValueId v) {
    const std::string& name = g_.value(v).name;
    out_ += "%";
    if (IsPlainName(name)) {
      out_ += name;
    } else {
      out_ += Quote(name);
    }
  }

  void PrintValues(absl::Span<const ValueId> values) {
    for (size_t i = 0; i < values.size(); ++i) {
      if (i > 0) out_ += ", ";
      PrintValue(values[i]);
    }
  }

  void PrintType(const Type& type) {
    // Most values have the type of a value shortly before; printing a tensor type costs more than all the rest.
    if (!has_type_ || !(type == last_type_)) {
      last_type_ = type;
      last_type_text_ = type.ToString();
      has_type_ = true;
    }
    out_ += last_type_text_;
  }

  // "%x : Float(4)", "%n : int(2*s0)"
  void PrintDefinition(ValueId v) {
    const Value& value = g_.value(v);
    PrintValue(v);
    out_ += " : ";
    PrintType(value.type);
    if (!value.expr || value.type.IsTensor()) return;
    if (std::optional<int64_t> c = value.expr->Constant()) {
      const Attribute* a = g_.node(value.def).FindAttribute("value");
      const int64_t* constant = a == nullptr ? nullptr : std::get_if<int64_t>(a);
      if (constant != nullptr && *constant == *c && g_.node(value.def).op == "prim::Constant") return;
    }
    absl::StrAppend(&out_, "(", SizeToText(*value.expr), ")");
  }

  void PrintDefinitions(absl::Span<const ValueId> values) {
    for (size_t i = 0; i < values.size(); ++i) {
      if (i > 0) out_ += ", ";
      PrintDefinition(values[i]);
    }
  }

  void PrintHeader() {
    out_ += "graph";
    if (g_.name != "main") absl::StrAppend(&out_, " @", IsPlainIdentifier(g_.name) ? g_.name : Quote(g_.name));
    out_ += "(";
    absl::Span<const ValueId> inputs = g_.inputs();
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (i > 0) out_ += ",\n      ";
      PrintDefinition(inputs[i]);
      if (i >= g_.input_infos.size()) continue;
      const InputInfo& info = g_.input_infos[i];
      if (info.kind == InputInfo::Kind::kWeight) absl::StrAppend(&out_, " = weight ", info.weight);
      if (info.is_constant) {
        out_ += " = const[";
        AppendAttribute(info.constant, nullptr, out_);
        out_ += "]";
      }
    }
    out_ += "):\n";
    // The names of symbols that have a range, a hint or both.
    std::vector<std::string> names;
    for (const auto& [name, range] : g_.symbols.entries()) names.push_back(name);
    for (const auto& [name, hint] : g_.symbol_hints) names.push_back(name);
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    for (const std::string& name : names) {
      absl::StrAppend(&out_, "  symbol ", IsPlainIdentifier(name) ? name : Quote(name));
      // These are sorted, too.
      const auto& entries = g_.symbols.entries();
      const auto entry = std::lower_bound(entries.begin(), entries.end(), name,
                                          [](const auto& e, const std::string& key) { return e.first < key; });
      if (entry != entries.end() && entry->first == name) {
        const SymbolRanges::Range& range = entry->second;
        absl::StrAppend(&out_, " in [", range.min, ", ",
                        range.max == SymbolRanges::kInfinity ? "inf" : absl::StrCat(range.max), "]");
      }
      if (auto it = g_.symbol_hints.find(name); it != g_.symbol_hints.end())
        absl::StrAppend(&out_, " hint ", it->second);
      out_ += "\n";
    }
    for (const Graph::SizeGuard& guard : g_.size_guards) {
      absl::StrAppend(&out_, "  guard ", Quote(guard.text), " ", guard.holds.ToString(), "\n");
    }
    for (size_t i = 0; i < g_.weight_storages.size(); ++i) {
      absl::StrAppend(&out_, "  storage ", i, " bytes ",
                      g_.weight_storages[i] == nullptr ? 0 : g_.weight_storages[i]->bytes(), "\n");
    }
    for (size_t i = 0; i < g_.weights.size(); ++i) {
      const Weight& w = g_.weights[i];
      const char* kind = w.kind == Weight::Kind::kParameter ? "parameter"
                         : w.kind == Weight::Kind::kBuffer  ? "buffer"
                                                            : "constant";
      std::vector<Expr> sizes(w.geometry.sizes.begin(), w.geometry.sizes.end());
      std::vector<Expr> strides(w.geometry.strides.begin(), w.geometry.strides.end());
      absl::StrAppend(&out_, "  weight ", i, " ", Quote(w.name), " ", kind, " storage ", w.storage, " ");
      PrintType(sizes.size() == strides.size() ? Type::Tensor(w.dtype, std::move(sizes), std::move(strides))
                                               : Type::Tensor());
      if (w.geometry.offset != 0) absl::StrAppend(&out_, " offset ", w.geometry.offset);
      out_ += "\n";
    }
  }

  void PrintNodeLine(NodeId n) {
    const Node& node = g_.node(n);
    PrintDefinitions(node.outputs);
    out_ += " = ";
    out_ += node.op.full();
    bool has_subgraph = false;
    for (const auto& [name, attribute] : node.attributes) {
      const auto* subgraph = std::get_if<std::shared_ptr<Graph>>(&attribute);
      has_subgraph = has_subgraph || (subgraph != nullptr && *subgraph != nullptr);
    }
    if (has_subgraph) {
      std::string op_name = absl::StrCat(node.op.full(), "_", groups_++);
      out_.resize(out_.size() - node.op.full().size());
      out_ += op_name;
      for (const auto& [name, attribute] : node.attributes) {
        const auto* subgraph = std::get_if<std::shared_ptr<Graph>>(&attribute);
        if (subgraph != nullptr && *subgraph != nullptr) subgraphs_.push_back({op_name, name, subgraph->get()});
      }
    }
    bool first = true;
    const bool is_constant = node.op == "prim::Constant" && node.outputs.size() == 1;
    for (const auto& [name, attribute] : node.attributes) {
      if (std::holds_alternative<std::shared_ptr<Graph>>(attribute)) continue;
      out_ += first ? "[" : ", ";
      first = false;
      absl::StrAppend(&out_, AttributeName(name), "=");
      AppendAttribute(attribute, is_constant && name == "value" ? &g_.value(node.outputs[0]).type : nullptr, out_);
    }
    out_ += first ? "(" : "](";
    PrintValues(node.inputs);
    out_ += ")";
    if (node.source != nullptr) {
      const SourceLocation& s = *node.source;
      absl::StrAppend(&out_, " # ", IsPlainFile(s.file) ? s.file : Quote(s.file), ":", s.line, ":", s.column);
      if (!s.text.empty()) absl::StrAppend(&out_, " ", Quote(s.text));
    }
  }

  // An explicit stack, because blocks of a generated graph may nest more deeply than the machine's stack allows.
  void PrintNodes(BlockId top) {
    struct Frame {
      NodeId node;
      size_t block = 0;  // of node's blocks: those before are printed
    };
    std::vector<Frame> stack = {{g_.block(top).first}};
    auto indent = [&](size_t extra) { out_.append(2 + 4 * (stack.size() - 1) + extra, ' '); };
    while (!stack.empty()) {
      Frame& frame = stack.back();
      if (!frame.node.valid()) {
        stack.pop_back();
        if (stack.empty()) break;
        Frame& outer = stack.back();
        indent(4);
        out_ += "-> (";
        PrintValues(g_.results(g_.node(outer.node).blocks[outer.block]));
        out_ += ")\n";
        ++outer.block;
      } else if (frame.block == 0) {
        indent(0);
        PrintNodeLine(frame.node);
        out_ += "\n";
      }
      Frame& now = stack.back();
      const Node& node = g_.node(now.node);
      if (now.block == node.blocks.size()) {
        now.node = node.next;
        now.block = 0;
        continue;
      }
      indent(2);
      absl::StrAppend(&out_, "block", now.block, "(");
      PrintDefinitions(g_.params(node.blocks[now.block]));
      out_ += "):\n";
      stack.push_back({g_.block(node.blocks[now.block]).first});
    }
  }

  const Graph& g_;
  std::string out_;
  int groups_ = 0;
  std::vector<Subgraph> subgraphs_;
  bool has_type_ = false;
  Type last_type_;
  std::string last_type_text_;
};

}  // namespace

std::string PrintGraph(const Graph& g) { return Printer(g).PrintAll(); }
std::string PrintNode(const Graph& g, NodeId n) { return Printer(g).PrintOne(n); }

}  // namespace smelt
