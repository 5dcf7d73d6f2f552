#include "smelt/schema/graph_encode.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "flatbuffers/flatbuffers.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/declare.h"
#include "smelt/schema/container.h"
#include "smelt/schema/graph_generated.h"
#include "smelt/schema/graph_limits.h"

namespace smelt {

namespace {

namespace fb = ::smelt::graph_fb;
using flatbuffers::Offset;

// The places of storages in the weights' segment, over all graphs of a file.
struct WeightLayout {
  bool with_contents = false;
  int64_t bytes = 0;
  std::vector<std::pair<int64_t, const Storage*>> pieces;  // offset, storage
  absl::flat_hash_map<const Storage*, int64_t> offsets;

  int64_t Place(const Storage& s) {
    auto [it, is_new] = offsets.try_emplace(&s, 0);
    if (is_new) {
      it->second = (bytes + kStorageAlignment - 1) / kStorageAlignment * kStorageAlignment;
      bytes = it->second + s.bytes();
      pieces.emplace_back(it->second, &s);
    }
    return it->second;
  }
};

class Encoder {
 public:
  explicit Encoder(WeightLayout& layout) : layout_(layout) {}

  absl::StatusOr<std::string> Run(const Graph& g) {
    graphs_.push_back(&g);
    std::vector<Offset<fb::Graph>> encoded;
    // Subgraphs are appended while graphs are encoded.
    for (size_t i = 0; i < graphs_.size(); ++i) {
      SMELT_ASSIGN_OR_RETURN(Offset<fb::Graph> graph, EncodeOne(*graphs_[i]));
      encoded.push_back(graph);
    }
    std::vector<Offset<fb::Source>> sources;
    for (const SourceLocation* s : sources_) {
      uint32_t file = Intern(strings_, s->file), text = Intern(strings_, s->text);
      sources.push_back(fb::CreateSource(b_, file, s->line, s->column, text));
    }
    auto sources_vector = b_.CreateVector(sources);
    auto strings = b_.CreateVectorOfStrings(strings_.list);
    auto types = b_.CreateVectorOfStrings(types_.list);
    auto exprs = b_.CreateVectorOfStrings(exprs_.list);
    auto graphs = b_.CreateVector(encoded);
    std::vector<std::string> schemas;
    for (const auto& [name, schema] : op_schemas_) schemas.push_back(schema);
    auto op_schemas = schemas.empty() ? 0 : b_.CreateVectorOfStrings(schemas);
    fb::FinishGraphFileBuffer(
        b_, fb::CreateGraphFile(b_, kGraphFormat, strings, types, exprs, sources_vector, graphs, op_schemas));
    return std::string(reinterpret_cast<const char*>(b_.GetBufferPointer()), b_.GetSize());
  }

 private:
  struct Table {
    std::vector<std::string> list;
    absl::flat_hash_map<std::string, uint32_t> index;
  };
  static uint32_t Intern(Table& table, absl::string_view s) {
    auto it = table.index.find(s);
    if (it != table.index.end()) return it->second;
    uint32_t index = static_cast<uint32_t>(table.list.size());
    table.list.emplace_back(s);
    table.index.emplace(std::string(s), index);
    return index;
  }
  uint32_t InternExpr(const Expr& e) { return Intern(exprs_, e.IsPoison() ? "*" : e.ToString()); }
  uint32_t InternType(const Type& t) {
    // Most values have the type of one shortly before.
    if (has_type_ && t == last_type_) return last_type_index_;
    has_type_ = true;
    last_type_ = t;
    return last_type_index_ = Intern(types_, t.ToString());
  }

  uint32_t Name(absl::string_view name) {
    uint32_t number = 0;
    bool is_number = !name.empty() && name.size() <= 9 && (name[0] != '0' || name.size() == 1);
    for (char c : name) {
      is_number = is_number && c >= '0' && c <= '9';
      number = number * 10 + static_cast<uint32_t>(c - '0');
    }
    return is_number ? number | kNumberedName : Intern(strings_, name);
  }

  absl::StatusOr<Offset<fb::Attribute>> EncodeAttribute(absl::string_view name, const Attribute& attribute) {
    uint32_t name_index = Intern(strings_, name);
    fb::AttributeKind kind = static_cast<fb::AttributeKind>(attribute.index());
    std::vector<int64_t> ints;
    std::vector<double> floats;
    Offset<fb::TensorData> tensor = 0;
    absl::Status status;
    std::visit(
        [&](const auto& x) {
          using T = std::decay_t<decltype(x)>;
          if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, bool>) {
            ints.push_back(x);
          } else if constexpr (std::is_same_v<T, double>) {
            floats.push_back(x);
          } else if constexpr (std::is_same_v<T, std::string>) {
            ints.push_back(Intern(strings_, x));
          } else if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
            ints = x;
          } else if constexpr (std::is_same_v<T, std::vector<double>>) {
            floats = x;
          } else if constexpr (std::is_same_v<T, std::vector<bool>>) {
            ints.assign(x.begin(), x.end());
          } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
            for (const std::string& s : x) ints.push_back(Intern(strings_, s));
          } else if constexpr (std::is_same_v<T, Expr>) {
            ints.push_back(InternExpr(x));
          } else if constexpr (std::is_same_v<T, std::vector<Expr>>) {
            for (const Expr& e : x) ints.push_back(InternExpr(e));
          } else if constexpr (std::is_same_v<T, Type>) {
            ints.push_back(Intern(types_, x.ToString()));
          } else if constexpr (std::is_same_v<T, std::complex<double>>) {
            floats = {x.real(), x.imag()};
          } else if constexpr (std::is_same_v<T, OpaqueAttribute>) {
            ints.push_back(Intern(strings_, x.text));
          } else if constexpr (std::is_same_v<T, std::shared_ptr<Graph>>) {
            if (x == nullptr) {
              ints.push_back(-1);
            } else {
              ints.push_back(static_cast<int64_t>(graphs_.size()));
              graphs_.push_back(x.get());
            }
          } else {
            static_assert(std::is_same_v<T, Tensor>);
            absl::StatusOr<Offset<fb::TensorData>> t = EncodeTensor(x);
            status = t.status();
            if (t.ok()) tensor = *t;
          }
        },
        attribute);
    if (!status.ok()) return status;
    Offset<flatbuffers::Vector<int64_t>> ints_vector = ints.empty() ? 0 : b_.CreateVector(ints);
    Offset<flatbuffers::Vector<double>> floats_vector = floats.empty() ? 0 : b_.CreateVector(floats);
    return fb::CreateAttribute(b_, name_index, kind, ints_vector, floats_vector, tensor);
  }

  absl::StatusOr<Offset<fb::TensorData>> EncodeTensor(const Tensor& t) {
    if (!t.defined()) return fb::CreateTensorData(b_, false);
    for (int64_t stride : t.strides()) {
      if (stride < 0) return absl::UnimplementedError("a constant tensor with negative strides");
    }
    Tensor dense = t.Clone();
    int64_t bytes = dense.NumElements() * ItemSize(t.dtype());
    constant_bytes_ += bytes;
    if (constant_bytes_ > kMaxConstantBytes)
      return absl::ResourceExhaustedError("the graph's constants are larger than 1 GiB");
    auto sizes = b_.CreateVector(std::vector<int64_t>(t.sizes().begin(), t.sizes().end()));
    auto strides = b_.CreateVector(std::vector<int64_t>(t.strides().begin(), t.strides().end()));
    auto data = b_.CreateVector(static_cast<const uint8_t*>(dense.data()), static_cast<size_t>(bytes));
    return fb::CreateTensorData(b_, true, static_cast<uint8_t>(t.dtype()), sizes, strides, data);
  }

  // Writes the tables of one graph, in the order of the schema's fields. Ids become numbers once, for all tables.
  absl::StatusOr<Offset<fb::Graph>> EncodeOne(const Graph& g) {
    num_nodes_ += g.num_nodes();
    if (num_nodes_ > kMaxNodes)
      return absl::ResourceExhaustedError(absl::StrCat("the graph has more than ", kMaxNodes, " nodes"));
    std::vector<fb::Value> values;
    std::vector<uint32_t> number(g.value_index_bound());
    std::vector<Offset<fb::Node>> nodes;
    std::vector<Offset<fb::Block>> blocks;
    auto define = [&](absl::Span<const ValueId> ids) {
      for (ValueId v : ids) {
        const Value& value = g.value(v);
        number[v.index] = static_cast<uint32_t>(values.size());
        const int32_t expr = value.expr ? static_cast<int32_t>(InternExpr(*value.expr)) : -1;
        const uint32_t type = InternType(value.type);
        values.emplace_back(Name(value.name), type, expr);
      }
    };
    auto numbers_of = [&](absl::Span<const ValueId> ids) {
      std::vector<uint32_t> result;
      result.reserve(ids.size());
      for (ValueId v : ids) result.push_back(number[v.index]);
      return b_.CreateVector(result);
    };
    // Children come after their parents, but FlatBuffers must have them first. Places are kept, and filled when known.
    struct Frame {
      BlockId block;
      NodeId next;
      uint32_t count = 0;  // nodes so far
      size_t slot;         // of this block in `blocks`
      NodeId owner;        // whose block it is
      size_t index = 0;    // which of the owner's blocks
    };
    std::vector<Frame> stack;
    define(g.inputs());
    stack.push_back({g.top(), g.block(g.top()).first, 0, 0, NodeId(), 0});
    Offset<fb::Block> body = 0;
    auto enter = [&](NodeId owner, size_t index) {
      BlockId b = g.node(owner).blocks[index];
      define(g.params(b));
      blocks.emplace_back(0);
      stack.push_back({b, g.block(b).first, 0, blocks.size() - 1, owner, index});
    };
    while (!stack.empty()) {
      Frame& frame = stack.back();
      if (!frame.next.valid()) {
        Frame done = frame;
        stack.pop_back();
        auto results = numbers_of(g.results(done.block));
        Offset<fb::Block> block =
            fb::CreateBlock(b_, static_cast<uint32_t>(g.params(done.block).size()), done.count, results);
        if (!done.owner.valid()) {
          body = block;
        } else {
          blocks[done.slot] = block;
          if (done.index + 1 < g.node(done.owner).blocks.size()) enter(done.owner, done.index + 1);
        }
        continue;
      }
      NodeId n = frame.next;
      const Node& node = g.node(n);
      frame.next = node.next;
      ++frame.count;
      std::vector<Offset<fb::Attribute>> attributes;
      for (const auto& [name, attribute] : node.attributes) {
        SMELT_ASSIGN_OR_RETURN(Offset<fb::Attribute> a, EncodeAttribute(name, attribute));
        attributes.push_back(a);
      }
      auto inputs = numbers_of(node.inputs);
      Offset<flatbuffers::Vector<Offset<fb::Attribute>>> attributes_vector =
          attributes.empty() ? 0 : b_.CreateVector(attributes);
      int32_t source = node.source == nullptr ? -1 : SourceIndex(*node.source);
      if (const std::string schema = DeclaredSchema(node.op); !schema.empty()) {
        const auto [it, is_new] = op_schemas_.try_emplace(node.op.full(), schema);
        if (it->second != schema) return absl::InvalidArgumentError(absl::StrCat("two schemas of ", node.op.full()));
      }
      nodes.push_back(fb::CreateNode(b_, Intern(strings_, node.op.full()), inputs,
                                     static_cast<uint32_t>(node.outputs.size()),
                                     static_cast<uint32_t>(node.blocks.size()), attributes_vector, source));
      define(node.outputs);
      if (!node.blocks.empty()) enter(n, 0);
    }

    std::vector<Offset<fb::Input>> inputs;
    for (const InputInfo& info : g.input_infos) {
      Offset<fb::Attribute> constant = 0;
      if (info.is_constant) {
        SMELT_ASSIGN_OR_RETURN(constant, EncodeAttribute("", info.constant));
      }
      inputs.push_back(fb::CreateInput(b_, info.kind == InputInfo::Kind::kWeight ? info.weight : -1, constant));
    }
    std::vector<uint32_t> output_names;
    for (const std::string& name : g.output_names) output_names.push_back(Intern(strings_, name));

    std::vector<std::string> symbol_names;
    for (const auto& [name, range] : g.symbols.entries()) symbol_names.push_back(name);
    for (const auto& [name, hint] : g.symbol_hints) symbol_names.push_back(name);
    std::sort(symbol_names.begin(), symbol_names.end());
    symbol_names.erase(std::unique(symbol_names.begin(), symbol_names.end()), symbol_names.end());
    std::vector<Offset<fb::Symbol>> symbols;
    for (const std::string& name : symbol_names) {
      bool has_range = false;
      for (const auto& [entry, range] : g.symbols.entries()) has_range = has_range || entry == name;
      SymbolRanges::Range range = g.symbols.Get(name);
      auto hint = g.symbol_hints.find(name);
      bool has_hint = hint != g.symbol_hints.end();
      symbols.push_back(fb::CreateSymbol(b_, Intern(strings_, name), has_range, has_range ? range.min : 0,
                                         has_range ? range.max : 0, has_hint, has_hint ? hint->second : 0));
    }
    std::vector<Offset<fb::Storage>> storages;
    for (const std::shared_ptr<Storage>& s : g.weight_storages) {
      if (s == nullptr) {
        storages.push_back(fb::CreateStorage(b_, 0));
      } else if (layout_.with_contents && s->data() != nullptr) {
        storages.push_back(fb::CreateStorage(b_, s->bytes(), kWeightsSegment, layout_.Place(*s)));
      } else {
        storages.push_back(fb::CreateStorage(b_, s->bytes()));
      }
    }
    std::vector<Offset<fb::Weight>> weights;
    for (const Weight& w : g.weights) {
      auto sizes = b_.CreateVector(w.geometry.sizes);
      auto strides = b_.CreateVector(w.geometry.strides);
      weights.push_back(fb::CreateWeight(b_, Intern(strings_, w.name), static_cast<fb::WeightKind>(w.kind),
                                         static_cast<uint32_t>(w.storage), static_cast<uint8_t>(w.dtype), sizes,
                                         strides, w.geometry.offset));
    }
    uint32_t name = Intern(strings_, g.name);
    auto inputs_vector = b_.CreateVector(inputs);
    auto names_vector = b_.CreateVector(output_names);
    auto values_vector = b_.CreateVectorOfStructs(values);
    auto nodes_vector = b_.CreateVector(nodes);
    auto blocks_vector = b_.CreateVector(blocks);
    auto symbols_vector = b_.CreateVector(symbols);
    auto storages_vector = b_.CreateVector(storages);
    auto weights_vector = b_.CreateVector(weights);
    std::vector<Offset<fb::SizeGuard>> guards;
    for (const Graph::SizeGuard& guard : g.size_guards) {
      const uint32_t text = Intern(strings_, guard.text);
      guards.push_back(fb::CreateSizeGuard(b_, InternExpr(guard.holds), text));
    }
    auto guards_vector = b_.CreateVector(guards);
    return fb::CreateGraph(b_, name, inputs_vector, body, names_vector, values_vector, nodes_vector, blocks_vector,
                           symbols_vector, storages_vector, weights_vector, g.written_at_the_end, guards_vector);
  }

  int32_t SourceIndex(const SourceLocation& s) {
    std::string key = absl::StrCat(s.file, "\n", s.line, "\n", s.column, "\n", s.text);
    auto [it, is_new] = source_index_.try_emplace(std::move(key), static_cast<int32_t>(sources_.size()));
    if (is_new) sources_.push_back(&s);
    return it->second;
  }

  std::map<std::string, std::string> op_schemas_;  // of declared operators, by name
  WeightLayout& layout_;
  flatbuffers::FlatBufferBuilder b_;
  Table strings_, types_, exprs_;
  bool has_type_ = false;
  Type last_type_;
  uint32_t last_type_index_ = 0;
  std::vector<const SourceLocation*> sources_;
  absl::flat_hash_map<std::string, int32_t> source_index_;
  std::vector<const Graph*> graphs_;
  int64_t num_nodes_ = 0, constant_bytes_ = 0;
};

absl::Status WriteContainer(const Graph& g, ContainerWriter& writer) {
  WeightLayout layout;
  layout.with_contents = true;
  SMELT_ASSIGN_OR_RETURN(std::string metadata, Encoder(layout).Run(g));
  SMELT_RETURN_IF_ERROR(writer.Add(SegmentKind::kMetadata, metadata));
  if (layout.pieces.empty()) return absl::OkStatus();
  SMELT_RETURN_IF_ERROR(writer.Begin(SegmentKind::kWeights));
  int64_t at = 0;
  const std::string padding(kStorageAlignment, '\0');
  for (const auto& [offset, storage] : layout.pieces) {
    auto bytes = [](const char* p, int64_t n) {
      return absl::Span<const uint8_t>(reinterpret_cast<const uint8_t*>(p), static_cast<size_t>(n));
    };
    SMELT_RETURN_IF_ERROR(writer.Append(bytes(padding.data(), offset - at)));
    SMELT_RETURN_IF_ERROR(writer.Append(bytes(storage->data(), storage->bytes())));
    at = offset + storage->bytes();
  }
  return writer.End().status();
}

}  // namespace

absl::StatusOr<std::string> EncodeGraph(const Graph& g) {
  WeightLayout layout;
  return Encoder(layout).Run(g);
}

absl::Status WriteGraphFile(const Graph& g, absl::string_view path) {
  SMELT_ASSIGN_OR_RETURN(ContainerWriter writer, ContainerWriter::Create(path, ContentKind::kGraph));
  SMELT_RETURN_IF_ERROR(Annotate(WriteContainer(g, writer), path));
  return writer.Finish();
}

absl::StatusOr<std::string> EncodeGraphFile(const Graph& g) {
  ContainerWriter writer = ContainerWriter::InMemory(ContentKind::kGraph);
  SMELT_RETURN_IF_ERROR(WriteContainer(g, writer));
  return writer.FinishToString();
}

}  // namespace smelt
