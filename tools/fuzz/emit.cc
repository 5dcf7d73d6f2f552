#include "smelt/tools/fuzz/emit.h"

#include <complex>
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace smelt {
namespace {

using Json = nlohmann::ordered_json;

std::string Hex(const Storage& s) {
  return absl::BytesToHexString(absl::string_view(s.data(), static_cast<size_t>(s.bytes())));
}

Json ConstantToJson(const ConstantValue& c) {
  return std::visit(
      [](const auto& v) -> Json {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::monostate> || std::is_same_v<T, Tensor> ||
                      std::is_same_v<T, std::complex<double>>) {
          return nullptr;  // of these three, samples have None alone
        } else {
          return v;
        }
      },
      c);
}

class GraphWriter {
 public:
  explicit GraphWriter(const Graph& g) : g_(g) {}

  Json Block(BlockId b) const {
    Json nodes = Json::array();
    for (NodeId n : g_.Nodes(b)) nodes.push_back(Node(n));
    return {{"params", Names(g_.params(b))}, {"nodes", std::move(nodes)}, {"results", Names(g_.results(b))}};
  }

 private:
  Json Names(absl::Span<const ValueId> values) const {
    Json out = Json::array();
    for (ValueId v : values) out.push_back(g_.value(v).name);
    return out;
  }
  Json Node(NodeId n) const {
    const smelt::Node& node = g_.node(n);
    Json out = {{"op", node.op.full()}, {"inputs", Names(node.inputs)}, {"outputs", Names(node.outputs)}};
    if (node.op == "prim::Constant") out["value"] = ConstantToJson(*GetConstant(g_, node.outputs[0]));
    for (BlockId b : node.blocks) out["blocks"].push_back(Block(b));
    return out;
  }
  const Graph& g_;
};

Json GeometryToJson(int storage, DType dtype, const Geometry& g) {
  return {{"storage", storage},
          {"dtype", std::string(Name(dtype))},
          {"sizes", g.sizes},
          {"strides", g.strides},
          {"offset", g.offset}};
}

Json NumberToJson(const Datum& d) {
  if (d.IsInt()) return d.as_int();
  if (d.IsFloat()) return d.as_float();
  if (d.IsBool()) return d.as_bool();
  return nullptr;
}

// The values that a caller sees: each tensor by the number of its storage in "storages", those of the call and of the
// states first.
class SeenWriter {
 public:
  SeenWriter(const Sample& sample, const Seen& seen) {
    for (const auto& s : seen.call.storages) Number(s);
    states_.resize(sample.graph->weight_storages.size());
    for (size_t w = 0; w < seen.states.size(); ++w)
      states_[sample.graph->weights[w].storage] = seen.states[w].storage();
    out_["refused"] = seen.status.ok() ? Json(nullptr) : Json(std::string(seen.status.message()));
    out_["outputs"] = out_["args"] = out_["states"] = Json::array();
    // A storage that set_ took from its state is no longer in a weight.
    for (const auto& s : states_) Number(s);
    for (const Datum& d : seen.outputs) out_["outputs"].push_back(Value(d, seen));
    for (const Datum& d : seen.call.args) out_["args"].push_back(Value(d, seen));
    for (const Tensor& t : seen.states) out_["states"].push_back(Value(Datum(t), seen));
    out_["storages"] = Json::array();
    for (const auto& s : storages_) out_["storages"].push_back(s == nullptr ? "" : Hex(*s));
  }
  Json Take() { return std::move(out_); }

 private:
  int Number(const std::shared_ptr<Storage>& s) {
    for (size_t k = 0; k < storages_.size(); ++k) {
      if (storages_[k] == s && s != nullptr) return static_cast<int>(k);
    }
    storages_.push_back(s);
    return static_cast<int>(storages_.size()) - 1;
  }
  Json Value(const Datum& d, const Seen& seen) {
    if (!d.IsTensor()) return NumberToJson(d);
    const Tensor& t = d.tensor();
    Json out = GeometryToJson(Number(t.storage()), t.dtype(), t.geometry());
    for (size_t i = 0; i < seen.call.args.size(); ++i) {
      if (seen.call.args[i].IsTensor() && seen.call.args[i].tensor().IsSame(t)) {
        out["is"] = absl::StrCat("argument ", i);
        return out;
      }
    }
    for (size_t i = 0; i < seen.states.size(); ++i) {
      if (seen.states[i].IsSame(t)) {
        out["is"] = absl::StrCat("state ", i);
        return out;
      }
    }
    return out;
  }

  std::vector<std::shared_ptr<Storage>> storages_, states_;
  Json out_;
};

}  // namespace

std::string EmitSample(const Sample& sample, const Seen& seen, const std::string& name) {
  const Graph& g = *sample.graph;
  Json out = {{"name", name}, {"body", GraphWriter(g).Block(g.top())}};
  out["inputs"] = Json::array();  // of each of the body's parameters: the weight that it is, or -1
  for (const InputInfo& i : g.input_infos) out["inputs"].push_back(i.kind == InputInfo::Kind::kWeight ? i.weight : -1);
  out["weight_storages"] = Json::array();
  for (const auto& s : g.weight_storages) out["weight_storages"].push_back(Hex(*s));
  out["weights"] = Json::array();
  for (const Weight& w : g.weights) out["weights"].push_back(GeometryToJson(w.storage, w.dtype, w.geometry));
  out["storages"] = Json::array();
  for (const CallStorage& s : sample.call.storages) out["storages"].push_back(absl::BytesToHexString(s.bytes));
  out["args"] = Json::array();
  for (const CallArg& a : sample.call.args) {
    if (a.same_as >= 0) {
      out["args"].push_back({{"same", a.same_as}});
    } else if (a.storage >= 0) {
      out["args"].push_back(GeometryToJson(a.storage, a.dtype, a.geometry));
    } else {
      out["args"].push_back(NumberToJson(a.number));
    }
  }
  out["seen"] = SeenWriter(sample, seen).Take();
  return absl::StrCat(out.dump(), "\n");
}

}  // namespace smelt
