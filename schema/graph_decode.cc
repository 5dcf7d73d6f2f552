#include "smelt/schema/graph_decode.h"

#include <cstring>
#include <optional>
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

template <typename... T>
absl::Status Bad(const T&... what) {
  return absl::DataLossError(absl::StrCat("graph: ", what...));
}

template <typename V>
size_t SizeOf(const V* vector) {
  return vector == nullptr ? 0 : vector->size();
}

// An element of 8 bytes. FlatBuffers' verifier does not check the alignment of a vector's elements, only that of its
// length.
template <typename T>
T Load(const flatbuffers::Vector<T>* vector, size_t i) {
  static_assert(sizeof(T) == 8);
  T value;
  std::memcpy(&value, vector->Data() + i * sizeof(T), sizeof(T));
  return flatbuffers::EndianScalar(value);
}

// An operator's name that the text form can print and read.
bool IsOpName(absl::string_view s) {
  if (s.empty() || s.size() > 1000) return false;
  for (char c : s) {
    bool ok =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == ':' || c == '.';
    if (!ok) return false;
  }
  return !(s[0] >= '0' && s[0] <= '9') && s[0] != ':' && s[0] != '.';
}

// A symbol that expressions can name.
bool IsSymbolName(absl::string_view s) {
  absl::StatusOr<Expr> e = Expr::Parse(s);
  return e.ok() && e->IsSymbol() && e->SymbolName() == s;
}

class Decoder {
 public:
  // `container` is null if the contents of weights are not wanted.
  explicit Decoder(const Container* container) : container_(container) {}

  absl::StatusOr<std::unique_ptr<Graph>> Run(absl::Span<const uint8_t> bytes) {
    if (bytes.size() < 16) return Bad("expected at least 16 bytes, found ", bytes.size());
    if (bytes.size() >= FLATBUFFERS_MAX_BUFFER_SIZE)
      return Bad("it is larger than the format allows, ", bytes.size(), " bytes");
    if (!fb::GraphFileBufferHasIdentifier(bytes.data())) return Bad("expected the identifier SMLG");
    flatbuffers::Verifier verifier(bytes.data(), bytes.size(), /*max_depth=*/8,
                                   /*max_tables=*/static_cast<flatbuffers::uoffset_t>(bytes.size() / 8 + 16));
    if (!fb::VerifyGraphFileBuffer(verifier)) return Bad("its FlatBuffer is malformed");
    file_ = fb::GetGraphFile(bytes.data());
    left_ = 16 * static_cast<int64_t>(bytes.size()) + (1 << 20);
    printed_left_ = 64 * static_cast<int64_t>(bytes.size()) + (1 << 24);
    if (file_->format() == 0 || file_->format() > kGraphFormat) {
      return absl::UnimplementedError(
          absl::StrCat("graph: format ", file_->format(), " is newer than this version reads, ", kGraphFormat));
    }
    SMELT_RETURN_IF_ERROR(DecodeTables());
    graph_used_.assign(SizeOf(file_->graphs()), false);
    if (graph_used_.empty()) return Bad("it has no graph");
    graph_used_[0] = true;
    SMELT_ASSIGN_OR_RETURN(std::unique_ptr<Graph> g, DecodeGraph(0, 0));
    for (size_t i = 0; i < graph_used_.size(); ++i) {
      if (!graph_used_[i]) return Bad("no node has subgraph ", i);
    }
    return g;
  }

 private:
  // Takes `bytes` of the memory that decoding may allocate. A hostile file can refer to one long string or list from a
  // million places, each of which gets a copy.
  absl::Status Take(size_t bytes) const {
    left_ -= static_cast<int64_t>(bytes);
    return left_ >= 0 ? absl::OkStatus() : Bad("it refers to the same bytes over and over");
  }

  // Does the same for the graph's text. Types, expressions, operators and sources are shared in memory, but are written
  // out wherever they occur.
  absl::Status TakePrinted(size_t bytes) {
    printed_left_ -= static_cast<int64_t>(bytes);
    return printed_left_ >= 0 ? absl::OkStatus() : Bad("written as text it is out of proportion to the file");
  }
  absl::Status TakePrintedType(int64_t index) { return TakePrinted(View(file_->types()->Get(index)).size()); }
  absl::Status TakePrintedExpr(int64_t index) { return TakePrinted(View(file_->exprs()->Get(index)).size()); }

  absl::Status DecodeTables() {
    for (size_t i = 0; i < SizeOf(file_->types()); ++i) {
      SMELT_RETURN_IF_ERROR(Take(4 * View(file_->types()->Get(i)).size()));
      absl::StatusOr<Type> type = Type::Parse(View(file_->types()->Get(i)));
      if (!type.ok()) return Bad("type ", i, ": ", type.status().message());
      types_.push_back(*std::move(type));
    }
    for (size_t i = 0; i < SizeOf(file_->exprs()); ++i) {
      absl::string_view text = View(file_->exprs()->Get(i));
      SMELT_RETURN_IF_ERROR(Take(4 * text.size()));
      if (text == "*") {
        exprs_.push_back(Expr::Poison());
        continue;
      }
      absl::StatusOr<Expr> e = Expr::Parse(text);
      if (!e.ok()) return Bad("expression ", i, ": ", e.status().message());
      exprs_.push_back(*std::move(e));
    }
    for (size_t i = 0; i < SizeOf(file_->op_schemas()); ++i) {
      const absl::string_view text = View(file_->op_schemas()->Get(static_cast<flatbuffers::uoffset_t>(i)));
      SMELT_RETURN_IF_ERROR(Take(16 * text.size()));
      const absl::StatusOr<OpName> op = DeclareOperator(text);
      if (!op.ok()) return Bad("operator schema ", i, ": ", op.status().message());
      if (!declared_.try_emplace(op->full(), *op).second) return Bad("two schemas of ", op->full());
    }
    for (size_t i = 0; i < SizeOf(file_->sources()); ++i) {
      const fb::Source* s = file_->sources()->Get(i);
      SourceLocation source;
      SMELT_ASSIGN_OR_RETURN(absl::string_view file, String(s->file()));
      SMELT_ASSIGN_OR_RETURN(absl::string_view text, String(s->text()));
      if (s->line() < 0 || s->column() < 0) return Bad("source ", i, ": line ", s->line(), ", column ", s->column());
      source.file = std::string(file);
      source.line = s->line();
      source.column = s->column();
      source.text = std::string(text);
      sources_.push_back(std::make_shared<const SourceLocation>(std::move(source)));
    }
    return absl::OkStatus();
  }

  static absl::string_view View(const flatbuffers::String* s) {
    return s == nullptr ? absl::string_view() : absl::string_view(s->data(), s->size());
  }
  absl::StatusOr<absl::string_view> String(int64_t index) const {
    if (index < 0 || index >= static_cast<int64_t>(SizeOf(file_->strings()))) {
      return Bad("string ", index, " of ", SizeOf(file_->strings()));
    }
    const absl::string_view text = View(file_->strings()->Get(static_cast<flatbuffers::uoffset_t>(index)));
    SMELT_RETURN_IF_ERROR(Take(text.size()));
    return text;
  }
  absl::StatusOr<Expr> ExprAt(int64_t index) const {
    if (index < 0 || index >= static_cast<int64_t>(exprs_.size()))
      return Bad("expression ", index, " of ", exprs_.size());
    return exprs_[index];
  }
  absl::StatusOr<Type> TypeAt(int64_t index) const {
    if (index < 0 || index >= static_cast<int64_t>(types_.size())) return Bad("type ", index, " of ", types_.size());
    return types_[index];
  }

  // --- attributes ---

  absl::StatusOr<Tensor> DecodeTensor(const fb::TensorData* t) {
    if (t == nullptr) return Bad("a tensor without data");
    if (!t->defined()) return Tensor();
    if (t->dtype() >= kNumDTypes) return Bad("dtype ", t->dtype());
    DType dtype = static_cast<DType>(t->dtype());
    Weight as_weight;  // the same rules hold
    as_weight.name = "constant";
    as_weight.dtype = dtype;
    for (size_t i = 0; i < SizeOf(t->sizes()); ++i) as_weight.geometry.sizes.push_back(Load(t->sizes(), i));
    for (size_t i = 0; i < SizeOf(t->strides()); ++i) as_weight.geometry.strides.push_back(Load(t->strides(), i));
    absl::Status status = CheckWeight(as_weight, INT64_MAX);
    if (!status.ok()) return Bad(status.message());
    const Geometry& g = as_weight.geometry;
    int64_t bytes = g.NumElements() * ItemSize(dtype);
    if (bytes != static_cast<int64_t>(SizeOf(t->data()))) {
      return Bad("a constant of ", bytes, " bytes has ", SizeOf(t->data()), " bytes of data");
    }
    // Gaps between elements must not make a small file large.
    if (g.Span().second > 4 * g.NumElements() + 4096)
      return Bad("a constant of ", g.NumElements(), " elements that spans ", g.Span().second);
    SMELT_RETURN_IF_ERROR(Take(static_cast<size_t>(g.Span().second * ItemSize(dtype))));
    Tensor out = Tensor::EmptyStrided(dtype, g.sizes, g.strides);
    std::memset(out.storage()->data(), 0, static_cast<size_t>(out.storage()->bytes()));
    std::vector<int64_t> index(g.rank(), 0);
    int64_t at = 0;
    const int64_t item = ItemSize(dtype);
    for (int64_t i = 0; i < bytes; i += item) {
      std::memcpy(static_cast<char*>(out.data()) + at * item, t->data()->data() + i, static_cast<size_t>(item));
      for (int d = g.rank() - 1; d >= 0; --d) {
        at += g.strides[d];
        if (++index[d] < g.sizes[d]) break;
        at -= g.strides[d] * g.sizes[d];
        index[d] = 0;
      }
    }
    return out;
  }

  // A case for each kind of attribute. What a kind does not have must be absent, and is checked with it.
  absl::StatusOr<Attribute> DecodeAttribute(const fb::Attribute* a, size_t graph, int depth) {
    const auto* ints = a->ints();
    const auto* floats = a->floats();
    SMELT_RETURN_IF_ERROR(Take(16 * SizeOf(ints) + 8 * SizeOf(floats)));
    auto expect = [&](size_t num_ints, size_t num_floats) -> absl::Status {
      if (SizeOf(ints) == num_ints && SizeOf(floats) == num_floats) return absl::OkStatus();
      return Bad("an attribute of kind ", static_cast<int>(a->kind()), " has ", SizeOf(ints), " integers and ",
                 SizeOf(floats), " floats");
    };
    switch (a->kind()) {
      case fb::AttributeKind::Int:
        SMELT_RETURN_IF_ERROR(expect(1, 0));
        return Attribute(Load(ints, 0));
      case fb::AttributeKind::Float:
        SMELT_RETURN_IF_ERROR(expect(0, 1));
        return Attribute(Load(floats, 0));
      case fb::AttributeKind::Bool:
        SMELT_RETURN_IF_ERROR(expect(1, 0));
        return Attribute(Load(ints, 0) != 0);
      case fb::AttributeKind::String: {
        SMELT_RETURN_IF_ERROR(expect(1, 0));
        SMELT_ASSIGN_OR_RETURN(absl::string_view s, String(Load(ints, 0)));
        return Attribute(std::string(s));
      }
      case fb::AttributeKind::Ints: {
        std::vector<int64_t> list;
        for (size_t i = 0; i < SizeOf(ints); ++i) list.push_back(Load(ints, i));
        return Attribute(std::move(list));
      }
      case fb::AttributeKind::Floats: {
        std::vector<double> list;
        for (size_t i = 0; i < SizeOf(floats); ++i) list.push_back(Load(floats, i));
        return Attribute(std::move(list));
      }
      case fb::AttributeKind::Bools: {
        std::vector<bool> list;
        for (size_t i = 0; i < SizeOf(ints); ++i) list.push_back(Load(ints, i) != 0);
        return Attribute(std::move(list));
      }
      case fb::AttributeKind::Strings: {
        std::vector<std::string> list;
        for (size_t i = 0; i < SizeOf(ints); ++i) {
          SMELT_ASSIGN_OR_RETURN(absl::string_view s, String(Load(ints, i)));
          list.emplace_back(s);
        }
        return Attribute(std::move(list));
      }
      case fb::AttributeKind::Expr: {
        SMELT_RETURN_IF_ERROR(expect(1, 0));
        SMELT_ASSIGN_OR_RETURN(Expr e, ExprAt(Load(ints, 0)));
        SMELT_RETURN_IF_ERROR(TakePrintedExpr(Load(ints, 0)));
        return Attribute(std::move(e));
      }
      case fb::AttributeKind::Exprs: {
        std::vector<Expr> list;
        for (size_t i = 0; i < SizeOf(ints); ++i) {
          SMELT_ASSIGN_OR_RETURN(Expr e, ExprAt(Load(ints, i)));
          SMELT_RETURN_IF_ERROR(TakePrintedExpr(Load(ints, i)));
          list.push_back(std::move(e));
        }
        return Attribute(std::move(list));
      }
      case fb::AttributeKind::Tensor: {
        SMELT_ASSIGN_OR_RETURN(Tensor t, DecodeTensor(a->tensor()));
        return Attribute(std::move(t));
      }
      case fb::AttributeKind::Type: {
        SMELT_RETURN_IF_ERROR(expect(1, 0));
        SMELT_ASSIGN_OR_RETURN(Type t, TypeAt(Load(ints, 0)));
        SMELT_RETURN_IF_ERROR(TakePrintedType(Load(ints, 0)));
        return Attribute(std::move(t));
      }
      case fb::AttributeKind::Graph: {
        SMELT_RETURN_IF_ERROR(expect(1, 0));
        int64_t index = Load(ints, 0);
        if (index == -1) return Attribute(std::shared_ptr<Graph>());
        // A subgraph comes after this one, and is used once: there are no cycles, and no graph is decoded repeatedly.
        if (index <= static_cast<int64_t>(graph) || index >= static_cast<int64_t>(graph_used_.size()) ||
            graph_used_[index]) {
          return Bad("subgraph ", index, " in graph ", graph);
        }
        graph_used_[index] = true;
        SMELT_ASSIGN_OR_RETURN(std::unique_ptr<Graph> g, DecodeGraph(static_cast<size_t>(index), depth + 1));
        return Attribute(std::shared_ptr<Graph>(std::move(g)));
      }
      case fb::AttributeKind::Complex:
        SMELT_RETURN_IF_ERROR(expect(0, 2));
        return Attribute(std::complex<double>(Load(floats, 0), Load(floats, 1)));
      case fb::AttributeKind::Opaque: {
        SMELT_RETURN_IF_ERROR(expect(1, 0));
        SMELT_ASSIGN_OR_RETURN(absl::string_view s, String(Load(ints, 0)));
        return Attribute(OpaqueAttribute{std::string(s)});
      }
    }
    return Bad("attribute kind ", static_cast<int>(a->kind()));
  }

  // --- one graph ---

  // The state of decoding one graph.
  struct Scope {
    std::unique_ptr<Graph> graph = std::make_unique<Graph>();
    size_t index = 0;
    const fb::Graph* source = nullptr;
    std::vector<ValueId> values;  // by number; not visible (yet, or any more): invalid
    size_t next_value = 0, next_node = 0, next_block = 0;
  };

  absl::StatusOr<const fb::Value*> NextValue(Scope& s) {
    if (s.next_value >= SizeOf(s.source->values()))
      return Bad("it defines more than its ", SizeOf(s.source->values()), " values");
    return s.source->values()->Get(static_cast<flatbuffers::uoffset_t>(s.next_value++));
  }
  absl::StatusOr<std::string> ValueName(const Scope& s, const fb::Value* v) {
    std::string name;
    if (v->name() & kNumberedName) {
      name = absl::StrCat(v->name() & ~kNumberedName);
    } else {
      SMELT_ASSIGN_OR_RETURN(absl::string_view text, String(v->name()));
      name = std::string(text);
    }
    if (name.empty()) return Bad("value ", s.next_value - 1, " has no name");
    if (s.graph->FindValue(name).valid()) return Bad("two values are named %", name);
    return name;
  }
  // `add` makes the value with a name and a type.
  template <typename F>
  absl::StatusOr<ValueId> AddValue(Scope& s, const F& add) {
    SMELT_ASSIGN_OR_RETURN(const fb::Value* v, NextValue(s));
    SMELT_ASSIGN_OR_RETURN(std::string name, ValueName(s, v));
    SMELT_ASSIGN_OR_RETURN(Type type, TypeAt(v->type()));
    SMELT_RETURN_IF_ERROR(TakePrintedType(v->type()));
    ValueId id = add(name, std::move(type));
    if (v->expr() != -1) {
      SMELT_ASSIGN_OR_RETURN(Expr e, ExprAt(v->expr()));
      SMELT_RETURN_IF_ERROR(TakePrintedExpr(v->expr()));
      s.graph->SetExpr(id, std::move(e));
    }
    return id;
  }

  absl::Status DecodeUses(Scope& s, const flatbuffers::Vector<uint32_t>* numbers, std::vector<ValueId>& uses) {
    uses.clear();
    SMELT_RETURN_IF_ERROR(Take(16 * SizeOf(numbers)));
    for (size_t i = 0; i < SizeOf(numbers); ++i) {
      uint32_t number = numbers->Get(static_cast<flatbuffers::uoffset_t>(i));
      if (number >= s.values.size() || !s.values[number].valid())
        return Bad("value ", number, " is used where it is not defined");
      uses.push_back(s.values[number]);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<Graph>> DecodeGraph(size_t index, int depth) {
    if (depth > kMaxGraphDepth) return Bad("graphs are nested deeper than ", kMaxGraphDepth);
    Scope s;
    s.index = index;
    s.source = file_->graphs()->Get(static_cast<flatbuffers::uoffset_t>(index));
    const fb::Graph& in = *s.source;
    Graph& g = *s.graph;
    SMELT_ASSIGN_OR_RETURN(absl::string_view name, String(in.name()));
    g.name = std::string(name);
    s.values.resize(SizeOf(in.values()));
    SMELT_RETURN_IF_ERROR(DecodeWeights(in, g));
    for (size_t i = 0; i < SizeOf(in.symbols()); ++i) {
      const fb::Symbol* symbol = in.symbols()->Get(static_cast<flatbuffers::uoffset_t>(i));
      SMELT_ASSIGN_OR_RETURN(absl::string_view symbol_name, String(symbol->name()));
      if (!IsSymbolName(symbol_name)) return Bad("\"", symbol_name, "\" is no symbol");
      if (symbol->has_range()) {
        if (symbol->min() > symbol->max()) return Bad("the range of symbol ", symbol_name, " is empty");
        g.symbols.Set(symbol_name, {symbol->min(), symbol->max()});
      }
      if (symbol->has_hint()) g.symbol_hints[std::string(symbol_name)] = symbol->hint();
    }
    for (size_t i = 0; i < SizeOf(in.inputs()); ++i) {
      const fb::Input* input = in.inputs()->Get(static_cast<flatbuffers::uoffset_t>(i));
      InputInfo info;
      if (input->weight() != -1) {
        if (input->weight() < 0 || input->weight() >= static_cast<int64_t>(g.weights.size())) {
          return Bad("input ", i, " is weight ", input->weight(), " of ", g.weights.size());
        }
        info.kind = InputInfo::Kind::kWeight;
        info.weight = input->weight();
      }
      if (input->constant() != nullptr) {
        info.is_constant = true;
        SMELT_ASSIGN_OR_RETURN(info.constant, DecodeAttribute(input->constant(), index, depth));
      }
      SMELT_ASSIGN_OR_RETURN(ValueId v, AddValue(s, [&](absl::string_view n, Type t) {
                               return g.AddInput(n, std::move(t), std::move(info));
                             }));
      s.values[s.next_value - 1] = v;
    }
    if (in.body() == nullptr) return Bad("graph ", index, " has no body");
    SMELT_RETURN_IF_ERROR(DecodeBlock(s, g.top(), *in.body(), depth));
    if (s.next_value != s.values.size() || s.next_node != SizeOf(in.nodes()) || s.next_block != SizeOf(in.blocks())) {
      return Bad("graph ", index, " has values, nodes or blocks that belong nowhere");
    }
    if (SizeOf(in.output_names()) != g.output_names.size()) {
      return Bad("graph ", index, " has ", g.output_names.size(), " outputs and ", SizeOf(in.output_names()),
                 " names of outputs");
    }
    for (size_t i = 0; i < g.output_names.size(); ++i) {
      SMELT_ASSIGN_OR_RETURN(absl::string_view output,
                             String(in.output_names()->Get(static_cast<flatbuffers::uoffset_t>(i))));
      g.output_names[i] = std::string(output);
    }
    g.written_at_the_end = in.written_at_the_end();
    for (size_t i = 0; i < SizeOf(in.size_guards()); ++i) {
      const fb::SizeGuard* guard = in.size_guards()->Get(static_cast<flatbuffers::uoffset_t>(i));
      SMELT_ASSIGN_OR_RETURN(Expr holds, ExprAt(guard->holds()));
      SMELT_ASSIGN_OR_RETURN(absl::string_view text, String(guard->text()));
      g.AddSizeGuard({std::move(holds), std::string(text)});
    }
    return std::move(s.graph);
  }

  absl::Status DecodeWeights(const fb::Graph& in, Graph& g) {
    for (size_t i = 0; i < SizeOf(in.storages()); ++i) {
      const fb::Storage* storage = in.storages()->Get(static_cast<flatbuffers::uoffset_t>(i));
      if (storage->bytes() < 0) return Bad("storage ", i, " has ", storage->bytes(), " bytes");
      if (storage->segment() == -1 || container_ == nullptr) {
        g.weight_storages.push_back(Storage::Borrow(nullptr, storage->bytes()));
        continue;
      }
      SMELT_ASSIGN_OR_RETURN(Container::WritableCopy * copy, MapSegment(storage->segment()));
      int64_t size = container_->segments()[storage->segment()].size;
      if (storage->offset() < 0 || storage->offset() % kStorageAlignment != 0 || storage->offset() > size ||
          storage->bytes() > size - storage->offset()) {
        return Bad("storage ", i, " is bytes ", storage->offset(), " + ", storage->bytes(), " of a segment of ", size);
      }
      g.weight_storages.push_back(Storage::Adopt(copy->data + storage->offset(), storage->bytes(), copy->owner));
    }
    for (size_t i = 0; i < SizeOf(in.weights()); ++i) {
      const fb::Weight* w = in.weights()->Get(static_cast<flatbuffers::uoffset_t>(i));
      Weight weight;
      SMELT_ASSIGN_OR_RETURN(absl::string_view name, String(w->name()));
      weight.name = std::string(name);
      if (w->kind() > fb::WeightKind::MAX) return Bad("weight ", i, " is of kind ", static_cast<int>(w->kind()));
      weight.kind = static_cast<Weight::Kind>(w->kind());
      if (w->dtype() >= kNumDTypes) return Bad("weight ", i, " has dtype ", w->dtype());
      weight.dtype = static_cast<DType>(w->dtype());
      if (w->storage() >= g.weight_storages.size())
        return Bad("weight ", i, " is in storage ", w->storage(), " of ", g.weight_storages.size());
      weight.storage = static_cast<int>(w->storage());
      SMELT_RETURN_IF_ERROR(Take(8 * (SizeOf(w->sizes()) + SizeOf(w->strides()))));
      for (size_t d = 0; d < SizeOf(w->sizes()); ++d) weight.geometry.sizes.push_back(Load(w->sizes(), d));
      for (size_t d = 0; d < SizeOf(w->strides()); ++d) weight.geometry.strides.push_back(Load(w->strides(), d));
      weight.geometry.offset = w->offset();
      absl::Status status = CheckWeight(weight, g.weight_storages[weight.storage]->bytes());
      if (!status.ok()) return Bad(status.message());
      g.weights.push_back(std::move(weight));
    }
    return absl::OkStatus();
  }

  // A segment is mapped once; storages share it.
  absl::StatusOr<Container::WritableCopy*> MapSegment(int segment) {
    if (segment < 0 || segment >= static_cast<int>(container_->segments().size()) ||
        container_->segments()[segment].kind != SegmentKind::kWeights) {
      return Bad("segment ", segment, " holds no weights");
    }
    if (mapped_.size() <= static_cast<size_t>(segment)) mapped_.resize(segment + 1);
    if (!mapped_[segment]) {
      SMELT_ASSIGN_OR_RETURN(Container::WritableCopy copy,
                             container_->MapWritable(segment, 0, container_->segments()[segment].size));
      mapped_[segment] = std::move(copy);
    }
    return &*mapped_[segment];
  }

  // `depth` counts the blocks and graphs inside each other. The stack holds them all.
  absl::Status DecodeBlock(Scope& s, BlockId b, const fb::Block& block, int depth) {
    if (depth > kMaxGraphDepth) return Bad("blocks are nested deeper than ", kMaxGraphDepth);
    Graph& g = *s.graph;
    size_t first_value = s.next_value;
    if (b != g.top()) {
      for (uint32_t i = 0; i < block.params(); ++i) {
        SMELT_ASSIGN_OR_RETURN(
            ValueId v, AddValue(s, [&](absl::string_view n, Type t) { return g.AddParam(b, std::move(t), n); }));
        s.values[s.next_value - 1] = v;
      }
    }
    for (uint32_t i = 0; i < block.nodes(); ++i) SMELT_RETURN_IF_ERROR(DecodeNode(s, b, depth));
    std::vector<ValueId> results;
    SMELT_RETURN_IF_ERROR(DecodeUses(s, block.results(), results));
    for (ValueId v : results) g.AddResult(b, v);
    if (b != g.top()) {
      for (size_t i = first_value; i < s.next_value; ++i) s.values[i] = ValueId();
    }
    return absl::OkStatus();
  }

  absl::Status DecodeNode(Scope& s, BlockId b, int depth) {
    Graph& g = *s.graph;
    if (s.next_node >= SizeOf(s.source->nodes()))
      return Bad("blocks have more than the graph's ", SizeOf(s.source->nodes()), " nodes");
    const fb::Node& in = *s.source->nodes()->Get(static_cast<flatbuffers::uoffset_t>(s.next_node++));
    SMELT_ASSIGN_OR_RETURN(OpName op, Op(in.op()));
    SMELT_RETURN_IF_ERROR(TakePrinted(op.full().size()));
    SMELT_RETURN_IF_ERROR(DecodeUses(s, in.inputs(), uses_));
    Graph::Attributes attributes;
    if (SizeOf(in.attributes()) > 10000) return Bad("a node has ", SizeOf(in.attributes()), " attributes");
    for (size_t i = 0; i < SizeOf(in.attributes()); ++i) {
      const fb::Attribute* a = in.attributes()->Get(static_cast<flatbuffers::uoffset_t>(i));
      SMELT_ASSIGN_OR_RETURN(absl::string_view name, String(a->name()));
      // Names are sorted, as the encoder finds them, so they are different, too.
      if (name.empty() || (i > 0 && !(absl::string_view(attributes.back().first) < name))) {
        return Bad(op.full(), " has attributes out of order at \"", name, "\"");
      }
      std::vector<ValueId> uses = std::move(uses_);  // a subgraph uses it, too
      absl::StatusOr<Attribute> value = DecodeAttribute(a, s.index, depth);
      uses_ = std::move(uses);
      if (!value.ok()) return value.status();
      attributes.emplace_back(std::string(name), *std::move(value));
    }
    NodeId n = g.Append(b, op, uses_, {}, std::move(attributes));
    size_t first_output = s.next_value;
    for (uint32_t i = 0; i < in.outputs(); ++i) {
      SMELT_RETURN_IF_ERROR(
          AddValue(s, [&](absl::string_view name, Type t) { return g.AddNodeOutput(n, std::move(t), name); }));
    }
    if (in.source() != -1) {
      if (in.source() < 0 || in.source() >= static_cast<int64_t>(sources_.size())) {
        return Bad("source ", in.source(), " of ", sources_.size());
      }
      const SourceLocation& source = *sources_[in.source()];
      SMELT_RETURN_IF_ERROR(TakePrinted(source.file.size() + source.text.size()));
      g.SetSource(n, sources_[in.source()]);
    }
    for (uint32_t i = 0; i < in.blocks(); ++i) {
      if (s.next_block >= SizeOf(s.source->blocks()))
        return Bad("nodes have more than the graph's ", SizeOf(s.source->blocks()), " blocks");
      const fb::Block& block = *s.source->blocks()->Get(static_cast<flatbuffers::uoffset_t>(s.next_block++));
      SMELT_RETURN_IF_ERROR(DecodeBlock(s, g.AddBlock(n), block, depth + 1));
    }
    for (uint32_t i = 0; i < in.outputs(); ++i) s.values[first_output + i] = g.node(n).outputs[i];
    return absl::OkStatus();
  }

  absl::StatusOr<OpName> Op(uint32_t index) {
    if (index < ops_.size() && ops_[index]) return ops_[index];
    SMELT_ASSIGN_OR_RETURN(absl::string_view name, String(index));
    if (!IsOpName(name)) return Bad("\"", name.substr(0, 100), "\" is no operator's name");
    if (ops_.size() <= index) ops_.resize(index + 1);
    const auto declared = declared_.find(name);
    return ops_[index] = declared == declared_.end() ? OpName::Get(name) : declared->second;
  }

  const Container* container_;
  const fb::GraphFile* file_ = nullptr;
  std::vector<Type> types_;
  std::vector<Expr> exprs_;
  std::vector<std::shared_ptr<const SourceLocation>> sources_;
  std::vector<bool> graph_used_;
  std::vector<OpName> ops_;                            // by the string's index
  absl::flat_hash_map<std::string, OpName> declared_;  // the user's own operators
  std::vector<std::optional<Container::WritableCopy>> mapped_;
  std::vector<ValueId> uses_;
  mutable int64_t left_ = 0;  // bytes that decoding may still allocate
  int64_t printed_left_ = 0;  // and that the graph's text may still have
};

absl::StatusOr<std::unique_ptr<Graph>> FromContainer(const Container& container, const ReadGraphOptions& options) {
  int metadata = container.Find(SegmentKind::kMetadata);
  if (metadata < 0) return Bad("the file has no metadata");
  if (options.verify_weights) {
    for (size_t i = 0; i < container.segments().size(); ++i)
      SMELT_RETURN_IF_ERROR(container.VerifyDigest(static_cast<int>(i)));
  }
  return Decoder(&container).Run(container.bytes(metadata));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Graph>> DecodeGraph(absl::Span<const uint8_t> bytes) {
  return Decoder(nullptr).Run(bytes);
}

absl::StatusOr<std::unique_ptr<Graph>> ReadGraphFile(absl::string_view path, const ReadGraphOptions& options) {
  SMELT_ASSIGN_OR_RETURN(std::shared_ptr<const Container> container, Container::Open(path, ContentKind::kGraph));
  return Annotate(FromContainer(*container, options), path);
}

absl::StatusOr<std::unique_ptr<Graph>> DecodeGraphFile(absl::Span<const uint8_t> bytes,
                                                       const ReadGraphOptions& options) {
  SMELT_ASSIGN_OR_RETURN(std::shared_ptr<const Container> container, Container::FromMemory(bytes, ContentKind::kGraph));
  return FromContainer(*container, options);
}

}  // namespace smelt
