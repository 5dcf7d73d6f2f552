#include "smelt/fuser/run_kernels.h"

#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/storage_of.h"
#include "smelt/fuser/kernel_interpreter.h"
#include "smelt/fuser/lower_group.h"

namespace smelt {
namespace {

class Runner {
 public:
  Runner(const Graph& g, const RunKernelsOptions& options) : g_(g), options_(options) {}

  absl::StatusOr<RunKernelsResult> Run(const std::vector<Tensor>& inputs) {
    size_t next = 0;
    for (ValueId v : g_.inputs()) {
      if (!g_.value(v).type.IsTensor()) continue;
      if (next == inputs.size()) return absl::InvalidArgumentError("too few inputs");
      tensors_[v] = inputs[next++];
    }
    for (NodeId n : g_.Nodes(g_.top())) SMELT_RETURN_IF_ERROR(Step(n));
    for (ValueId v : g_.outputs()) {
      SMELT_ASSIGN_OR_RETURN(Tensor t, TensorOf(v));
      result_.outputs.push_back(std::move(t));
    }
    return std::move(result_);
  }

 private:
  absl::StatusOr<int64_t> Number(const Expr& e) const { return e.Evaluate(options_.symbols); }
  absl::StatusOr<std::vector<int64_t>> Numbers(const std::vector<Expr>& list) const {
    std::vector<int64_t> out;
    for (const Expr& e : list) {
      SMELT_ASSIGN_OR_RETURN(int64_t v, Number(e));
      out.push_back(v);
    }
    return out;
  }
  absl::StatusOr<Tensor> TensorOf(ValueId v) {
    if (auto it = tensors_.find(v); it != tensors_.end()) return it->second;
    const NodeId def = g_.value(v).def;
    if (!g_.IsParam(def) && g_.node(def).op == op::kPrimConstant) {
      if (const auto* t = std::get_if<Tensor>(g_.node(def).FindAttribute("value"))) return *t;
    }
    return absl::InternalError(absl::StrCat("%", g_.value(v).name, " has no tensor"));
  }

  SymbolicGeometry Layout(ValueId v) {
    // The geometry of the tensors, as constants.
    SymbolicGeometry out = DefaultLayout(g_, v);
    auto t = TensorOf(v);
    if (!t.ok()) return out;
    out.strides.assign(t->strides().begin(), t->strides().end());
    out.offset = t->offset();
    // Symbolic sizes have symbolic strides: a kernel must not be lowered for these numbers alone.
    if (const NodeId view = ViewNodeOf(g_, v); view.valid()) {
      out.strides = RegionGeometry(g_.node(view)).strides;
      out.offset = RegionGeometry(g_.node(view)).offset;
    } else if (!options_.symbols.empty()) {
      out.strides = *g_.value(v).type.tensor().strides;
    }
    return out;
  }

  // A branch for each kind of node: views, kernels of groups, library operators. Each is the shortest way to run it.
  absl::Status Step(NodeId n) {
    const Node& node = g_.node(n);
    if (absl::StartsWith(node.op.name(), op::kPrimNamespace) || node.op == op::kSmeltSize) return absl::OkStatus();
    if (node.op == op::kSmeltView) {
      SMELT_ASSIGN_OR_RETURN(Tensor base, TensorOf(node.inputs[0]));
      Geometry geometry;
      SMELT_ASSIGN_OR_RETURN(geometry.sizes, Numbers(RegionGeometry(node).sizes));
      SMELT_ASSIGN_OR_RETURN(geometry.strides, Numbers(RegionGeometry(node).strides));
      SMELT_ASSIGN_OR_RETURN(geometry.offset, Number(RegionGeometry(node).offset));
      tensors_[node.outputs[0]] = base.ViewAs(RegionGeometry(node).dtype, std::move(geometry));
      return absl::OkStatus();
    }
    if (!IsKernelNode(g_, n)) {
      if (!options_.library) return absl::UnimplementedError(absl::StrCat(node.op.full(), " is no kernel"));
      std::vector<Tensor> args;
      for (ValueId v : node.inputs) {
        if (g_.value(v).type.IsTensor()) {
          SMELT_ASSIGN_OR_RETURN(Tensor t, TensorOf(v));
          args.push_back(std::move(t));
        }
      }
      SMELT_ASSIGN_OR_RETURN(std::vector<Tensor> results, options_.library(g_, n, args));
      for (size_t i = 0; i < results.size(); ++i) tensors_[node.outputs[i]] = results[i];
      return absl::OkStatus();
    }
    for (ValueId v : node.outputs) {
      const ValueId base = RegionWritesOf(g_, v).base;
      if (g_.IsLive(base)) {
        SMELT_ASSIGN_OR_RETURN(Tensor t, TensorOf(base));
        auto storage = Storage::Allocate(t.storage()->bytes());
        std::memcpy(storage->data(), t.storage()->data(), t.storage()->bytes());
        tensors_[v] = Tensor(storage, t.dtype(), t.geometry());
        continue;
      }
      const TensorType& type = g_.value(v).type.tensor();
      SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> sizes, Numbers(*type.sizes));
      SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> strides, Numbers(*type.strides));
      tensors_[v] = Tensor::EmptyStrided(*type.dtype, sizes, strides);
      std::memset(tensors_[v].storage()->data(), 0xa5, tensors_[v].storage()->bytes());
    }
    SMELT_ASSIGN_OR_RETURN(LoweredKernel k, LowerGroup(g_, n, [&](ValueId v) { return Layout(v); }));
    result_.specs.push_back(k.spec.ToString());
    std::vector<int64_t> words;
    for (const Expr& s : k.sizes) {
      SMELT_ASSIGN_OR_RETURN(int64_t v, Number(s));
      words.push_back(v);
    }
    for (size_t i = 0; i < k.params.size(); ++i) {
      const LoweredKernel::Param& p = k.params[i];
      SMELT_ASSIGN_OR_RETURN(Tensor t, TensorOf(p.value));
      SMELT_ASSIGN_OR_RETURN(int64_t offset, Number(p.offset));
      words.push_back(reinterpret_cast<int64_t>(t.storage()->data()) + offset * ItemSize(k.spec.params[i].dtype));
      for (size_t d = 0; d < p.strides.size(); ++d) {
        if (k.spec.params[i].strides[d] != StrideClass::kAny) continue;
        SMELT_ASSIGN_OR_RETURN(int64_t v, Number(p.strides[d]));
        words.push_back(v);
      }
    }
    for (size_t i = 0; i < k.scalars.size(); ++i) {
      const LoweredKernel::Scalar& s = k.scalars[i];
      const bool floating = IsFloating(k.spec.scalars[i]);
      double d = 0;
      int64_t v = 0;
      if (s.is_constant) {
        d = s.constant;
        v = s.int_constant;
      } else if (s.is_expr) {
        SMELT_ASSIGN_OR_RETURN(v, Number(s.expr));
      } else {
        auto it = options_.numbers.find(g_.value(s.value).name);
        if (it == options_.numbers.end())
          return absl::InvalidArgumentError(absl::StrCat("no value for %", g_.value(s.value).name));
        d = it->second;
        v = static_cast<int64_t>(it->second);
      }
      if (floating) std::memcpy(&v, &d, sizeof v);
      words.push_back(v);
    }
    if (static_cast<int64_t>(words.size()) != k.spec.num_words())
      return absl::InternalError("the number of words is not the spec's");
    int64_t status = 0;
    SMELT_RETURN_IF_ERROR(InterpretKernel(k.spec, words.data(), 0, NumTiles(k.spec, words.data()), &status));
    if (status != 0) return absl::OutOfRangeError(absl::StrCat(node.op.full(), ": the kernel's status is ", status));
    return absl::OkStatus();
  }

  const Graph& g_;
  const RunKernelsOptions& options_;
  absl::flat_hash_map<ValueId, Tensor> tensors_;
  RunKernelsResult result_;
};

}  // namespace

absl::StatusOr<RunKernelsResult> RunKernels(const Graph& g, const std::vector<Tensor>& inputs,
                                            const RunKernelsOptions& options) {
  return Runner(g, options).Run(inputs);
}

}  // namespace smelt
