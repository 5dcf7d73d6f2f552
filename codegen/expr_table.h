// The expressions of a bundle: each occurs once, in postfix order, with numbered symbols.
#ifndef SMELT_CODEGEN_EXPR_TABLE_H_
#define SMELT_CODEGEN_EXPR_TABLE_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "smelt/core/symbol/expr.h"
#include "smelt/schema/bundle_generated.h"

namespace smelt {

class ExprTable {
 public:
  // Returns the number of `e`'s node. Symbols are numbered in order of first use.
  int Add(const Expr& e);
  std::vector<int> AddAll(const std::vector<Expr>& list);
  // Add a <= b and a == b as expressions that are 0 or 1.
  int AddCompare(fb::ExprOp op, const Expr& a, const Expr& b);
  // Adds And, Or, Not (b = -1) of nodes.
  int AddLogic(fb::ExprOp op, int a, int b);

  const std::vector<fb::ExprNode>& nodes() const { return nodes_; }
  const std::vector<std::string>& symbols() const { return symbols_; }

 private:
  int Push(fb::ExprNode n);
  std::vector<fb::ExprNode> nodes_;
  std::vector<std::string> symbols_;
  absl::flat_hash_map<std::string, int> symbol_index_;
  absl::flat_hash_map<Expr, int> known_;
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_EXPR_TABLE_H_
