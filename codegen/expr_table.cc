#include "smelt/codegen/expr_table.h"

namespace smelt {

int ExprTable::Push(fb::ExprNode n) {
  nodes_.push_back(n);
  return static_cast<int>(nodes_.size()) - 1;
}

int ExprTable::Add(const Expr& e) {
  auto it = known_.find(e);
  if (it != known_.end()) return it->second;
  const Expr::View v = e.Decompose();
  int index = -1;
  auto binary = [&](fb::ExprOp op) {
    const int a = Add(v.operands[0]);
    const int b = Add(v.operands[1]);
    index = Push(fb::ExprNode(op, a, b, 0, 0));
  };
  switch (v.op) {
    case Expr::Op::kConstant:
      index = Push(fb::ExprNode(fb::ExprOp::Constant, 0, 0, 0, v.constant));
      break;
    case Expr::Op::kSymbol: {
      auto [s, fresh] = symbol_index_.try_emplace(v.symbol, static_cast<int>(symbols_.size()));
      if (fresh) symbols_.push_back(v.symbol);
      index = Push(fb::ExprNode(fb::ExprOp::Symbol, s->second, 0, 0, 0));
      break;
    }
    case Expr::Op::kAdd:
      binary(fb::ExprOp::Add);
      break;
    case Expr::Op::kMul:
      binary(fb::ExprOp::Mul);
      break;
    case Expr::Op::kFloorDiv:
      binary(fb::ExprOp::FloorDiv);
      break;
    case Expr::Op::kMod:
      binary(fb::ExprOp::Mod);
      break;
    case Expr::Op::kMin:
      binary(fb::ExprOp::Min);
      break;
    case Expr::Op::kMax:
      binary(fb::ExprOp::Max);
      break;
  }
  known_.emplace(e, index);
  return index;
}

std::vector<int> ExprTable::AddAll(const std::vector<Expr>& list) {
  std::vector<int> out;
  for (const Expr& e : list) out.push_back(Add(e));
  return out;
}

int ExprTable::AddCompare(fb::ExprOp op, const Expr& a, const Expr& b) {
  const int x = Add(a);
  const int y = Add(b);
  return Push(fb::ExprNode(op, x, y, 0, 0));
}

int ExprTable::AddLogic(fb::ExprOp op, int a, int b) { return Push(fb::ExprNode(op, a, b < 0 ? a : b, 0, 0)); }

}  // namespace smelt
