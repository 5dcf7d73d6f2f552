// Tables that the plans of one bundle share: expressions, kernels, constants, states.
#ifndef SMELT_CODEGEN_BUNDLE_TABLES_H_
#define SMELT_CODEGEN_BUNDLE_TABLES_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "smelt/codegen/expr_table.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/tensor/tensor.h"
#include "smelt/fuser/kernel_spec.h"
#include "smelt/schema/bundle_generated.h"

namespace smelt {

struct KernelTable {
  std::vector<KernelSpec> kernels;
  std::vector<int> uses;
  absl::flat_hash_map<std::string, int> index;  // by spec text

  int Add(const KernelSpec& spec);
};

// The storages of a bundle: those of the weights, which its graphs have in common, and then those of tensors that are
// written in a graph itself.
struct StorageTable {
  std::vector<Tensor> constants;
  absl::flat_hash_map<std::string, int> constant_index;
  std::vector<bool> mutated;  // by storage; may be shorter
};

struct BundleTables {
  BundleTables(const Graph& g, std::shared_ptr<KernelTable> k, std::shared_ptr<StorageTable> s)
      : signature(g), kernels(std::move(k)), storages(std::move(s)) {}
  const Graph& signature;
  ExprTable exprs;
  std::shared_ptr<KernelTable> kernels;
  std::shared_ptr<StorageTable> storages;
  std::vector<std::unique_ptr<fb::PlanT>> plans;
  absl::flat_hash_set<std::string> data_symbols;
  std::vector<OpName> custom_operators;  // that plans call

  void MarkMutated(int storage);
  // Returns the storage number of a constant tensor. Equal tensors share a storage.
  int AddConstant(const Tensor& t);
  // Returns the number of a symbol whose value a step reads.
  int AddDataSymbol(const std::string& name);
  bool DependsOnData(const Expr& e) const;
  // Adds a condition on the calls that run the plan: a op b. Every plan also has the conditions of the signature's
  // sizes.
  void AddGuard(fb::PlanT& plan, const Expr& a, fb::ExprOp op, const Expr& b, const std::string& message);
  void AddSizeGuards(fb::PlanT& plan);
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_BUNDLE_TABLES_H_
