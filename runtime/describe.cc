#include "smelt/runtime/describe.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "smelt/schema/bundle_signature.h"

namespace smelt {
namespace {

ResultPlace PlaceOf(ResultType::Place place) {
  switch (place) {
    case ResultType::Place::kUnknown:
      return ResultPlace::kUnknown;
    case ResultType::Place::kFresh:
      return ResultPlace::kFresh;
    case ResultType::Place::kInArgument:
      return ResultPlace::kInArgument;
    case ResultType::Place::kIsArgument:
      return ResultPlace::kIsArgument;
    case ResultType::Place::kInState:
      return ResultPlace::kInState;
    case ResultType::Place::kIsState:
      return ResultPlace::kIsState;
    case ResultType::Place::kShared:
      return ResultPlace::kShared;
    case ResultType::Place::kNoTensor:
      return ResultPlace::kNoTensor;
  }
  return ResultPlace::kUnknown;
}

class Dims {
 public:
  Dims(const fb::BundleT& bundle, int64_t most_text) : b_(bundle), ranges_(RangesOfExprs(bundle)), left_(most_text) {}

  DimInfo OfNumber(int64_t n) const { return {n, n, n, std::to_string(n)}; }
  DimInfo OfSize(int e) {
    if (e < 0) return DimInfo();
    DimInfo dim = OfInt(e);
    dim.min = std::max<int64_t>(dim.min, 0);
    return dim;
  }
  DimInfo OfInt(int e) {
    const fb::ExprNode& n = b_.exprs[e];
    if (n.op() == fb::ExprOp::Constant) return OfNumber(n.constant());
    DimInfo dim{-1, ranges_[e].min, ranges_[e].max, ""};
    // A hostile file may name one long expression in many places.
    dim.expr = left_ > 0 ? ExprText(b_, e) : "…";
    left_ -= static_cast<int64_t>(dim.expr.size());
    return dim;
  }
  int64_t Constant(int e) const {
    return b_.exprs[e].op() == fb::ExprOp::Constant ? b_.exprs[e].constant() : int64_t{-1};
  }

 private:
  const fb::BundleT& b_;
  const std::vector<ValueRange> ranges_;
  int64_t left_;
};

}  // namespace

void DescribeForCaller(const fb::BundleT& b, const Structure& argument_structure, const Structure& result_structure,
                       const CallerDescription& out) {
  Dims dims(b, int64_t{1} << 20);

  const std::vector<LeafPath> arg_paths = LeafPaths(argument_structure);
  const std::vector<uint8_t> effects = EffectsOnArguments(b);
  for (size_t i = 0; i < out.args->size(); ++i) {
    const fb::ArgDefT& def = *b.args[i];
    ArgInfo& info = (*out.args)[i];
    info.path = arg_paths.empty() ? info.name : arg_paths[i].text;
    for (int e : def.sizes) info.dims.push_back(dims.OfSize(e));
    for (int e : def.strides) info.strides.push_back(dims.Constant(e));
    info.value = {-1, INT64_MIN, INT64_MAX, ""};
    if (def.kind == fb::ArgKind::Int && def.value >= 0) info.value = dims.OfInt(def.value);
    if (def.kind == fb::ArgKind::Int && def.has_constant) info.value = dims.OfNumber(def.int_value);
    const auto has = [&](fb::MutationKind kind) { return (effects[i] & static_cast<uint8_t>(kind)) != 0; };
    info.writes_data = has(fb::MutationKind::Data);
    info.changes_geometry = has(fb::MutationKind::Geometry);
    info.replaces_storage = has(fb::MutationKind::Storage);
    info.resizes = has(fb::MutationKind::Resized);
  }
  for (const auto& s : b.symbols) {
    if (s->source != fb::SymbolSource::ArgInt || b.args[s->arg]->has_constant) continue;
    (*out.args)[s->arg].value = {s->min == s->max ? s->min : -1, s->min, s->max, s->name};
  }

  const std::vector<bool> may_move = StatesThatMayMove(b);
  for (size_t i = 0; i < out.states->size(); ++i) (*out.states)[i].may_move = may_move[i];

  const std::vector<LeafPath> result_paths = LeafPaths(result_structure);
  const std::vector<ResultType> types = ResultTypes(b);
  for (size_t i = 0; i < out.results->size(); ++i) {
    const ResultType& type = types[i];
    ResultInfo& info = (*out.results)[i];
    info.node = b.outputs[i]->node.empty() ? info.name : b.outputs[i]->node;
    info.path = result_paths.empty() ? info.name : result_paths[i].text;
    info.kind = static_cast<ValueKind>(type.kind);
    info.has_dtype = type.dtype >= 0;
    if (info.has_dtype) info.dtype = static_cast<DType>(type.dtype);
    info.has_sizes = type.has_sizes;
    for (const ResultSize& s : type.sizes) {
      info.dims.push_back(s.expr < 0 && s.number >= 0 ? dims.OfNumber(s.number) : dims.OfSize(s.expr));
    }
    info.place = PlaceOf(type.place);
    info.index = type.index;
  }
}

}  // namespace smelt
