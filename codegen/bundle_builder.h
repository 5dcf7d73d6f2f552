// Turns pure, grouped graphs and their conventions into the plans of one bundle.
//
//   BundleBuilder builder(signature_graph);           // the graph as imported: arguments, outputs, states
//   SMELT_RETURN_IF_ERROR(builder.AddPlan(pure_graph, convention, fb::VariantKind::Distinct));
//   for (const KernelSpec& spec : builder.kernels()) ...   // to be compiled, each once
//   fb::BundleT bundle = builder.Finish();                 // without targets and segments
//
// The builder decides what is written in place. A smelt::write_region whose base dies there writes into the base's
// memory. A result that is to be an argument's final contents is computed directly into the argument if no one still
// needs the old contents. Otherwise it is copied back at the end, region by region. VerifyPlan (schema/) checks the
// outcome.
#ifndef SMELT_CODEGEN_BUNDLE_BUILDER_H_
#define SMELT_CODEGEN_BUNDLE_BUILDER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "smelt/core/convention/convention.h"
#include "smelt/core/ir/graph.h"
#include "smelt/fuser/kernel_spec.h"
#include "smelt/fuser/lowered_groups.h"
#include "smelt/schema/bundle_generated.h"

namespace smelt {

struct BundleTables;

struct PlanStats {
  int launches = 0;          // places where a generated kernel is launched
  int distinct_kernels = 0;  // in this plan
  int library_calls = 0;
  int copies = 0;
};

class BundleBuilder {
 public:
  // `signature` is the graph as imported, before any pass; it must outlive the builder.
  explicit BundleBuilder(const Graph& signature);
  // The call of an eager-order program. Its kernels are numbered with those of `outer`, which must outlive it.
  BundleBuilder(const Graph& signature, BundleBuilder& outer);
  // Another method of the bundle that `other` builds a method of: their kernels and storages are numbered together. The
  // graphs have one table of weights. Finish comes when all methods have their plans.
  enum OtherMethod { kOtherMethod };
  BundleBuilder(const Graph& signature, const BundleBuilder& other, OtherMethod);
  ~BundleBuilder();

  struct PlanOptions {
    fb::VariantKind variant = fb::VariantKind::Distinct;
    bool exported_strides = true;                                // the plan holds for the strides of the signature only
    fb::OtherStrides other_strides = fb::OtherStrides::Refused;  // with exported_strides
    std::vector<int64_t> result_rule;                            // of the fresh results, for copied arguments
    // Assumptions about the call, as expressions that must not be 0.
    struct Guard {
      Expr a, b;
      fb::ExprOp op;  // Le, Eq
      std::string message;
    };
    std::vector<Guard> guards;
    LoweredGroups* lowered = nullptr;  // of this graph; may hold groups that fusion has lowered
  };
  absl::StatusOr<PlanStats> AddPlan(const Graph& pure, const Convention& convention, const PlanOptions& options);

  // Adds a plan that is an eager-order program, with the arguments and weight storages that it writes.
  void AddEagerPlan(std::unique_ptr<fb::EagerProgramT> program, std::vector<int> written_args,
                    const std::vector<int>& written_states);
  // Numbers for the program's instructions: an expression's number, a tensor constant's storage, a data symbol's
  // number.
  int AddExpr(const Expr& e);
  int AddConstantStorage(const Tensor& t);
  int AddDataSymbol(const std::string& name);
  // Returns the number of a declared operator, which whoever runs the bundle implements.
  int AddCustomOperator(OpName op);

  // A plan that refuses every call: PyTorch refuses the program itself.
  void AddRefusal(const std::string& message, const std::string& source);

  const std::vector<KernelSpec>& kernels() const;
  const std::vector<int>& kernel_uses() const;
  // Tensors written in the graph itself; their storages follow those of the signature's weights.
  const std::vector<Tensor>& constants() const;
  // Returns the bundle without targets, storages' segments and kernels' keys. It is an error if no argument determines
  // a size symbol.
  absl::StatusOr<fb::BundleT> Finish();

 private:
  std::unique_ptr<BundleTables> tables_;
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_BUNDLE_BUILDER_H_
